//! A connection: its state, its commands, and the driving order (RFC 4340 §8).

mod acks;
mod again;
mod arrival;
mod asked;
mod closing;
mod config;
mod control;
mod delivered;
mod delivery;
mod drops;
mod events;
mod handshake;
mod heed;
mod moving;
mod options;
mod parity;
mod protection;
mod rates;
mod receive;
mod reception;
pub(crate) mod refusal;
mod repeats;
mod restraint;
mod round;
mod seal;
mod sequence;
mod state;
mod timeouts;
mod timers;
mod to_answer;
mod transmit;
mod wishes;

use std::collections::VecDeque;

use timeous_cm::{CmError, Destination, FlowId, Manager};
use timeous_core::{AduSource, DriveOrder, Duration, Ecn, Instant, Misuse, RateLimit, Rng, Transmit, Transport};

pub use config::{Config, Parity};
pub use events::{CloseReason, Event, Statistics};
pub use state::State;

use crate::ack_vector::AckVector;
use crate::ccid::Ccid;
use crate::ccid2::{AckRatio, PeerGaps, Receiver, Sender};
use crate::ccid3;
use crate::features::{Feature, Features, Role};
use crate::options::OptionList;
use crate::reset::{ResetCode, ResetReason};
use crate::seq::Seq;
use crate::service::ServiceCode;
use again::Repeats;
use arrival::Arrival;
use asked::Handshake;
use control::Control;
use protection::Protection;
use reception::Reception;
use restraint::Restraint;
use round::{PeerPace, Round};
use sequence::Sequence;
use timers::{Timer, TimerTable};
use to_answer::ToAnswer;

/// The round-trip time before there is an estimate (RFC 4340 §3.4).
const DEFAULT_RTT: Duration = Duration::from_millis(200);
/// "not more than eight DCCP-Syncs per second" (RFC 4340 §7.5.4).
const SYNCS_PER_SECOND: u32 = 8;
/// How much a record of arrivals may take in an acknowledgement: one Ack Vector option.
const VECTOR_BYTES: usize = 253;
/// How long packets that the peer knows to have arrived are remembered, so that late ones are told from duplicates.
const LATE_WINDOW: u32 = 64;

/// Between whom a connection is, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The peer's host, for the Congestion Manager.
    pub destination: Destination,
    /// The DCCP port here.
    pub local_port: u16,
    /// The DCCP port there.
    pub remote_port: u16,
    /// What is asked for.
    pub service: ServiceCode,
}

