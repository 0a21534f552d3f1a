//! A connection: its state, its commands, and the driving order (RFC 9293 §3.3, §3.9).

mod acks;
mod agreed;
mod bundling;
mod closing;
mod config;
mod data;
mod events;
mod handshake;
mod owed;
mod receive;
mod state;
mod timeouts;
mod timers;
mod transmit;

use std::collections::VecDeque;
use std::net::SocketAddr;

use timeous_cm::{CmError, Destination, FlowId, Manager};
use timeous_core::{AduSource, DriveOrder, Duration, Ecn, Instant, Misuse, RateLimit, Rng, Transmit, Transport};

pub use config::{Config, EcnMode, LossDetection, Receiving, Sending};
pub use events::{CloseReason, Event, Statistics};
pub use state::State;

use crate::receiver::{ReceivedDatagram, Receiver};
use crate::segment::{Addresses, Segment};
use crate::sender::{Detection, Feedback, Kept, PeerWindow, Phase, Sender, datagram_room};
use crate::seq::Seq;
use agreed::Agreed;
use owed::Owed;
use timers::{Timer, TimerTable};

/// Challenge ACKs in a second (RFC 5961 §7); Linux allows 500 an interface and one each half a second a connection.
const CHALLENGES_PER_SECOND: u32 = 10;

/// Between whom a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The address and port here.
    pub local: SocketAddr,
    /// The address and port there.
    pub remote: SocketAddr,
    /// The Differentiated Services code point of its packets, for the Congestion Manager.
    pub dscp: u8,
}

impl Target {
    /// The addresses of a segment that leaves.
    fn addresses(&self) -> Addresses {
        Addresses { source: self.local.ip(), destination: self.remote.ip() }
    }
}

/// A TCP connection, sans-IO, a client of the Congestion Manager.
///
/// The driving order is that of [`Transport`]. Every segment of new data is one pull from the source, with room for a
/// full segment, and its bytes are kept until they are acknowledged. Each pull is told of by exactly one
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
    /// Where our timestamps' clock began: it counts milliseconds (RFC 7323 §5.4).
    clock: u32,
    iss: Seq,
    /// The peer's, once it is known.
    irs: Seq,
    /// How often the SYN was repeated; later, how many timeouts there were in a row.
    repeats: u32,
    syn_sent_at: Instant,
    agreed: Agreed,
    owed: Owed,
    sender: Sender,
    window: PeerWindow,
    receiver: Option<Receiver>,
    feedback: Feedback,
    challenges: RateLimit,
    events: VecDeque<Event>,
    statistics: Statistics,
    flow: Option<FlowId>,
    /// The application sends nothing more than what its source holds.
    is_closing: bool,
    /// What the acknowledgement of our FIN acknowledges, once that was sent.
    fin: Option<u64>,
    /// How many window probes were sent since the window closed, and how many since the peer was last heard.
    probes: u32,
    unanswered_probes: u32,
    /// The timeout of data until there is a sample, if the handshake gave none.
    first_timeout: Option<Duration>,
    /// The application knows that there is something to read.
    told_readable: bool,
    /// It knows that nothing is replaced any more.
    told_refusal: bool,
}

impl Connection {
    /// The end that asks for the connection.
    pub fn connect(now: Instant, config: Config, target: Target, rng: &mut Rng) -> Self {
        let mut connection = Self::new(now, config, target, rng);
        connection.begin_connecting(now);
        connection
    }

    /// The end that is asked: it takes one connection, from `target.remote`.
    pub fn listen(now: Instant, config: Config, target: Target, rng: &mut Rng) -> Self {
        let mut connection = Self::new(now, config, target, rng);
        connection.state = State::Listen;
        connection
    }

