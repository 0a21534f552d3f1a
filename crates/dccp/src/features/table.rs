//! Table of all features of a connection, and processing of their options (RFC 4340 §6.6).

use std::collections::{BTreeMap, VecDeque};

use super::ends::{Location, Role};
use super::error::{NegotiationError, ProposeError};
use super::negotiation::{Negotiation, State};
use super::number::{Feature, Rule};
use crate::options::{MAX_OPTION_DATA, Opt, OptionList, Side};
use crate::packet::PacketType;
use crate::seq::Seq;

/// Maximum number of queued Confirms; beyond it the peer's Change goes unanswered and is retransmitted (RFC 4340
/// §6.6.3). Chosen by us: a higher value lets a peer provoke more.
const MAX_CONFIRMS: usize = 64;

/// Result of a finished negotiation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreement {
    /// The feature.
    pub feature: Feature,
    /// Its location.
    pub location: Location,
    /// The value from now on; the old one if the ends share no value.
    pub value: u64,
}

/// A Confirm queued for the next packet.
#[derive(Clone, Debug)]
struct Waiting {
    side: Side,
    feature: u8,
    values: Vec<u8>,
}

/// The packet whose options are being processed.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    seq: Seq,
    ack: Option<Seq>,
    /// Whether the packet came in order: after FGSR as it was before the packet (§6.6.4).
    in_order: bool,
}

/// Feature negotiation, sans-IO.
///
/// For a received, sequence-valid packet call [`begin_packet`](Self::begin_packet), then [`on_option`](Self::on_option)
/// for each Change and Confirm in order, then [`on_ack`](Self::on_ack). For each packet to be sent except Data call
/// [`poll_options`](Self::poll_options). While [`is_negotiating`](Self::is_negotiating), run a timer of one round trip
/// that backs off to 64 s (§6.6.3), call [`retransmit`](Self::retransmit) when it fires, and send a packet.
///
/// ```
/// use timeous_dccp::{Feature, Features, Location, OptionList, PacketType, Role, Seq};
/// // The first example of RFC 4340 §6.5: the client wants to choose the server's CCID.
/// let mut client = Features::new(Role::Client);
/// let mut server = Features::new(Role::Server);
/// client.propose(Feature::Ccid, Location::Remote, &[2, 3, 1], false)?;
/// server.prefer(Feature::Ccid, Location::Local, &[3, 2, 1])?;
///
/// let mut options = OptionList::new();
/// client.poll_options(Seq::new(10), PacketType::Request, &mut options);
/// assert_eq!(options.as_bytes(), [34, 6, 1, 2, 3, 1]);
/// server.begin_packet(Seq::new(10), None);
/// for item in options.iter(PacketType::Request) {
///     let item = item?;
///     server.on_option(&item.opt, item.mandatory)?;
/// }
/// assert_eq!(server.local(Feature::Ccid), 3);
///
/// options.reset(100);
/// server.poll_options(Seq::new(70), PacketType::Response, &mut options);
/// assert_eq!(options.as_bytes(), [33, 7, 1, 3, 3, 2, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Features {
    role: Role,
    table: BTreeMap<(Feature, Location), Negotiation>,
    waiting: VecDeque<Waiting>,
    arrived: Option<Arrived>,
    /// Feature Greatest Sequence Number Received (§6.6.4); `None` before the first.
    fgsr: Option<Seq>,
    /// Feature Greatest Sequence Number Sent (§6.6.4); `None` before the first.
    fgss: Option<Seq>,
    /// Whether any negotiation is unfinished; cached, since it is read for each packet and rarely true.
    open: bool,
    /// Cached values of all features, local and remote; read for each packet.
    values: [[u64; 2]; Feature::ALL.len()],
}

impl Features {
    /// Creates the features with initial values and default preferences: CCID 2 only, no short numbers, Ack Vectors and
    /// NDP Counts if the peer wants them, full checksum coverage.
    pub fn new(role: Role) -> Self {
        let table = Feature::ALL
            .into_iter()
            .flat_map(|feature| {
                [Location::Local, Location::Remote].map(|at| ((feature, at), Negotiation::new(feature)))
            })
            .collect();
        let values = Feature::ALL.map(|feature| [feature.initial(); 2]);
        Self { role, table, waiting: VecDeque::new(), arrived: None, fgsr: None, fgss: None, open: false, values }
    }