/// A DCCP connection, sans-IO. Each direction has the congestion control that was negotiated for it.
///
/// The driving order is that of [`Transport`]. Every ADU that is pulled is told of by exactly one
/// [`Event::Acked`] or [`Event::Lost`] for each time that it was pulled, at the latest before [`Event::Closed`].
///
/// ```
/// use std::net::{IpAddr, Ipv4Addr};
/// use timeous_cm::Manager;
/// use timeous_core::{Ecn, Instant, NoAdus, Rng, Transport};
/// use timeous_dccp::{Config, Connection, Event, ServiceCode, State, Target};
///
/// let (mut cm, mut rng, now) = (Manager::default(), Rng::from_seed(1), Instant::ZERO);
/// let target = Target {
///     destination: IpAddr::V4(Ipv4Addr::LOCALHOST).into(),
///     local_port: 5_000,
///     remote_port: 7_000,
///     service: ServiceCode::from_bytes(*b"demo"),
/// };
/// let mut client = Connection::connect(now, Config::default(), target, &mut rng);
/// let mut server = Connection::listen(now, Config::default(), 7_000, &[target.service], target.destination, &mut rng);
/// let mut packet = Vec::new();
/// for _ in 0..2 {
///     for (from, to) in [(0, 1), (1, 0)] {
///         let mut ends = [&mut client, &mut server];
///         while ends[from].poll_transmit(now, &mut cm, &mut NoAdus, &mut packet)?.is_some() {
///             ends[to].handle_datagram(now, &mut cm, &packet, Ecn::NotEct)?;
///             packet.clear();
///         }
///     }
/// }
/// assert_eq!(server.state(), State::Open);
/// assert_eq!(client.poll_event(), Some(Event::Connected));
/// # Ok::<(), timeous_core::Misuse>(())
/// ```
#[derive(Debug)]
pub struct Connection {
    config: Config,
    role: Role,
    state: State,
    target: Target,
    /// What a listening connection accepts.
    services: Vec<ServiceCode>,
    order: DriveOrder,
    timers: TimerTable,
    /// How often the packet that `Timer::Resend` repeats was repeated.
    resends: u32,
    /// Timeouts in a row without feedback (RFC 4341 §5).
    silences: u32,
    sequence: Sequence,
    features: Features,
    /// Whether the peer was asked for Ack Vectors that it need not send.
    asked_for_vectors: bool,
    /// When the next packet may be made for feature negotiation alone (RFC 4340 §6.6.1).
    features_at: Instant,
    feature_resends: u32,
    control: VecDeque<Control>,
    events: VecDeque<Event>,
    statistics: Statistics,
    flow: Option<FlowId>,
    rtt: Duration,
    /// The longest time that the peer has said to have held an acknowledgement.
    peer_delay: Duration,
    /// When a round trip was last measured.
    measured_at: Option<Instant>,
    /// What is known of round trips is old: the next timeout is no shorter.
    least_timeout: Duration,
    /// When the last valid packet came.
    heard_at: Option<Instant>,
    answers: RateLimit,
    sender: Sender,
    ack_ratio: AckRatio,
    gaps: PeerGaps,
    round: Round,
    peer_pace: PeerPace,
    receiver: Receiver,
    vector: AckVector,
    /// What sends and receives by rate; none with CCID 2.
    rate_sender: Option<Box<ccid3::Sender>>,
    rate_receiver: Option<Box<ccid3::Receiver>>,
    handshake: Handshake,
    /// Why feedback was last not believed.
    implausible: Option<ccid3::Implausible>,
    /// Whether acknowledgeable packets came since an acknowledgement was sent, and when that was.
    owes_ack: bool,
    acked_at: Instant,
    options: OptionList,
    received: ToAnswer,
    reception: Reception,
    restraint: Restraint,
    repeats: Repeats,
    arrival: Arrival,
    protection: Protection,
    /// Whether the source, in this round of polling, had something and then gave nothing.
    barren: bool,
    /// How many ADUs the source was told to expect a pull for at this instant, and that were not pulled yet.
    expected: u32,
    expected_at: Instant,
    /// Packets without data that were sent in a row (RFC 4340 §7.7).
    ndp_run: u64,
    /// The first number that a server sends in OPEN, until its client has shown that it got there, too.
    unconfirmed: Option<Seq>,
    /// Whether this end has asked for the close.
    closing_here: bool,
}

impl Connection {
    /// A client that asks for a connection.
    pub fn connect(now: Instant, config: Config, target: Target, rng: &mut Rng) -> Self {
        let mut connection = Self::new(now, config, Role::Client, target, rng);
        connection.begin_request(now);
        connection
    }

    /// A server that takes one connection to `local_port`, for one of `services`, from one host.
    pub fn listen(
        now: Instant,
        config: Config,
        local_port: u16,
        services: &[ServiceCode],
        destination: Destination,
        rng: &mut Rng,
    ) -> Self {
        let target = Target { destination, local_port, remote_port: 0, service: ServiceCode::NONE };
        let mut connection = Self::new(now, config, Role::Server, target, rng);
        connection.services = services.to_vec();
        connection.state = State::Listen;
        connection
    }

