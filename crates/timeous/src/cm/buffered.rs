//! A congestion-controlled UDP socket: it takes datagrams as any socket does, and sends them as they are granted
//! (Andersen et al. §3.3).

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

/// The largest datagram unless another is given: it passes wherever IPv6 passes, through a tunnel too.
const MTU: u64 = 1_200;
/// So many bytes wait for each destination at most, unless more or less is given.
const CAPACITY: usize = 64 << 10;
/// Departures that nobody asks for are forgotten, the oldest first.
const DEPARTURES: usize = 4_096;
/// So many datagrams are received, and acknowledgements handed in, at once at most.
const AT_ONCE: usize = 16;

/// A datagram has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Where to.
    pub remote: SocketAddr,
    /// When.
    pub at: Instant,
    /// The length of its payload.
    pub bytes: usize,
}

/// A UDP socket whose datagrams leave when the Congestion Manager grants it.
///
/// It is non-blocking and has one descriptor: readable when there is a datagram to read or the manager has something
/// to say, which any call takes in. What is sent waits in a bounded queue for each destination, and goes in order; when
/// that is full, [`send`](Self::send) gives `WouldBlock`. A datagram that the network refuses is lost, and counts as sent.
///
/// All that the application has to add is feedback. Either it tells what its receiver says by [`update`](Self::update),
/// as with any flow; or its datagrams bear numbers from 0 on, its receiver answers with [`Ack`]s, and it gives those to
/// a socket [with feedback](Self::with_feedback), which does the rest:
///
/// ```
/// use std::net::UdpSocket;
/// use timeous::clock;
/// use timeous::cm::{Ack, Acks, BufferedSocket, CongestionManager, Where};
///
/// let receiver = UdpSocket::bind("127.0.0.1:0")?;
/// let cm = CongestionManager::open(Where::InProcess)?;
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
    /// A fresh one for each destination, if the socket keeps account.
    feedback: Option<Feedback>,
    connected: Option<SocketAddr>,
    peers: BTreeMap<SocketAddr, Peer>,
    by_flow: BTreeMap<FlowId, SocketAddr>,
    departures: VecDeque<Departure>,
    events: VecDeque<Event>,
    /// What acknowledgements told, and the manager is told soon.
    learnt: Vec<(FlowId, Update)>,
    /// Datagrams that were received since the manager was heard.
    received: usize,
    /// Whether its own [`wait`](Self::wait) has been all that waits for it: an application with a loop of its own may not
    /// come back before there is something.
    waits: AtomicBool,
}

impl BufferedSocket {
    /// Sends on `socket`, which becomes non-blocking, as a client of its own of the manager of `cm`: its flows share
    /// paths with others of that manager, and its events are no other client's.
    ///
    /// # Errors
    /// The environment's: no descriptor, no daemon any more.
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

    /// With room for `bytes` that wait for each destination; 64 KiB unless given. One datagram is always taken.
    #[must_use]
    pub fn with_capacity(self, bytes: usize) -> Self {
        Self { capacity: bytes, ..self }
    }

    /// With datagrams of up to `bytes`; 1200 unless given. For destinations that nothing was sent to so far.
    #[must_use]
    pub fn with_mtu(self, bytes: u64) -> Self {
        Self { mtu: bytes, ..self }
    }

    /// Keeping account of what is [acknowledged](Self::acked) and what is lost. For destinations that nothing was sent to
    /// so far, and for datagrams that bear numbers, from 0 on for each destination, in the order in which they are given.
    #[must_use]
    pub fn with_feedback(self) -> Self {
        self.with_feedback_after(Duration::ZERO)
    }

    /// [`with_feedback`](Self::with_feedback) of receivers that may wait for `ack_delay` before they acknowledge.
    #[must_use]
    pub fn with_feedback_after(self, ack_delay: Duration) -> Self {
        Self { feedback: Some(Feedback::with_ack_delay(ack_delay)), ..self }
    }

    /// Sends to `remote` from now on, and receives from nobody else.
    ///
    /// # Errors
    /// The system's; the manager's, if it opens no flow.
    pub fn connect(&mut self, remote: SocketAddr) -> Result<(), Error> {
        self.socket.connect(remote)?;
        self.connected = Some(remote);
        self.open_peer(remote)
    }

