//! A DCCP connection as a state machine: state, commands, and the order in which a driver calls it (RFC 4340 §8).

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

/// Round-trip time assumed before the first measurement (RFC 4340 §3.4).
const DEFAULT_RTT: Duration = Duration::from_millis(200);
/// Rate limit for Syncs: "not more than eight DCCP-Syncs per second" (RFC 4340 §7.5.4).
const SYNCS_PER_SECOND: u32 = 8;
/// Maximum size of our Ack Vector in an acknowledgement, in bytes: one option, whose length of at most 255 includes
/// type and length (RFC 4340 §5.8, §11.4).
const MAX_ACK_VECTOR: usize = 253;
/// Packets below the Ack Vector's start that are still remembered, to tell late packets from duplicates. Chosen by us:
/// a higher value makes Ack Vectors longer.
const LATE_WINDOW: u32 = 64;

/// The endpoints of a connection and the service requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The peer's host, for the Congestion Manager.
    pub destination: Destination,
    /// The local DCCP port.
    pub local_port: u16,
    /// The remote DCCP port.
    pub remote_port: u16,
    /// The Service Code requested (RFC 4340 §8.1.2).
    pub service: ServiceCode,
}

/// A DCCP connection, sans-IO. Each direction has its own negotiated congestion control.
///
/// The driver follows the call order of [`Transport`]. Each pull of an ADU is answered by exactly one [`Event::Acked`]
/// or [`Event::Lost`], at the latest before [`Event::Closed`].
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
    /// Service Codes that a listening connection accepts.
    services: Vec<ServiceCode>,
    order: DriveOrder,
    timers: TimerTable,
    /// Retransmissions so far of the packet behind `Timer::Resend`.
    resends: u32,
    /// Consecutive timeouts without feedback (RFC 4341 §5).
    silences: u32,
    sequence: Sequence,
    features: Features,
    /// Whether the peer was asked for Ack Vectors as an option (it may decline).
    asked_for_vectors: bool,
    /// Earliest time of the next packet that only carries feature negotiation (RFC 4340 §6.6.1).
    features_at: Instant,
    feature_resends: u32,
    control: VecDeque<Control>,
    events: VecDeque<Event>,
    statistics: Statistics,
    flow: Option<FlowId>,
    rtt: Duration,
    /// Longest delay of an acknowledgement that the peer has reported.
    peer_delay: Duration,
    /// Time of the last round-trip measurement.
    measured_at: Option<Instant>,
    /// Lower bound of the next feedback timeout, while the round-trip estimate is stale; else zero.
    least_timeout: Duration,
    /// Time of the last valid packet received.
    heard_at: Option<Instant>,
    answers: RateLimit,
    sender: Sender,
    ack_ratio: AckRatio,
    gaps: PeerGaps,
    round: Round,
    peer_pace: PeerPace,
    receiver: Receiver,
    vector: AckVector,
    /// Rate-based sender and receiver (CCID 3 and 4); `None` with CCID 2.
    rate_sender: Option<Box<ccid3::Sender>>,
    rate_receiver: Option<Box<ccid3::Receiver>>,
    handshake: Handshake,
    /// Reason why the last implausible feedback was rejected.
    implausible: Option<ccid3::Implausible>,
    /// Whether acknowledgeable packets have arrived since the last acknowledgement was sent, and when that was sent.
    owes_ack: bool,
    acked_at: Instant,
    options: OptionList,
    received: ToAnswer,
    reception: Reception,
    restraint: Restraint,
    repeats: Repeats,
    arrival: Arrival,
    protection: Protection,
    /// Whether the source, in this round of polling, reported queued ADUs and then returned none.
    found_nothing: bool,
    /// Pulls announced to the source for this instant and not made yet.
    expected: u32,
    expected_at: Instant,
    /// Consecutive packets sent without data, for NDP Count (RFC 4340 §7.7).
    ndp_run: u64,
    /// First number that a server sends in OPEN, until the client has acknowledged it or a later one.
    unconfirmed: Option<Seq>,
    /// Whether this end asked for the close.
    closing_here: bool,
}

impl Connection {
    /// Creates a client and queues its Request.
    pub fn connect(now: Instant, config: Config, target: Target, rng: &mut Rng) -> Self {
        let mut connection = Self::new(now, config, Role::Client, target, rng);
        connection.begin_request(now);
        connection
    }

