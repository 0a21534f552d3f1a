//! A congestion-controlled UDP socket: takes datagrams as any socket does, and sends them as they are granted (Andersen
//! et al. §3.3).

mod peer;
mod readiness;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use timeous_cm::Update;
use timeous_core::{Duration, Instant, PathState};
use timeous_engine::clock;
use timeous_ipc::Refusal;

use super::error::Error;
use super::event::Event;
use super::feedback::{Ack, Feedback};
use super::flow::FlowId;
use super::manager::CongestionManager;
use peer::Peer;
use readiness::Readiness;

/// Default MTU, in bytes: passes wherever IPv6 does (1280 bytes, RFC 8200 §5), even through a tunnel. Chosen by us: a
/// higher value is lost on such paths.
const MTU: u64 = 1_200;
/// Default size of the send queue of each destination, in bytes. Chosen by us: a higher value makes a slow path's queue
/// longer.
const CAPACITY: usize = 64 << 10;
/// Maximum number of unpolled departures; the oldest are dropped first. Chosen by us: a higher value takes more memory.
const DEPARTURES: usize = 4_096;
/// Maximum number of datagrams received between two calls to the manager, and of updates handed in together. Chosen by
/// us: a higher value costs fewer calls and gives feedback later.
const AT_ONCE: usize = 16;

/// Record of a datagram that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Departure {
    /// Destination.
    pub remote: SocketAddr,
    /// Send time.
    pub at: Instant,
    /// Payload length.
    pub bytes: usize,
}

/// A UDP socket whose datagrams are sent as the Congestion Manager grants them.
///
/// It is non-blocking and has one descriptor, readable when there is a datagram or an event of the manager; any call
/// processes the latter. Each destination has a bounded FIFO queue; if it is full, [`send`](Self::send) returns
/// `WouldBlock`. A datagram that the network refuses is lost, and counts as sent.
///
/// The application only has to add feedback. Either it reports what its receiver says by [`update`](Self::update), as
/// with any flow; or its datagrams carry numbers from 0, its receiver answers with [`Ack`]s, and it passes those to a
/// socket [with feedback](Self::with_feedback), which does the rest:
///
/// ```
/// use std::net::UdpSocket;
/// use timeous::clock;
/// use timeous::cm::{Ack, Acks, BufferedSocket, CongestionManager, ManagerLocation};
///
/// let receiver = UdpSocket::bind("127.0.0.1:0")?;
/// let cm = CongestionManager::open(ManagerLocation::InProcess)?;
/// let mut socket = BufferedSocket::new(&cm, UdpSocket::bind("127.0.0.1:0")?)?.with_feedback();
/// socket.connect(receiver.local_addr()?)?;
/// for number in 0..3u64 {
///     socket.send(&number.to_be_bytes())?;
/// }
/// # let mut acks = Acks::every(1, timeous::core::Duration::ZERO);
/// # let mut buffer = [0; 1_500];
/// while socket.queued() > 0 || socket.query()?.outstanding > 0 {
/// #   receiver.set_nonblocking(true)?;
/// #   while let Ok((len, from)) = receiver.recv_from(&mut buffer) {
/// #       acks.received(clock::now(), u64::from_be_bytes(buffer[..len].try_into()?));
/// #       receiver.send_to(&acks.acknowledge(clock::now()).unwrap().encode(), from)?;
/// #   }
///     socket.wait(None);
///     while let Ok(len) = socket.recv(&mut buffer) {
///         socket.acked(&Ack::decode(&buffer[..len])?)?;
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct BufferedSocket {
    socket: UdpSocket,
    cm: CongestionManager,
    readiness: Readiness,
    capacity: usize,
    mtu: u64,
    /// Template for each destination, if the socket tracks acknowledgements.
    feedback: Option<Feedback>,
    connected: Option<SocketAddr>,
    peers: BTreeMap<SocketAddr, Peer>,
    by_flow: BTreeMap<FlowId, SocketAddr>,
    departures: VecDeque<Departure>,
    events: VecDeque<Event>,
    /// Updates from acknowledgements, not handed to the manager yet.
    learnt: Vec<(FlowId, Update)>,
    /// Datagrams received since the manager's events were last processed.
    received: usize,
    /// Whether the application has only waited by [`wait`](Self::wait): one with an event loop may not call again
    /// before the descriptor is readable.
    waits: AtomicBool,
}

