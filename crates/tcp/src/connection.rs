//! A connection: its state, its commands, and the driving order (RFC 9293 §3.3, §3.9).

mod acks;
mod agreed;
mod closing;
mod config;
mod data;
mod events;
mod flow;
mod handshake;
mod initial_numbers;
mod peer_window;
mod pending_segments;
mod receive;
mod retransmission;
mod sack_blocks;
mod state;
mod timeouts;
mod timers;
mod transmit;

use std::collections::VecDeque;
use std::net::SocketAddr;

use timeous_cm::{Destination, FlowId, Manager};
use timeous_core::{AduSource, DriveOrder, Ecn, Instant, Misuse, RecvMeta, Rng, Transmit, Transport};
use timeous_seal::Secrets;

pub use config::{Config, EcnMode, LossDetection, Receiving, Sending};
pub use events::{CloseReason, Event, Statistics};
pub use state::State;

use crate::receiver::{ReceivedDatagram, Receiver};
use crate::segment::{Addresses, Flags, Header, Segment};
use crate::sender::{Detection, Kept, Phase, Sender};
use crate::seq::Seq;
use closing::Closing;
use flow::Flow;
use handshake::Handshake;
use initial_numbers::InitialNumbers;
use peer_window::PeerWindow;
use pending_segments::{Control, PendingSegments};
use retransmission::RetransmissionTimer;
use timers::{Timer, TimerTable};

/// Both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The local address and port.
    pub local: SocketAddr,
    /// The remote address and port.
    pub remote: SocketAddr,
    /// The Differentiated Services code point of its packets, for the Congestion Manager.
    pub dscp: u8,
}

impl Target {
    /// Returns the addresses of an outgoing segment.
    fn addresses(&self) -> Addresses {
        Addresses { source: self.local.ip(), destination: self.remote.ip() }
    }

    fn header(&self, seq: Seq, flags: Flags) -> Header {
        Header { flags, ..Header::new(self.local.port(), self.remote.port(), seq) }
    }

    fn destination(&self) -> Destination {
        Destination::from(self.remote.ip()).with_dscp(self.dscp)
    }
}

/// A TCP connection, sans-IO, a client of the Congestion Manager.
///
/// The driving order is that of [`Transport`]. Every segment of new data is one pull from the source, with room for a
/// full segment, and its bytes are kept until they are acknowledged. Each pull is reported by exactly one
/// [`Event::Acked`] or [`Event::Lost`], at the latest before [`Event::Closed`].
///
/// ```
/// use timeous_cm::Manager;
/// use timeous_core::{Ecn, Instant, Rng, Transport};
/// use timeous_tcp::{Config, Connection, State, StreamBuffer, Target};
///
/// let (mut cm, mut rng, now) = (Manager::default(), Rng::from_seed(1), Instant::ZERO);
/// let target = Target { local: "192.0.2.1:5000".parse()?, remote: "192.0.2.2:80".parse()?, dscp: 0 };
/// let back = Target { local: target.remote, remote: target.local, dscp: 0 };
/// let mut client = Connection::connect(now, Config::default(), target, &mut rng);
/// let mut server = Connection::listen(now, Config::default(), back, &mut rng);
/// let mut stream = StreamBuffer::new(100);
/// stream.write(b"hello");
/// let mut packet = Vec::new();
/// for _ in 0..2 {
///     for (from, to) in [(0, 1), (1, 0)] {
///         let mut ends = [&mut client, &mut server];
///         while ends[from].poll_transmit(now, &mut cm, &mut stream, &mut packet)?.is_some() {
///             ends[to].handle_datagram(now, &mut cm, &packet, Ecn::NotEct)?;
///             packet.clear();
///         }
///     }
/// }
/// assert_eq!(server.state(), State::Established);
/// let mut bytes = Vec::new();
/// server.read(usize::MAX, &mut bytes);
/// assert_eq!(bytes, b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Connection {
    config: Config,
    target: Target,
    state: State,
    order: DriveOrder,
    timers: TimerTable,
    numbers: InitialNumbers,
    handshake: Handshake,
    pending: PendingSegments,
    sender: Sender,
    window: PeerWindow,
    retransmission: RetransmissionTimer,
    receiver: Option<Receiver>,
    closing: Closing,
    flow: Flow,
    events: VecDeque<Event>,
    statistics: Statistics,
}