    /// Value of a local feature, such as the CCID of what we send.
    pub fn local(&self, feature: Feature) -> u64 {
        self.value(feature, Location::Local)
    }

    /// Value of a feature at the peer, such as the CCID of what it sends.
    pub fn remote(&self, feature: Feature) -> u64 {
        self.value(feature, Location::Remote)
    }

    /// The value of a feature.
    pub fn value(&self, feature: Feature, location: Location) -> u64 {
        self.values[feature.place()][location as usize]
    }

    /// Sets our preferences for a negotiable feature, most preferred first, without asking: they count once the peer
    /// asks. If we have told the peer another list, the new one is announced.
    ///
    /// # Errors
    /// [`ProposeError`] if the values are illegal, or the feature is non-negotiable.
    pub fn prefer(&mut self, feature: Feature, location: Location, values: &[u64]) -> Result<(), ProposeError> {
        if feature.rule() == Rule::NonNegotiable {
            return Err(ProposeError::NotOurs { feature, location });
        }
        check_values(feature, location, values)?;
        self.wish(feature, location, values);
        self.take_stock();
        Ok(())
    }

    /// Asks the peer to agree on one of `values`, most preferred first; for a non-negotiable feature, announces its one
    /// value. With `mandatory`, a peer that cannot agree resets the connection (§6.6.9).
    ///
    /// # Errors
    /// [`ProposeError`] if the values are illegal, or it is a non-negotiable feature of the peer's.
    pub fn propose(
        &mut self,
        feature: Feature,
        location: Location,
        values: &[u64],
        mandatory: bool,
    ) -> Result<(), ProposeError> {
        check_values(feature, location, values)?;
        self.wish(feature, location, values);
        if let Some(negotiation) = self.table.get_mut(&(feature, location)) {
            if negotiation.mandatory != mandatory && matches!(negotiation.state, State::Changing { .. }) {
                // The repeated option would differ from the one sent (§6.6.4).
                negotiation.state = State::Unstable;
            }
            negotiation.mandatory = mandatory;
            if negotiation.state == (State::Stable { announce: false }) {
                negotiation.state = State::Stable { announce: true };
            }
        }
        self.take_stock();
        Ok(())
    }

    /// Updates the cached fields after a negotiation may have begun or ended.
    fn take_stock(&mut self) {
        for (&(feature, location), negotiation) in &self.table {
            self.values[feature.place()][location as usize] = negotiation.value;
        }
        self.open = !self.table.values().all(Negotiation::is_settled);
    }

    fn wish(&mut self, feature: Feature, location: Location, values: &[u64]) {
        if let Some(negotiation) = self.table.get_mut(&(feature, location)) {
            negotiation.wish(values);
        }
    }

    /// Begins the options of a received packet, with its Sequence Number and any Acknowledgement Number.
    pub fn begin_packet(&mut self, seq: Seq, ack: Option<Seq>) {
        let in_order = self.fgsr.is_none_or(|fgsr| seq.is_after(fgsr));
        self.arrived = Some(Arrived { seq, ack, in_order });
    }

    /// Processes a Change or a Confirm of the packet begun; ignores other options. Returns the agreement, if this
    /// option finished a negotiation.
    ///
    /// # Errors
    /// The peer's [`NegotiationError`], for which the connection must be reset.
    pub fn on_option(&mut self, opt: &Opt<'_>, mandatory: bool) -> Result<Option<Agreement>, NegotiationError> {
        let (Opt::Change { .. } | Opt::Confirm { .. }, Some(arrived)) = (opt, self.arrived) else { return Ok(None) };
        if arrived.in_order {
            self.fgsr = Some(arrived.seq);
        }
        let agreed = match *opt {
            Opt::Change { side, feature, values } => self.on_change(arrived, side, feature, values, mandatory),
            Opt::Confirm { side, feature, values } => self.on_confirm(arrived, side, feature, values),
            _ => Ok(None),
        };
        self.take_stock();
        agreed
    }

    /// Notes that the peer has seen our packet `ack`, after the options of its packet were processed: a Change that it
    /// has seen and not answered is retransmitted (§6.6.3).
    pub fn on_ack(&mut self, ack: Seq) {
        if !self.open {
            return;
        }
        for negotiation in self.table.values_mut() {
            if let State::Changing { last, again } = &mut negotiation.state {
                *again |= !last.is_after(ack);
            }
        }
    }

    /// Retransmits every unanswered Change on the next packet.
    pub fn retransmit(&mut self) {
        for negotiation in self.table.values_mut() {
            if let State::Changing { again, .. } = &mut negotiation.state {
                *again = true;
            }
        }
    }