impl BufferedSocket {
    /// Wraps `socket`, which becomes non-blocking, as a separate client of the manager of `cm`: its flows share paths
    /// with that manager's other flows, but its events are its own.
    ///
    /// # Errors
    /// Environment errors: no descriptor, daemon gone.
    pub fn new(cm: &CongestionManager, socket: UdpSocket) -> Result<Self, Error> {
        let cm = cm.sibling()?;
        socket.set_nonblocking(true)?;
        let readiness = Readiness::of(&socket, &cm)?;
        Ok(Self {
            socket,
            cm,
            readiness,
            capacity: CAPACITY,
            mtu: MTU,
            feedback: None,
            connected: None,
            peers: BTreeMap::new(),
            by_flow: BTreeMap::new(),
            departures: VecDeque::new(),
            events: VecDeque::new(),
            learnt: Vec::new(),
            received: 0,
            waits: AtomicBool::new(true),
        })
    }

    /// Sets the queue size of each destination in bytes; default 64 KiB. An empty queue always takes one datagram.
    #[must_use]
    pub fn with_capacity(self, bytes: usize) -> Self {
        Self { capacity: bytes, ..self }
    }

    /// Sets the maximum datagram size; default 1200 bytes. For destinations to which nothing was sent so far.
    #[must_use]
    pub fn with_mtu(self, bytes: u64) -> Self {
        Self { mtu: bytes, ..self }
    }

    /// Tracks [acknowledgements](Self::acked) and losses. For destinations to which nothing was sent so far, and for
    /// datagrams with numbers, from 0 for each destination, in the order of sending.
    #[must_use]
    pub fn with_feedback(self) -> Self {
        self.with_feedback_after(Duration::ZERO)
    }

    /// Same as [`with_feedback`](Self::with_feedback), for receivers that may delay an acknowledgement by `ack_delay`.
    #[must_use]
    pub fn with_feedback_after(self, ack_delay: Duration) -> Self {
        Self { feedback: Some(Feedback::with_ack_delay(ack_delay)), ..self }
    }

    /// Connects the socket: sends to `remote`, and receives only from there.
    ///
    /// # Errors
    /// The system's, or the manager's if it opens no flow.
    pub fn connect(&mut self, remote: SocketAddr) -> Result<(), Error> {
        self.socket.connect(remote)?;
        self.connected = Some(remote);
        self.open_peer(remote)
    }

    /// Queues a datagram for the [connected](Self::connect) destination.
    ///
    /// # Errors
    /// `WouldBlock` if the queue is full, `InvalidInput` if the datagram exceeds the MTU, `NotConnected`; else a system
    /// error, possibly for an earlier datagram.
    pub fn send(&mut self, datagram: &[u8]) -> io::Result<usize> {
        let remote = self.connected.ok_or(io::ErrorKind::NotConnected)?;
        self.queue(datagram, remote)
    }