/// Arguments of a call of [`Transport::poll_transmit`].
struct Poll<'a> {
    now: Instant,
    cm: &'a mut Manager,
    source: &'a mut dyn AduSource,
    packet: &'a mut Vec<u8>,
}

impl Connection {
    /// Opens a connection to `target.remote`.
    pub fn connect(now: Instant, config: Config, target: Target, rng: &mut Rng) -> Self {
        let mut connection = Self::new(now, config, target, rng);
        connection.begin_syn(now, State::SynSent);
        connection
    }

    /// Waits for one connection, from `target.remote`.
    pub fn listen(now: Instant, config: Config, target: Target, rng: &mut Rng) -> Self {
        let mut connection = Self::new(now, config, target, rng);
        connection.state = State::Listen;
        connection
    }

    fn new(now: Instant, mut config: Config, target: Target, rng: &mut Rng) -> Self {
        config.mss = config.mss.max(Config::MIN_MSS);
        let mut order = DriveOrder::default();
        // A fresh driving order accepts any instant.
        let _ = order.fed(now);
        let numbers = InitialNumbers::new(config.initial_seq, rng);
        Self {
            config,
            target,
            state: State::Closed,
            order,
            timers: TimerTable::default(),
            numbers,
            handshake: Handshake::new(now),
            pending: PendingSegments::new(),
            sender: Sender::new(Box::new(Kept::default()), 1, Detection::DuplicateAcks, false),
            window: PeerWindow::default(),
            retransmission: RetransmissionTimer::default(),
            receiver: None,
            closing: Closing::default(),
            flow: Flow::default(),
            events: VecDeque::new(),
            statistics: Statistics::default(),
        }
    }

    /// Closes the sending direction: queued data is sent, then a FIN. The peer may go on sending, and its data can be
    /// read. The end of both directions is an [`Event::Closed`].
    ///
    /// # Errors
    /// [`Misuse`] if `now` is before an earlier call's.
    pub fn close(&mut self, now: Instant) -> Result<(), Misuse> {
        self.order.fed(now)?;
        match self.state {
            State::Listen | State::SynSent => self.tear_down(State::Closed, CloseReason::Finished),
            // In SYN-RECEIVED, the FIN is queued until ESTABLISHED.
            _ => self.closing.request(),
        }
        Ok(())
    }

    /// Aborts the connection with a reset. Unread data is discarded.
    ///
    /// # Errors
    /// [`Misuse`] if `now` is before an earlier call's.
    pub fn abort(&mut self, now: Instant) -> Result<(), Misuse> {
        self.order.fed(now)?;
        let (seq, ack) = (self.numbers.seq(self.sender.nxt()), self.receiver.as_ref().map(Receiver::next));
        if self.state.is_alive() {
            let is_synchronized = self.state.is_synchronized();
            self.tear_down(State::Closed, CloseReason::Aborted);
            if is_synchronized {
                self.reset(seq, ack);
            }
        }
        self.receiver = None;
        self.state = State::Closed;
        self.timers.stop_all();
        Ok(())
    }

    /// Processes a parsed segment, as [`Transport::handle_datagram`] does.
    ///
    /// # Errors
    /// [`Misuse`] if `now` is before an earlier call's.
    pub fn handle_segment(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        segment: &Segment<'_>,
        ecn: Ecn,
    ) -> Result<(), Misuse> {
        self.order.fed(now)?;
        self.receive(now, cm, segment, ecn);
        self.release(now, cm);
        Ok(())
    }

    /// Appends received data to `out`, in order, at most `limit` bytes, and returns their number. A window update may
    /// become due: poll again.
    pub fn read(&mut self, limit: usize, out: &mut Vec<u8>) -> usize {
        self.receiver.as_mut().map_or(0, |receiver| receiver.read(limit, out))
    }

    /// Appends the payload of the next datagram to `out`, where they are received as such ([`Receiving::Unordered`]);
    /// `None` if there is none.
    pub fn read_datagram(&mut self, out: &mut Vec<u8>) -> Option<ReceivedDatagram> {
        self.receiver.as_mut()?.read_datagram(out)
    }

    /// Returns the number of readable bytes or, where datagrams are received, of readable datagrams.
    pub fn readable(&self) -> usize {
        self.receiver.as_ref().map_or(0, Receiver::readable)
    }