    /// Whether one of our Changes awaits its answer, or is to be sent.
    pub fn is_negotiating(&self) -> bool {
        self.open
    }

    /// Whether no Change of ours for this feature awaits its answer, or is to be sent.
    pub(crate) fn is_settled(&self, feature: Feature, location: Location) -> bool {
        !self.open || self.table.get(&(feature, location)).is_none_or(Negotiation::is_settled)
    }

    /// Whether [`Features::poll_options`] has options for a packet that carries an Acknowledgement Number.
    pub fn wants_to_send(&self) -> bool {
        !self.waiting.is_empty() || self.open && self.table.values().any(Negotiation::is_due)
    }

    /// Appends the options due to those of the packet `seq`, as far as they fit: Confirms if the packet's type has an
    /// Acknowledgement Number, and Changes; on DCCP-Data nothing (§6). Appended options count as sent.
    pub fn poll_options(&mut self, seq: Seq, packet: PacketType, out: &mut OptionList) {
        if packet == PacketType::Data {
            return;
        }
        while packet.has_ack() {
            let Some(Waiting { side, feature, values }) = self.waiting.front() else { break };
            if out.push(&Opt::Confirm { side: *side, feature: *feature, values }).is_err() {
                break;
            }
            self.waiting.pop_front();
        }
        if !self.open {
            return;
        }
        for (&(feature, location), negotiation) in &mut self.table {
            if !negotiation.is_due() {
                continue;
            }
            let values = feature.encode(negotiation.preferences.iter().copied());
            let opts =
                [Opt::Mandatory, Opt::Change { side: location.our_side(), feature: feature.number(), values: &values }];
            let opts = if negotiation.mandatory { &opts } else { &opts[1..] };
            if out.push_all(opts).is_ok() && negotiation.change_sent(seq) {
                self.fgss = Some(seq);
            }
        }
    }

    fn on_change(
        &mut self,
        arrived: Arrived,
        side: Side,
        number: u8,
        bytes: &[u8],
        mandatory: bool,
    ) -> Result<Option<Agreement>, NegotiationError> {
        let location = Location::spoken_of(side);
        let side = location.our_side();
        let role = self.role;
        let kind = Opt::Change { side: location.their_side(), feature: number, values: bytes }.kind();
        let first = bytes.first().copied().unwrap_or(0);
        let Some((feature, negotiation)) = self.known(number, location) else {
            if mandatory {
                return Err(NegotiationError::Unknown { kind, feature: number, first });
            }
            self.answer(side, number, Vec::new());
            return Ok(None);
        };
        if !arrived.in_order || negotiation.state == State::Unstable {
            return Ok(None);
        }
        let Some(values) = valid_change(feature, location, bytes) else {
            if mandatory {
                return Err(NegotiationError::Invalid { kind, feature, first });
            }
            self.answer(side, number, Vec::new());
            return Ok(None);
        };
        let confirmed = match feature.rule() {
            Rule::NonNegotiable => {
                negotiation.value = values[0];
                vec![negotiation.value]
            }
            Rule::ServerPriority => {
                match negotiation.reconciled(role, &values) {
                    Some(value) => negotiation.value = value,
                    // Either end may have marked its Change mandatory (§6.6.9).
                    None if mandatory || negotiation.mandatory => {
                        return Err(NegotiationError::NothingShared { kind, feature, first });
                    }
                    None => {}
                }
                // The value changes now, before the Confirm is sent: the following options of this packet may belong to
                // the new CCID (§10.3).
                negotiation.answered_by_change();
                std::iter::once(negotiation.value).chain(negotiation.preferences.iter().copied()).collect()
            }
        };
        let value = negotiation.value;
        self.answer(side, number, feature.encode(confirmed));
        Ok(Some(Agreement { feature, location, value }))
    }