    /// Queues a datagram for `remote`. The first one opens a flow to it.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_to(&mut self, datagram: &[u8], remote: SocketAddr) -> io::Result<usize> {
        self.queue(datagram, remote)
    }

    fn queue(&mut self, datagram: &[u8], remote: SocketAddr) -> io::Result<usize> {
        if datagram.len() as u64 > self.mtu {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.open_peer(remote).map_err(io::Error::other)?;
        if !self.put(datagram, remote)? {
            self.drive()?;
            if !self.put(datagram, remote)? {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        // Sends what is granted immediately.
        self.drive()?;
        Ok(datagram.len())
    }

    /// Queues a datagram if there is room, and requests its grant.
    fn put(&mut self, datagram: &[u8], remote: SocketAddr) -> io::Result<bool> {
        let peer = self.peers.get_mut(&remote).ok_or(io::ErrorKind::NotConnected)?;
        let has_room = peer.queue(datagram, self.capacity);
        peer.ask(&self.cm).map_err(io::Error::other)?;
        Ok(has_room)
    }

    /// Receives a datagram.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; else a system error.
    pub fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv_from(buffer).map(|(len, _)| len)
    }

    /// Receives a datagram and its source address.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn recv_from(&mut self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let received = self.socket.recv_from(buffer);
        self.received += 1;
        if received.is_err() || self.received >= AT_ONCE {
            self.drive()?;
        }
        received
    }

    /// Reports feedback of the connected receiver about datagrams that were sent.
    ///
    /// # Errors
    /// The caller's: not connected, or implausible feedback. [`Error::Disconnected`] while the daemon is gone.
    pub fn update(&mut self, update: Update) -> Result<(), Error> {
        let remote = self.connected.ok_or_else(not_connected)?;
        self.update_from(remote, update)
    }

    /// Reports feedback of the receiver at `remote`.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn update_from(&mut self, remote: SocketAddr, update: Update) -> Result<(), Error> {
        self.cm.update(self.flow(remote)?, update)?;
        Ok(self.drive()?)
    }

    /// Processes an acknowledgement of the connected receiver.
    ///
    /// # Errors
    /// The peer's: it acknowledges datagrams never sent. Else those of [`update`](Self::update).
    pub fn acked(&mut self, ack: &Ack) -> Result<(), Error> {
        let remote = self.connected.ok_or_else(not_connected)?;
        self.acked_from(remote, ack)
    }

    /// Processes an acknowledgement of the receiver at `remote`.
    ///
    /// # Errors
    /// As [`acked`](Self::acked).
    pub fn acked_from(&mut self, remote: SocketAddr, ack: &Ack) -> Result<(), Error> {
        let peer = self.peers.get_mut(&remote).ok_or_else(not_connected)?;
        let Some(feedback) = &mut peer.feedback else { return Ok(()) };
        match feedback.acked(clock::now(), ack)? {
            Some(update) => self.learn(remote, update),
            None => Ok(()),
        }
    }

    /// Keeps an update, since there may be more to read: handed in together, they release datagrams together.
    fn learn(&mut self, remote: SocketAddr, update: Update) -> Result<(), Error> {
        self.learnt.push((self.flow(remote)?, update));
        if self.learnt.len() >= AT_ONCE || !self.waits.load(Ordering::Relaxed) {
            self.drive()?;
        }
        Ok(())
    }

    /// Returns the path state of the connected destination.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn query(&self) -> Result<PathState, Error> {
        self.cm.query(self.flow(self.connected.ok_or_else(not_connected)?)?)
    }

    /// The flow to `remote`, for other calls of the [manager](Self::manager).
    ///
    /// # Errors
    /// The caller's: nothing was sent there. [`Error::Disconnected`] while the daemon is gone.
    pub fn flow(&self, remote: SocketAddr) -> Result<FlowId, Error> {
        self.peers.get(&remote).ok_or_else(not_connected)?.flow.ok_or(Error::Disconnected)
    }

    /// The socket's own client of the manager. Its events come from [`poll_event`](Self::poll_event).
    #[must_use]
    pub fn manager(&self) -> &CongestionManager {
        &self.cm
    }

    /// Closes the flow to `remote` and drops its queue.
    ///
    /// # Errors
    /// The manager's.
    pub fn forget(&mut self, remote: SocketAddr) -> Result<(), Error> {
        match self.peers.remove(&remote).and_then(|peer| peer.flow) {
            None => Ok(()),
            Some(flow) => {
                self.by_flow.remove(&flow);
                self.cm.close(flow)
            }
        }
    }

    /// Number of datagrams queued, for all destinations.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.peers.values().map(Peer::len).sum()
    }

    /// Returns the oldest unpolled departure, if the socket does not track acknowledgements itself: the round trip
    /// begins at departure, not at queueing. Polling is optional; the last few thousand are kept. Poll before reading
    /// feedback about them.
    #[must_use]
    pub fn poll_departure(&mut self) -> Option<Departure> {
        self.departures.pop_front()
    }

    /// Returns the next event of the manager besides grants: rate changes beyond a threshold, loss and return of a
    /// daemon. The socket reopens its flows by itself and keeps its queues; feedback about earlier datagrams is then
    /// ignored (see [`Feedback::forget`]).
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Sleeps until a datagram can be read or was sent, at most until `deadline`; `false` if neither happened. To be
    /// called where a plain program would wait for its socket.
    pub fn wait(&mut self, deadline: Option<Instant>) -> bool {
        let due = deadline.into_iter().chain(self.poll_timeout()).min();
        let before = self.queued();
        // The next call on the socket reports any error.
        let _ = self.drive();
        if self.queued() < before {
            return true;
        }
        let ready = if self.readiness.waits_for_room() {
            self.cm.wait_with(&self.readiness, due)
        } else {
            self.cm.wait_with(&self.socket, due)
        };
        let _ = self.drive();
        ready || due != deadline
    }

    /// Time at which [`drive`](Self::drive) is due even if nothing is readable, for an application with an event loop:
    /// the manager is also told of silent receivers.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.peers.values().filter_map(Peer::poll_timeout).min()
    }

    /// Processes the manager's events, and sends what it grants. Every other call does so, too.
    ///
    /// # Errors
    /// A system error, after which the socket is unusable.
    pub fn drive(&mut self) -> io::Result<()> {
        self.received = 0;
        if !self.learnt.is_empty() {
            // An update fails only for a flow that is closed.
            let _ = self.cm.bulk_update(&self.learnt);
            self.learnt.clear();
        }
        if self.readiness.stop_waiting_for_room(&self.socket)? {
            self.ask_for_all();
        }
        self.pass_time();
        while let Some(event) = self.cm.poll_event() {
            match event {
                Event::Granted(flow) => self.granted(flow)?,
                Event::Room => self.ask_for_all(),
                // The grant had expired at the daemon, but the datagram was sent.
                Event::Refused { flow, why: Refusal::NotGranted, value } => {
                    if let Some(peer) = self.peer_of(flow) {
                        peer.left_unasked(value);
                    }
                    self.ask_for_all();
                }
                Event::Refused { flow, why: Refusal::Implausible | Refusal::MoreThanSent, value } => {
                    if let Some(peer) = self.peer_of(flow) {
                        peer.was_disbelieved(clock::now(), value);
                    }
                }
                Event::Refused { flow, why: Refusal::OverLimit, value } => {
                    if let Some(peer) = self.peer_of(flow) {
                        peer.was_refused(value as usize);
                    }
                }
                Event::Disconnected => {
                    self.by_flow.clear();
                    self.peers.values_mut().for_each(Peer::lose_flow);
                    self.events.push_back(event);
                }
                Event::Reconnected => {
                    let remotes: Vec<SocketAddr> = self.peers.keys().copied().collect();
                    for remote in remotes {
                        // An error shows up at the next send to that destination.
                        let _ = self.open_peer(remote);
                    }
                    self.ask_for_all();
                    self.events.push_back(event);
                }
                other => self.events.push_back(other),
            }
        }
        Ok(())
    }

    /// Handles timeouts: silent receivers, and repeats of refused updates.
    fn pass_time(&mut self) {
        let now = clock::now();
        for peer in self.peers.values_mut() {
            peer.tell_again(now, &self.cm);
            let update = peer.feedback.as_mut().and_then(|feedback| feedback.handle_timeout(now));
            if let (Some(update), Some(flow)) = (update, peer.flow) {
                // An update fails only for a flow that is closed.
                let _ = self.cm.update(flow, update);
            }
        }
    }

    /// Opens a flow to `remote`, unless it is open or the daemon is gone.
    fn open_peer(&mut self, remote: SocketAddr) -> Result<(), Error> {
        let feedback = &self.feedback;
        let peer = self.peers.entry(remote).or_insert_with(|| Peer::new(feedback.clone()));
        if peer.flow.is_none() {
            match self.cm.open_to(remote, self.mtu) {
                Ok(flow) => {
                    peer.flow = Some(flow);
                    self.by_flow.insert(flow, remote);
                }
                // It is opened when the daemon is back.
                Err(Error::Disconnected) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn peer_of(&mut self, flow: FlowId) -> Option<&mut Peer> {
        self.peers.get_mut(self.by_flow.get(&flow)?)
    }

    fn ask_for_all(&mut self) {
        for peer in self.peers.values_mut() {
            // Without a flow the peer waits until it is reopened.
            let _ = peer.ask(&self.cm);
        }
    }

    fn granted(&mut self, flow: FlowId) -> io::Result<()> {
        let Some((&remote, peer)) =
            self.by_flow.get(&flow).and_then(|remote| Some((remote, self.peers.get_mut(remote)?)))
        else {
            return Ok(());
        };
        let now = clock::now();
        let Some(datagram) = peer.granted() else {
            let _ = self.cm.notify(flow, 0);
            return Ok(());
        };
        let sent = match self.connected {
            Some(connected) if connected == remote => self.socket.send(&datagram),
            _ => self.socket.send_to(&datagram, remote),
        };
        if sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            peer.put_back(datagram);
            let _ = self.cm.notify(flow, 0);
            return self.readiness.wait_for_room(&self.socket);
        }
        let bytes = datagram.len();
        // The grant had expired, but the datagram was sent.
        if self.cm.notify(flow, bytes as u64).is_err() {
            peer.left_unasked(bytes as u64);
        }
        match &mut peer.feedback {
            Some(feedback) => {
                feedback.sent(now, bytes as u64);
            }
            None => {
                if self.departures.len() == DEPARTURES {
                    self.departures.pop_front();
                }
                self.departures.push_back(Departure { remote, at: now, bytes });
            }
        }
        let _ = peer.ask(&self.cm);
        Ok(())
    }
}

fn not_connected() -> Error {
    Error::Io(io::ErrorKind::NotConnected.into())
}

/// Readable when there is a datagram to read, or an event of the manager.
impl AsFd for BufferedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waits.store(false, Ordering::Relaxed);
        self.cm.show();
        self.readiness.as_fd()
    }
}
