//! A DCCP connection as a state machine: state, commands, and the order in which a driver calls it (RFC 4340 §8).

mod acknowledgement;
mod checksum;
mod closing;
mod config;
mod congestion;
mod delivery;
mod events;
mod feedback;
mod handshake;
mod incoming;
mod input;
mod lifecycle;
mod log;
mod migration;
mod negotiation;
mod output;
mod packet_size;
mod parity;
mod path_mtu;
mod reassembly;
pub(crate) mod refusal;
mod retransmission;
mod round_trip;
mod sequence;
mod state;
mod timers;
mod transmission;
mod way_back;

use timeous_cm::{Destination, FlowId, Manager};
use timeous_core::{AduSource, DriveOrder, Duration, Instant, Misuse, RecvMeta, Rng, Transmit, Transport};

pub use config::{Config, Parity};
pub use events::{CloseReason, Event, Statistics};
pub use state::State;

use crate::ccid::Ccid;
use crate::ccid3;
use crate::features::{Feature, Features, Role};
use crate::reset::{ResetCode, ResetReason};
use crate::seq::Seq;
use crate::service::ServiceCode;
use acknowledgement::Acknowledgement;
use congestion::Congestion;
use delivery::Delivery;
use lifecycle::Lifecycle;
use log::Log;
use negotiation::Negotiation;
use parity::Protection;
pub use parity::prepare_parity;
use path_mtu::PathMtu;
use retransmission::Retransmission;
use round_trip::RoundTrip;
use sequence::Sequence;
use timers::{Timer, TimerTable};
use transmission::{Control, Transmission};

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
    target: Target,
    order: DriveOrder,
    timers: TimerTable,
    lifecycle: Lifecycle,
    sequence: Sequence,
    negotiation: Negotiation,
    round_trip: RoundTrip,
    /// Congestion control of our data.
    congestion: Congestion,
    retransmission: Retransmission,
    /// Parity of our data.
    protection: Protection,
    /// Acknowledgement of the peer's packets.
    acknowledgement: Acknowledgement,
    /// Delivery of the peer's data.
    delivery: Delivery,
    transmission: Transmission,
    /// Whether the peer puts ADUs together from fragments, and the driver knows it.
    takes_fragments: bool,
    /// Path MTU discovery, once the connection is open.
    path_mtu: Option<Box<PathMtu>>,
    log: Log,
}

impl Connection {
    /// Creates a client and queues its Request.
    pub fn connect(now: Instant, config: Config, target: Target, rng: &mut Rng) -> Self {
        let mut connection = Self::new(now, config, Lifecycle::new(Role::Client, &[]), target, rng);
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
        Self::new(now, config, Lifecycle::new(Role::Server, services), target, rng)
    }