    /// Returns the maximum of new data in one segment, in bytes: the room that the source is asked to fill (McQuistin's
    /// `getPMTU`, where records are sent). Before the end of the handshake it is an upper bound.
    pub fn max_payload(&self) -> usize {
        let segment = match self.flow() {
            Some(_) => self.window.segment() as usize,
            None => usize::from(self.config.mss) - if self.config.timestamps { 12 } else { 0 },
        };
        self.config.max_payload(segment)
    }

    /// Returns the secrets of its records, if they are encrypted.
    pub fn secrets(&self) -> Option<Secrets> {
        self.config.secrets(self.target.local, self.target.remote)
    }

    /// Returns the state of the connection.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns both ends of the connection.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Returns the connection's counters.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns its flow at the Congestion Manager, from the end of the handshake to the close.
    pub fn flow(&self) -> Option<FlowId> {
        self.flow.id()
    }

    /// Returns the number of data bytes in flight: RFC 6675's pipe.
    pub fn outstanding(&self) -> u64 {
        self.sender.pipe()
    }

    /// Returns the number of sent, unacknowledged data bytes.
    pub fn unacknowledged(&self) -> u64 {
        self.closing.data_bytes(self.sender.una(), self.sender.nxt())
    }

    /// Returns whether the connection is in fast recovery.
    pub fn is_recovering(&self) -> bool {
        matches!(self.sender.phase(), Phase::Recovery { .. })
    }

    /// Returns whether [`poll_event`](Transport::poll_event) has an event.
    pub(crate) fn has_news(&self) -> bool {
        !self.events.is_empty()
    }

    /// Returns whether the connection is closed, with everything sent, read and reported.
    pub fn is_finished(&self) -> bool {
        self.state == State::Closed && self.is_drained()
    }

    /// Returns whether the connection is closed and has nothing more to send, to report, or to be read.
    pub(crate) fn is_drained(&self) -> bool {
        !self.state.is_alive()
            && self.pending.is_empty()
            && self.events.is_empty()
            && self.flow().is_none()
            && self.readable() == 0
    }

    /// Returns whether an acknowledgement, which may be a window update, is due.
    fn owes_ack(&self, now: Instant) -> bool {
        // Outside of the synchronized states no acknowledgement is owed, whatever was received before.
        self.state.is_synchronized() && self.receiver.as_ref().is_some_and(|receiver| receiver.ack_is_due(now))
    }

    /// Closes this end. Data in flight is reported as lost.
    fn tear_down(&mut self, next: State, reason: CloseReason) {
        self.events.extend(self.sender.give_up().map(|token| Event::Lost { token }));
        self.tell_settled();
        self.timers.stop_all();
        self.pending.clear();
        self.state = next;
        self.events.push_back(Event::Closed { reason });
    }

    /// Closes the flow once the connection is over; called wherever the Congestion Manager is at hand.
    fn release(&mut self, now: Instant, cm: &mut Manager) {
        if !self.state.is_alive() {
            self.flow.close(now, cm);
        }
    }

    /// Returns whether a SYN may replace this connection, which is in TIME-WAIT: its sequence number or timestamp must
    /// be beyond those of any segment in flight (RFC 9293 §3.6.1, RFC 6191).
    pub(crate) fn is_outlived_by(&self, segment: &Segment<'_>) -> bool {
        let is_syn = segment.has(Flags::SYN) && segment.header.ack.is_none() && !segment.has(Flags::RST);
        let receiver = self.receiver.as_ref().filter(|_| is_syn && self.state == State::TimeWait);
        receiver.is_some_and(|receiver| receiver.is_outlived_by(segment))
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
        let ports = (self.target.remote.port(), self.target.local.port());
        match Segment::parse(datagram, self.target.addresses().reversed()) {
            Ok(segment) if (segment.header.source_port, segment.header.dest_port) == ports => {
                self.receive(now, cm, &segment, meta.into().ecn);
            }
            _ => self.statistics.malformed += 1,
        }
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
        let transmit = self.transmit(&mut Poll { now, cm, source, packet });
        self.release(now, cm);
        self.order.polled(now, transmit.is_some())?;
        Ok(transmit)
    }

    fn poll_timeout(&mut self) -> Result<Option<Instant>, Misuse> {
        self.order.may_sleep()?;
        let ack = self.receiver.as_ref().filter(|_| self.state.is_synchronized()).and_then(Receiver::poll_timeout);
        // Reading may have opened the window.
        let at_once = Some(self.order.now()).filter(|&now| self.owes_ack(now));
        Ok([self.timers.next(), ack, at_once].into_iter().flatten().min())
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