    /// Queues a datagram for whom the socket is [connected](Self::connect) to.
    ///
    /// # Errors
    /// `WouldBlock` if the queue is full, `InvalidInput` if it is larger than the MTU, `NotConnected`; else the
    /// system's, maybe of a datagram before.
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
        // What is granted at once leaves at once.
        self.drive()?;
        Ok(datagram.len())
    }

    /// Queues a datagram and asks for its grant, if there is room.
    fn put(&mut self, datagram: &[u8], remote: SocketAddr) -> io::Result<bool> {
        let peer = self.peers.get_mut(&remote).ok_or(io::ErrorKind::NotConnected)?;
        let has_room = peer.queue(datagram, self.capacity);
        peer.ask(&self.cm).map_err(io::Error::other)?;
        Ok(has_room)
    }

    /// Receives a datagram.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; else the system's.
    pub fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv_from(buffer).map(|(len, _)| len)
    }

    /// Receives a datagram, and tells from whom.
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

    /// Tells what the receiver that the socket is connected to says of the datagrams that left.
    ///
    /// # Errors
    /// The caller's: not connected, or that cannot be true. [`Error::Disconnected`] while a daemon is gone.
    pub fn update(&mut self, update: Update) -> Result<(), Error> {
        let remote = self.connected.ok_or_else(not_connected)?;
        self.update_from(remote, update)
    }

    /// Tells what the receiver at `remote` says.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn update_from(&mut self, remote: SocketAddr, update: Update) -> Result<(), Error> {
        self.cm.update(self.flow(remote)?, update)?;
        Ok(self.drive()?)
    }

    /// Takes an acknowledgement of the receiver that the socket is connected to.
    ///
    /// # Errors
    /// The peer's: it acknowledges what was not sent. Else as [`update`](Self::update).
    pub fn acked(&mut self, ack: &Ack) -> Result<(), Error> {
        let remote = self.connected.ok_or_else(not_connected)?;
        self.acked_from(remote, ack)
    }

    /// Takes an acknowledgement of the receiver at `remote`.
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

    /// Keeps what an acknowledgement told, since there may be more to read: they are handed in together, and what they
    /// let go leaves together.
    fn learn(&mut self, remote: SocketAddr, update: Update) -> Result<(), Error> {
        self.learnt.push((self.flow(remote)?, update));
        if self.learnt.len() >= AT_ONCE || !self.waits.load(Ordering::Relaxed) {
            self.drive()?;
        }
        Ok(())
    }

    /// What is known of the path to whom the socket is connected to.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn query(&self) -> Result<PathState, Error> {
        self.cm.query(self.flow(self.connected.ok_or_else(not_connected)?)?)
    }

    /// The flow to `remote`, for what else the [manager](Self::manager) can be told of it.
    ///
    /// # Errors
    /// The caller's: nothing was sent there. [`Error::Disconnected`] while a daemon is gone.
    pub fn flow(&self, remote: SocketAddr) -> Result<FlowId, Error> {
        self.peers.get(&remote).ok_or_else(not_connected)?.flow.ok_or(Error::Disconnected)
    }

    /// The socket's own client of the manager. Its events come by [`poll_event`](Self::poll_event).
    #[must_use]
    pub fn manager(&self) -> &CongestionManager {
        &self.cm
    }

    /// Ends the flow to `remote`; what waits for it is dropped.
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

    /// How many datagrams wait to leave.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.peers.values().map(Peer::len).sum()
    }

    /// A datagram that has left, oldest first, if the socket does not keep account itself: its round trip begins now, not
    /// when it was queued. Nobody has to ask; the last few thousand are kept. What is read of the socket may be about
    /// any that have left: ask before.
    #[must_use]
    pub fn poll_departure(&mut self) -> Option<Departure> {
        self.departures.pop_front()
    }

    /// What the manager tells beyond grants: changes beyond a threshold, that a daemon is gone or there again. The
    /// socket opens its flows again by itself, and keeps what is queued; feedback for what left before that comes too
    /// late (see [`Feedback::forget`]).
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Sleeps until there is a datagram to read or something left, but not beyond `deadline`; `false` if it came to that.
    /// To be called where a plain program would wait for its socket.
    pub fn wait(&mut self, deadline: Option<Instant>) -> bool {
        let due = deadline.into_iter().chain(self.poll_timeout()).min();
        let before = self.queued();
        // An error will be told by whatever is asked of the socket next.
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

    /// When [`drive`](Self::drive) is due though nothing is readable, for an application that polls by itself: silence
    /// of a receiver is told to the manager, too.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.peers.values().filter_map(Peer::poll_timeout).min()
    }

    /// Takes in what the manager has to say, and sends what it grants. Every other call does it too.
    ///
    /// # Errors
    /// The system's, of a socket that is of no use any more.
    pub fn drive(&mut self) -> io::Result<()> {
        self.received = 0;
        if !self.learnt.is_empty() {
            // What the manager will not hear of is closed already.
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
                // The daemon found that the grant had lapsed, but the datagram has left.
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
                        // Whoever sends there next hears of it.
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

    /// Tells the manager of receivers that are silent for too long, and again what it did not believe.
    fn pass_time(&mut self) {
        let now = clock::now();
        for peer in self.peers.values_mut() {
            peer.tell_again(now, &self.cm);
            let update = peer.feedback.as_mut().and_then(|feedback| feedback.handle_timeout(now));
            if let (Some(update), Some(flow)) = (update, peer.flow) {
                // What the manager will not hear of is closed already.
                let _ = self.cm.update(flow, update);
            }
        }
    }

    /// Opens a flow to `remote`, unless there is one or nobody to open it.
    fn open_peer(&mut self, remote: SocketAddr) -> Result<(), Error> {
        let feedback = &self.feedback;
        let peer = self.peers.entry(remote).or_insert_with(|| Peer::new(feedback.clone()));
        if peer.flow.is_none() {
            match self.cm.open_to(remote, self.mtu) {
                Ok(flow) => {
                    peer.flow = Some(flow);
                    self.by_flow.insert(flow, remote);
                }
                // It will be opened when a daemon is there again.
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
            // Without its flow a peer waits until that is open again.
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
        // A grant that came too late is no grant any more, but the datagram has left.
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

/// Readable when there is a datagram to read, or the manager has something to say.
impl AsFd for BufferedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waits.store(false, Ordering::Relaxed);
        self.cm.show();
        self.readiness.as_fd()
    }
}