    fn new(now: Instant, mut config: Config, lifecycle: Lifecycle, target: Target, rng: &mut Rng) -> Self {
        config.mps = config.mps.clamp(Config::MIN_MPS, usize::from(u16::MAX));
        let initial = config.initial_seq.unwrap_or_else(|| Seq::new(rng.next_u64()));
        let mut order = DriveOrder::default();
        // A new `DriveOrder` accepts any instant.
        let _ = order.fed(now);
        Self {
            negotiation: Negotiation::new(now, lifecycle.role(), &config),
            config,
            target,
            order,
            timers: TimerTable::default(),
            lifecycle,
            sequence: Sequence::new(initial),
            round_trip: RoundTrip::default(),
            congestion: Congestion::default(),
            retransmission: Retransmission::default(),
            protection: Protection::default(),
            acknowledgement: Acknowledgement::new(now),
            delivery: Delivery::new(),
            transmission: Transmission::new(),
            takes_fragments: false,
            path_mtu: None,
            log: Log::default(),
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

    /// Asks the peer for a sign of life by a Sync, which it answers at once (RFC 4340 §7.5.4). Before the connection is established, its
    /// own repetitions do that.
    pub fn probe(&mut self, now: Instant, cm: &Manager) {
        if self.state().is_established() {
            self.transmission.queue(Control::Sync(self.sequence.gsr()));
            self.expect_feedback(now, cm);
        }
    }

    /// Sets the free receive buffer to `room` bytes; data that do not fit are dropped and reported to the peer
    /// ("Receive Buffer", RFC 4340 §11.7). `is_slow`: asks the peer not to raise its rate (§11.6).
    pub fn set_receive_room(&mut self, room: usize, is_slow: bool) {
        self.delivery.set_room(room, is_slow);
    }

    /// Stops delivery: the application no longer reads. Further data are reported to the peer as dropped ("Application
    /// Not Listening", RFC 4340 §11.7.2).
    pub fn stop_receiving(&mut self) {
        self.delivery.stop();
    }

    /// Whether the peer accepts retransmissions.
    pub fn takes_repeats(&self) -> bool {
        self.retransmission.is_accepted()
    }

    /// Largest payload that fits into every data packet. A larger ADU may fit into a packet with few options; otherwise
    /// its source skips it as too large.
    pub fn max_payload(&self) -> usize {
        self.config.max_payload()
    }

    /// State of the connection (RFC 4340 §4.3).
    pub fn state(&self) -> State {
        self.lifecycle.state()
    }

    /// Role of this end: client or server.
    pub fn role(&self) -> Role {
        self.lifecycle.role()
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
        &self.log.statistics
    }

    /// Negotiated features.
    pub fn features(&self) -> &Features {
        self.negotiation.features()
    }

    /// Congestion control of the data that this end sends.
    pub fn ccid(&self) -> Ccid {
        self.negotiation.ccid()
    }

    /// Congestion control of the data that the peer sends.
    pub fn peer_ccid(&self) -> Ccid {
        Ccid::from_number(self.features().remote(Feature::Ccid)).unwrap_or_default()
    }

    /// Loss event rate that the peer reports for our data, with CCID 3 or 4; 0 before the first loss.
    pub fn loss_event_rate(&self) -> Option<f64> {
        self.congestion.rate_sender().map(|sender| sender.loss_event_rate())
    }

    /// Reason why the peer's feedback was last rejected, for the log; [`Statistics::implausible`] counts rejections.
    pub fn last_implausible(&self) -> Option<ccid3::Implausible> {
        self.congestion.implausible()
    }

    /// Round-trip time of the handshake, unless one of its packets was retransmitted.
    pub fn handshake_rtt(&self) -> Option<Duration> {
        self.lifecycle.handshake_rtt()
    }

    /// The connection's flow in the Congestion Manager, from the end of the handshake to the end of the connection.
    pub fn flow(&self) -> Option<FlowId> {
        self.congestion.flow()
    }

    /// Duration of TIMEWAIT, for which the ports stay reserved (RFC 4340 §8.3).
    pub(crate) fn timewait(&self) -> Duration {
        self.config.msl * 2
    }

    /// Whether [`poll_event`](Transport::poll_event) has an event.
    pub(crate) fn has_news(&self) -> bool {
        !self.log.events.is_empty()
    }

    /// Whether the connection is closed, with all packets sent and all events polled.
    pub fn is_finished(&self) -> bool {
        self.state() == State::Closed && self.is_drained()
    }

    /// Whether the connection is over (TIMEWAIT included), with no packets or events left.
    pub(crate) fn is_drained(&self) -> bool {
        !self.state().is_alive()
            && self.transmission.is_idle()
            && self.log.events.is_empty()
            && self.congestion.flow().is_none()
    }

    fn expire_timers(&mut self, now: Instant, cm: &mut Manager) {
        for timer in Timer::ALL {
            if !self.timers.expired(timer, now) {
                continue;
            }
            match timer {
                Timer::Resend => match self.state() {
                    State::Request => self.repeat_request(now),
                    // The server has not shown that it got one of our packets.
                    State::PartOpen => {
                        self.lifecycle.on_resend();
                        self.negotiation.features_mut().retransmit();
                        self.transmission.queue(Control::Ack);
                    }
                    State::CloseReq | State::Closing => self.repeat_close(now),
                    _ => {}
                },
                // "The sending endpoint gave up on the connection because of lack of progress" (RFC 4340 §5.6).
                Timer::GiveUp | Timer::Silence => {
                    let reason = self.given_up();
                    self.reset(ResetReason::plain(ResetCode::Aborted), reason);
                }
                Timer::Feedback => self.on_feedback_timeout(now, cm),
                Timer::Overdue => self.watch_overdue(now, cm),
                Timer::KeepAlive => self.probe(now, cm),
                Timer::AckDelay => self.acknowledgement.on_timeout(now),
                Timer::NoFeedback => self.congestion.on_rate_timeout(now, cm, &mut self.timers),
                Timer::Features => self.negotiation.on_timeout(now),
                Timer::PathMtu => self.on_probe_timeout(now, cm),
                // The poll that follows sees that the time is over and sends.
                Timer::Gap | Timer::Parity | Timer::Constraint => {}
                Timer::TimeWait => self.lifecycle.enter(State::Closed),
            }
        }
    }

    /// Ends the connection locally. ADUs in flight are reported as lost.
    fn tear_down(&mut self, next: State, reason: CloseReason) {
        self.report_all_lost();
        self.timers.stop_all();
        self.transmission.clear();
        self.lifecycle.enter(next);
        self.log.push(Event::Closed { reason });
    }

    /// Sends a Reset and ends the connection.
    fn reset(&mut self, with: ResetReason, reason: CloseReason) {
        if !self.state().is_alive() {
            return;
        }
        let has_peer = self.state() != State::Listen;
        self.tear_down(State::Closed, reason);
        if has_peer {
            self.transmission.queue(Control::Reset(with));
        }
    }

    /// Returns the flow to the Congestion Manager once the connection is over; called wherever the manager is
    /// available.
    fn release(&mut self, now: Instant, cm: &mut Manager) {
        if !self.state().is_alive() {
            self.congestion.close(now, cm);
        }
    }
}

impl Transport for Connection {
    type Congestion = Manager;
    type Event = Event;

    fn handle_datagram(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        datagram: &[u8],
        meta: impl Into<RecvMeta>,
    ) -> Result<(), Misuse> {
        self.order.fed(now)?;
        self.receive(now, cm, datagram, meta.into());
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
        self.log.events.pop_front()
    }
}