    fn new(now: Instant, mut config: Config, role: Role, target: Target, rng: &mut Rng) -> Self {
        config.mps = config.mps.clamp(Config::MIN_MPS, usize::from(u16::MAX));
        let initial = config.initial_seq.unwrap_or_else(|| Seq::new(rng.next_u64()));
        let mut order = DriveOrder::default();
        // A fresh order takes any instant.
        let _ = order.fed(now);
        Self {
            features: wishes::features(role, &config),
            asked_for_vectors: role == Role::Client,
            config,
            role,
            state: State::Closed,
            target,
            services: Vec::new(),
            order,
            timers: TimerTable::default(),
            resends: 0,
            silences: 0,
            sequence: Sequence::new(initial),
            features_at: now,
            feature_resends: 0,
            control: VecDeque::new(),
            events: VecDeque::new(),
            statistics: Statistics::default(),
            flow: None,
            rtt: DEFAULT_RTT,
            peer_delay: Duration::ZERO,
            measured_at: None,
            least_timeout: Duration::ZERO,
            heard_at: None,
            answers: RateLimit::per_second(SYNCS_PER_SECOND),
            sender: Sender::new(),
            ack_ratio: AckRatio::new(),
            gaps: PeerGaps::default(),
            round: Round::default(),
            peer_pace: PeerPace::default(),
            receiver: Receiver::default(),
            vector: AckVector::new(VECTOR_BYTES, LATE_WINDOW),
            rate_sender: None,
            rate_receiver: None,
            handshake: Handshake::default(),
            implausible: None,
            owes_ack: false,
            acked_at: now,
            options: OptionList::new(),
            received: ToAnswer::default(),
            reception: Reception::default(),
            restraint: Restraint::default(),
            repeats: Repeats::default(),
            arrival: Arrival::default(),
            protection: Protection::default(),
            barren: false,
            expected: 0,
            expected_at: Instant::ZERO,
            ndp_run: 0,
            unconfirmed: None,
            closing_here: false,
        }
    }

    /// Closes in good order: nothing more is pulled, and the peer is told. The end is an [`Event::Closed`].
    ///
    /// What waits in the source is the driver's business: close when it is empty, to have it all sent.
    ///
    /// # Errors
    /// [`Misuse`] if `now` is before an earlier call's.
    pub fn close(&mut self, now: Instant) -> Result<(), Misuse> {
        self.order.fed(now)?;
        self.begin_close(now);
        Ok(())
    }

    /// Ends the connection at once with a Reset that says `code`.
    ///
    /// # Errors
    /// [`Misuse`] if `now` is before an earlier call's.
    pub fn abort(&mut self, now: Instant, code: ResetCode) -> Result<(), Misuse> {
        self.order.fed(now)?;
        self.reset(ResetReason::plain(code), CloseReason::Local);
        Ok(())
    }

    /// The path carries packets of `mps` bytes only, as an ICMP message said: the maximum packet size is lowered to
    /// that, but not below [`Config::MIN_MPS`]. A greater value changes nothing (RFC 4340 §14.1).
    pub fn path_mtu_exceeded(&mut self, mps: usize) {
        self.config.mps = self.config.mps.min(mps.max(Config::MIN_MPS));
    }

    /// The largest payload that fits into every data packet. A larger ADU may find room, or be passed over by its
    /// source as too large.
    pub fn max_payload(&self) -> usize {
        self.config.max_payload()
    }

    /// Where the connection is in its life.
    pub fn state(&self) -> State {
        self.state
    }

    /// Which end this is.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Between whom it is, and what for; a listening connection does not know all of it yet.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// ISS and ISR (RFC 4340 §7.1): the number of the first packet that was sent, and of the first one that came, once one
    /// has. Nobody off the path can guess them. Where a first packet was lost, the peer's ISR is a little higher than our ISS.
    pub fn initial_sequence_numbers(&self) -> (Seq, Option<Seq>) {
        self.sequence.initials()
    }

    /// What was counted.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// What was negotiated.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// The congestion control of what this end sends.
    pub fn ccid(&self) -> Ccid {
        Ccid::from_number(self.features.local(Feature::Ccid)).unwrap_or_default()
    }