    fn on_confirm(
        &mut self,
        arrived: Arrived,
        side: Side,
        number: u8,
        bytes: &[u8],
    ) -> Result<Option<Agreement>, NegotiationError> {
        let location = Location::spoken_of(side);
        let kind = Opt::Confirm { side, feature: number, values: bytes }.kind();
        let role = self.role;
        // "its Acknowledgement Number is less than FGSS": the answer is to an older Change (§6.6.4).
        let answers_last = arrived.ack.is_some_and(|ack| self.fgss.is_none_or(|fgss| !ack.is_before(fgss)));
        let Some((feature, negotiation)) = self.known(number, location) else { return Ok(None) };
        if !arrived.in_order || !answers_last || !matches!(negotiation.state, State::Changing { .. }) {
            return Ok(None);
        }
        if bytes.is_empty() {
            if feature.is_required() {
                return Err(NegotiationError::RequiredRefused { kind, feature });
            }
        } else {
            let values = feature.decode(bytes).filter(|values| negotiation.is_confirmed_by(role, values));
            let Some(values) = values else {
                // It may answer an older Change of ours, although it acknowledges a packet after the newest one: that
                // packet may have arrived while the Change was lost. The retransmitted Change will be answered.
                if negotiation.has_changed_its_mind {
                    return Ok(None);
                }
                return Err(NegotiationError::WrongConfirm { kind, feature, first: bytes[0] });
            };
            negotiation.value = values[0];
        }
        negotiation.state = State::Stable { announce: false };
        let (value, wishes) = (negotiation.value, negotiation.preferences.clone());
        self.renew_answer(location.our_side(), feature, value, &wishes);
        Ok(Some(Agreement { feature, location, value }))
    }

    /// Updates a queued Confirm to the current value; with an old one the peer would take that for agreed.
    fn renew_answer(&mut self, side: Side, feature: Feature, value: u64, wishes: &[u64]) {
        let number = feature.number();
        let waiting = self.waiting.iter_mut().find(|waiting| (waiting.side, waiting.feature) == (side, number));
        if let Some(waiting) =
            waiting.filter(|waiting| !waiting.values.is_empty() && feature.rule() == Rule::ServerPriority)
        {
            waiting.values = feature.encode(std::iter::once(value).chain(wishes.iter().copied()));
        }
    }

    /// Returns the feature with this number, if supported.
    fn known(&mut self, number: u8, location: Location) -> Option<(Feature, &mut Negotiation)> {
        let feature = Feature::from_number(number)?;
        let negotiation = self.table.get_mut(&(feature, location))?;
        (!negotiation.preferences.is_empty()).then_some((feature, negotiation))
    }

    /// Queues a Confirm, which replaces a queued one for the same feature.
    fn answer(&mut self, side: Side, feature: u8, values: Vec<u8>) {
        self.waiting.retain(|waiting| (waiting.side, waiting.feature) != (side, feature));
        if self.waiting.len() < MAX_CONFIRMS {
            self.waiting.push_back(Waiting { side, feature, values });
        }
    }
}

impl Location {
    /// Location of a feature in the peer's option: Remote for L, Local for R.
    const fn spoken_of(side: Side) -> Self {
        match side {
            Side::L => Self::Remote,
            Side::R => Self::Local,
        }
    }

    const fn our_side(self) -> Side {
        match self {
            Self::Local => Side::L,
            Self::Remote => Side::R,
        }
    }

    const fn their_side(self) -> Side {
        match self {
            Self::Local => Side::R,
            Self::Remote => Side::L,
        }
    }
}

/// Decodes the values of a Change; `None` if they are invalid (§6.6.8).
fn valid_change(feature: Feature, location: Location, bytes: &[u8]) -> Option<Vec<u64>> {
    let values = feature.decode(bytes)?;
    match (feature.rule(), values.as_slice()) {
        (_, []) => None,
        // Unknown values of server-priority features are "handled as a matter of course".
        (Rule::ServerPriority, _) => Some(values),
        // "Change R … MUST NOT be sent for non-negotiable features" (§6.3.2).
        (Rule::NonNegotiable, &[value]) if location == Location::Remote && feature.is_legal(value) => Some(values),
        (Rule::NonNegotiable, _) => None,
    }
}

fn check_values(feature: Feature, location: Location, values: &[u64]) -> Result<(), ProposeError> {
    let most = match feature.rule() {
        Rule::NonNegotiable if location == Location::Remote => return Err(ProposeError::NotOurs { feature, location }),
        Rule::NonNegotiable => 1,
        // A Confirm carries the feature number, the value and the list.
        Rule::ServerPriority => MAX_OPTION_DATA - 2,
    };
    if values.is_empty() || values.len() > most {
        return Err(ProposeError::Count { feature, count: values.len() });
    }
    match values.iter().find(|&&value| !feature.is_legal(value)) {
        Some(&value) => Err(ProposeError::Illegal { feature, value }),
        None => Ok(()),
    }
}