    fn new(now: Instant, mut config: Config, target: Target, rng: &mut Rng) -> Self {
        config.mss = config.mss.max(Config::MIN_MSS);
        let random = rng.next_u64();
        let iss = config.initial_seq.unwrap_or_else(|| Seq::new(random as u32));
        let mut order = DriveOrder::default();
        // A fresh order takes any instant.
        let _ = order.fed(now);
        Self {
            config,
            target,
            state: State::Closed,
            order,
            timers: TimerTable::default(),
            clock: (random >> 32) as u32,
            iss,
            irs: Seq::default(),
            repeats: 0,
            syn_sent_at: now,
            agreed: Agreed::default(),
            owed: Owed::default(),
            sender: Sender::new(Box::new(Kept::default()), 1, Detection::DuplicateAcks, false),
            window: PeerWindow::new(),
            receiver: None,
            feedback: Feedback::default(),
            challenges: RateLimit::per_second(CHALLENGES_PER_SECOND),
            events: VecDeque::new(),
            statistics: Statistics::default(),
            flow: None,
            is_closing: false,
            fin: None,
            probes: 0,
            unanswered_probes: 0,
            first_timeout: None,
            told_readable: false,
            told_refusal: false,
        }
    }

    /// Sends nothing more: what the source still holds leaves, and then a FIN. The peer may go on sending, and what it
    /// sends can be read. The end of both directions is an [`Event::Closed`].
    ///
    /// # Errors
    /// [`Misuse`] if `now` is before an earlier call's.
    pub fn close(&mut self, now: Instant) -> Result<(), Misuse> {
        self.order.fed(now)?;
        self.begin_close();
        Ok(())
    }

    /// Ends the connection at once with a reset. What was not read is gone.
    ///
    /// # Errors
    /// [`Misuse`] if `now` is before an earlier call's.
    pub fn abort(&mut self, now: Instant) -> Result<(), Misuse> {
        self.order.fed(now)?;
        self.begin_abort();
        Ok(())
    }

    /// Takes in a segment that was parsed already, as [`Transport::handle_datagram`] does.
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

    /// Appends what the peer sent to `out`, in order, `limit` bytes at most, and gives how many those were. It may make
    /// a window update due: poll again.
    pub fn read(&mut self, limit: usize, out: &mut Vec<u8>) -> usize {
        self.told_readable = false;
        self.receiver.as_mut().map_or(0, |receiver| receiver.read(limit, out))
    }

    /// Appends the payload of the next datagram to `out`, where they are received as such ([`Receiving::Unordered`]);
    /// `None` if there is none.
    pub fn read_datagram(&mut self, out: &mut Vec<u8>) -> Option<ReceivedDatagram> {
        self.told_readable = false;
        self.receiver.as_mut()?.read_datagram(out)
    }

    /// How many bytes can be read now; where datagrams are received, how many of those.
    pub fn readable(&self) -> usize {
        self.receiver.as_ref().map_or(0, Receiver::readable)
    }

    /// The most bytes of new data in one segment: the room that the source is asked to fill (McQuistin's `getPMTU`,
    /// where records are sent). Before the handshake is over, what it will be at most.
    pub fn max_payload(&self) -> usize {
        let segment = match self.flow {
            Some(_) => self.window.segment(self.agreed.payload) as usize,
            None => usize::from(self.config.mss) - if self.config.timestamps { 12 } else { 0 },
        };
        if self.config.sending == Sending::Stream { segment } else { datagram_room(segment) }
    }

    /// Where the connection is in its life.
    pub fn state(&self) -> State {
        self.state
    }

    /// Between whom it is.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// What was counted.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Its flow at the Congestion Manager, once the handshake is complete and until the end.
    pub fn flow(&self) -> Option<FlowId> {
        self.flow
    }

    /// Bytes of data that are thought to be under way now: RFC 6675's pipe.
    pub fn outstanding(&self) -> u64 {
        self.sender.pipe()
    }