    /// The congestion control of what the peer sends.
    pub fn peer_ccid(&self) -> Ccid {
        Ccid::from_number(self.features.remote(Feature::Ccid)).unwrap_or_default()
    }

    /// The loss event rate that the peer reports of what this end sends, with a CCID that has one: 0 without any loss.
    pub fn loss_event_rate(&self) -> Option<f64> {
        self.rate_sender.as_ref().map(|sender| sender.loss_event_rate())
    }

    /// Why feedback of the peer's was last not believed, for the log; how often is in [`Statistics::implausible`].
    pub fn last_implausible(&self) -> Option<ccid3::Implausible> {
        self.implausible
    }

    /// Its flow at the Congestion Manager, once the handshake is complete and until the end.
    pub fn flow(&self) -> Option<FlowId> {
        self.flow
    }

    /// How long its ports are to rest when it is over.
    pub(crate) fn timewait(&self) -> Duration {
        self.config.msl * 2
    }

    /// Whether [`poll_event`](Transport::poll_event) has something to say.
    pub(crate) fn has_news(&self) -> bool {
        !self.events.is_empty()
    }

    /// Whether nothing more will happen: closed, with everything sent and every event heard.
    pub fn is_finished(&self) -> bool {
        self.state == State::Closed && self.is_drained()
    }

    /// Whether it is over and has nothing more to send or to tell.
    pub(crate) fn is_drained(&self) -> bool {
        !self.state.is_alive() && self.control.is_empty() && self.events.is_empty() && self.flow.is_none()
    }

    /// Ends the connection on this end. Whatever is under way is lost.
    fn tear_down(&mut self, next: State, reason: CloseReason) {
        self.report_all_lost();
        self.timers.stop_all();
        self.control.clear();
        self.state = next;
        self.events.push_back(Event::Closed { reason });
    }

    /// Sends a Reset and ends the connection.
    fn reset(&mut self, with: ResetReason, reason: CloseReason) {
        if !self.state.is_alive() {
            return;
        }
        let has_peer = self.state != State::Listen;
        self.tear_down(State::Closed, reason);
        if has_peer {
            self.queue(Control::Reset { with });
        }
    }

    /// Gives the flow back once the connection is over; called wherever the Congestion Manager is at hand.
    fn release(&mut self, now: Instant, cm: &mut Manager) {
        if !self.state.is_alive()
            && let Some(flow) = self.flow.take()
        {
            told(cm.close(now, flow));
        }
    }
}

impl Transport for Connection {
    type Congestion = Manager;
    type Event = Event;

    fn handle_datagram(&mut self, now: Instant, cm: &mut Manager, datagram: &[u8], ecn: Ecn) -> Result<(), Misuse> {
        self.order.fed(now)?;
        self.receive(now, cm, datagram, ecn);
        self.release(now, cm);
        Ok(())
    }

    fn handle_timeout(&mut self, now: Instant, cm: &mut Manager) -> Result<(), Misuse> {
        self.order.fed(now)?;
        self.expire_timers(now, cm);
        self.release(now, cm);
        Ok(())
    }

    fn poll_transmit(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Result<Option<Transmit>, Misuse> {
        if !packet.is_empty() {
            return Err(Misuse::BufferNotEmpty { len: packet.len() });
        }
        self.order.advance(now)?;
        let transmit = self.transmit(now, cm, source, packet);
        self.release(now, cm);
        self.order.polled(now, transmit.is_some())?;
        Ok(transmit)
    }

    fn poll_timeout(&mut self) -> Result<Option<Instant>, Misuse> {
        self.order.may_sleep()?;
        Ok(self.timers.next())
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

/// The Congestion Manager refuses only what this connection never does, unless the driver has swapped managers.
fn told<T>(result: Result<T, CmError>) -> Option<T> {
    debug_assert!(result.is_ok(), "{:?}", result.err());
    result.ok()
}