    /// Creates a server that accepts one connection to `local_port`, for one of `services`, from one host.
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
        // A new `DriveOrder` accepts any instant.
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
            vector: AckVector::new(MAX_ACK_VECTOR, LATE_WINDOW),
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
            found_nothing: false,
            expected: 0,
            expected_at: Instant::ZERO,
            ndp_run: 0,
            unconfirmed: None,
            closing_here: false,
        }
    }

    /// Closes the connection gracefully: pulls no more data and tells the peer. Ends with [`Event::Closed`].
    ///
    /// ADUs still queued in the source are not sent: to send them all, close only when the source is empty.
    ///
    /// # Errors
    /// [`Misuse`] if `now` is before an earlier call's.
    pub fn close(&mut self, now: Instant) -> Result<(), Misuse> {
        self.order.fed(now)?;
        self.begin_close(now);
        Ok(())
    }

    /// Ends the connection at once with a Reset of this `code`.
    ///
    /// # Errors
    /// [`Misuse`] if `now` is before an earlier call's.
    pub fn abort(&mut self, now: Instant, code: ResetCode) -> Result<(), Misuse> {
        self.order.fed(now)?;
        self.reset(ResetReason::plain(code), CloseReason::Local);
        Ok(())
    }

    /// Lowers the maximum packet size to `mps`, as reported by an ICMP message, but not below [`Config::MIN_MPS`]. A
    /// greater value changes nothing (RFC 4340 §14.1).
    pub fn path_mtu_exceeded(&mut self, mps: usize) {
        self.config.mps = self.config.mps.min(mps.max(Config::MIN_MPS));
    }

    /// Largest payload that fits into every data packet. A larger ADU may fit into a packet with few options; otherwise
    /// its source skips it as too large.
    pub fn max_payload(&self) -> usize {
        self.config.max_payload()
    }

    /// State of the connection (RFC 4340 §4.3).
    pub fn state(&self) -> State {
        self.state
    }

    /// Role of this end: client or server.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Endpoints and service; a listening connection does not know all of them yet.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// ISS and ISR (RFC 4340 §7.1): the number of the first packet sent and, once one has arrived, of the first one
    /// received. An attacker off the path cannot guess them. If a first packet was lost, the peer's ISR is slightly
    /// higher than our ISS.
    pub fn initial_sequence_numbers(&self) -> (Seq, Option<Seq>) {
        self.sequence.initials()
    }

    /// Counters of the connection.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Negotiated features.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Congestion control of the data that this end sends.
    pub fn ccid(&self) -> Ccid {
        Ccid::from_number(self.features.local(Feature::Ccid)).unwrap_or_default()
    }

    /// Congestion control of the data that the peer sends.
    pub fn peer_ccid(&self) -> Ccid {
        Ccid::from_number(self.features.remote(Feature::Ccid)).unwrap_or_default()
    }

    /// Loss event rate that the peer reports for our data, with CCID 3 or 4; 0 before the first loss.
    pub fn loss_event_rate(&self) -> Option<f64> {
        self.rate_sender.as_ref().map(|sender| sender.loss_event_rate())
    }

    /// Reason why the peer's feedback was last rejected, for the log; [`Statistics::implausible`] counts rejections.
    pub fn last_implausible(&self) -> Option<ccid3::Implausible> {
        self.implausible
    }

    /// Round-trip time of the handshake, unless one of its packets was retransmitted.
    pub fn handshake_rtt(&self) -> Option<Duration> {
        if let Handshake::Took(rtt) = self.handshake { Some(rtt) } else { None }
    }

    /// The connection's flow in the Congestion Manager, from the end of the handshake to the end of the connection.
    pub fn flow(&self) -> Option<FlowId> {
        self.flow
    }

    /// Duration of TIMEWAIT, for which the ports stay reserved (RFC 4340 §8.3).
    pub(crate) fn timewait(&self) -> Duration {
        self.config.msl * 2
    }

    /// Whether [`poll_event`](Transport::poll_event) has an event.
    pub(crate) fn has_news(&self) -> bool {
        !self.events.is_empty()
    }

    /// Whether the connection is closed, with all packets sent and all events polled.
    pub fn is_finished(&self) -> bool {
        self.state == State::Closed && self.is_drained()
    }

    /// Whether the connection is over (TIMEWAIT included), with no packets or events left.
    pub(crate) fn is_drained(&self) -> bool {
        !self.state.is_alive() && self.control.is_empty() && self.events.is_empty() && self.flow.is_none()
    }

    /// Ends the connection locally. ADUs in flight are reported as lost.
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

    /// Returns the flow to the Congestion Manager once the connection is over; called wherever the manager is
    /// available.
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

/// Unwraps a result of the Congestion Manager: it fails only if the driver has swapped managers.
fn told<T>(result: Result<T, CmError>) -> Option<T> {
    debug_assert!(result.is_ok(), "{:?}", result.err());
    result.ok()
}