    /// Bytes of data that were sent and are not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        self.sender.nxt() - self.sender.una() - u64::from(self.fin.is_some_and(|fin| self.sender.una() < fin))
    }

    /// Whether lost segments are being repaired by fast recovery.
    pub fn is_recovering(&self) -> bool {
        matches!(self.sender.phase(), Phase::Recovery { .. })
    }

    /// Whether nothing more will happen: closed, with everything sent, read and heard.
    pub fn is_finished(&self) -> bool {
        self.state == State::Closed && self.is_drained()
    }

    /// Whether it is over and has nothing more to send, to tell, or to be read.
    pub(crate) fn is_drained(&self) -> bool {
        !self.state.is_alive()
            && self.owed.is_nothing()
            && self.events.is_empty()
            && self.flow.is_none()
            && self.readable() == 0
    }

    /// Whether an acknowledgement, a window update perhaps, is due.
    fn owes_ack(&self, now: Instant) -> bool {
        // Who is not connected, or not any more, owes nobody anything, whatever was received before.
        self.state.is_synchronized() && self.receiver.as_ref().is_some_and(|receiver| receiver.ack_is_due(now))
    }

    /// Ends the connection on this end. Nobody will hear of what is under way.
    fn tear_down(&mut self, next: State, reason: CloseReason) {
        self.events.extend(self.sender.give_up().map(|token| Event::Lost { token }));
        self.tell_settled();
        self.timers.stop_all();
        self.owed = Owed::default();
        self.state = next;
        self.events.push_back(Event::Closed { reason });
    }

    /// Gives the flow back once the connection is over; called wherever the Congestion Manager is at hand.
    fn release(&mut self, now: Instant, cm: &mut Manager) {
        if !self.state.is_alive()
            && let Some(flow) = self.flow.take()
        {
            told(cm.close(now, flow));
        }
    }

    fn destination(&self) -> Destination {
        Destination::from(self.target.remote.ip()).with_dscp(self.target.dscp)
    }

    /// The number on the wire of a stream offset.
    fn wire(&self, offset: u64) -> Seq {
        self.iss + 1 + offset as u32
    }

    /// The stream offset that a number of ours means, by the nearest way from what is acknowledged.
    fn offset(&self, seq: Seq) -> i64 {
        self.sender.una() as i64 + i64::from(seq.offset_from(self.wire(self.sender.una())))
    }

    /// Our clock for timestamps.
    fn timestamp(&self, now: Instant) -> u32 {
        self.clock.wrapping_add((now - Instant::ZERO).as_millis() as u32)
    }
}

impl Transport for Connection {
    type Congestion = Manager;
    type Event = Event;

    fn handle_datagram(&mut self, now: Instant, cm: &mut Manager, datagram: &[u8], ecn: Ecn) -> Result<(), Misuse> {
        self.order.fed(now)?;
        let ports = (self.target.remote.port(), self.target.local.port());
        match Segment::parse(datagram, self.target.addresses().reversed()) {
            Ok(segment) if (segment.header.source_port, segment.header.dest_port) == ports => {
                self.receive(now, cm, &segment, ecn);
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
        let transmit = self.transmit(now, cm, source, packet);
        self.release(now, cm);
        self.order.polled(now, transmit.is_some())?;
        Ok(transmit)
    }

    fn poll_timeout(&mut self) -> Result<Option<Instant>, Misuse> {
        self.order.may_sleep()?;
        let ack = self.receiver.as_ref().filter(|_| self.state.is_synchronized()).and_then(Receiver::poll_timeout);
        // What was read since has opened the window.
        let at_once = Some(self.order.now()).filter(|&now| self.owes_ack(now));
        Ok([self.timers.next(), ack, at_once].into_iter().flatten().min())
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

/// The longest that a timeout is backed off to (RFC 6298 §2.5 asks for no less than a minute; Linux takes two).
const MAX_TIMEOUT: Duration = Duration::from_secs(120);

/// `first`, doubled `times` times.
fn backed_off(first: Duration, times: u32) -> Duration {
    (first * (1 << times.min(32))).min(MAX_TIMEOUT)
}
