//! The application's side of a connection: a packet ring to fill, an inbox to empty, a waker to wait on.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use timeous_core::{AduMeta, Duration, Instant, PathState};
use timeous_dccp::{CloseReason, Statistics};
use timeous_ring::{Completion, EnqueueError, Index, Producer};

use crate::clock;
use crate::inbox::{Inbox, Received};
use crate::order::{Order, Orders, StreamId};
use crate::waker::Waker;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Status {
    /// The handshake is under way.
    #[default]
    Connecting,
    /// Data may flow.
    Open,
    /// It is over.
    Closed(CloseReason),
}

/// What is known of a stream at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Snapshot {
    /// The transport's counts.
    pub transport: Statistics,
    /// The path, as the Congestion Manager sees it.
    pub path: PathState,
    /// Packets in the ring that have not left.
    pub queued_packets: usize,
    /// Bytes of them.
    pub queued_bytes: usize,
    /// Packets that were sent again.
    pub repaired: u64,
    /// Datagrams that nobody read and that made room for newer ones.
    pub unread: u64,
}

/// What engine and application share of one stream, beside the ring.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) inbox: Inbox,
    /// Rings when there is something to read.
    pub(crate) readable: Waker,
    /// Rings when the ring has room again, or a fate is known.
    pub(crate) writable: Waker,
    state: Mutex<State>,
    /// Whether somebody looks at the snapshots: making one costs a walk over the queue.
    wanted: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    status: Status,
    snapshot: Snapshot,
}

impl Shared {
    pub(crate) fn new() -> std::io::Result<Arc<Self>> {
        let (readable, writable) = (Waker::new()?, Waker::new()?);
        let (inbox, state, wanted) = (Inbox::default(), Mutex::default(), AtomicBool::new(false));
        Ok(Arc::new(Self { inbox, readable, writable, state, wanted }))
    }

    pub(crate) fn set_status(&self, status: Status) {
        self.with_state(|state| state.status = status);
        self.readable.wake();
        self.writable.wake();
    }

    pub(crate) fn set_snapshot(&self, snapshot: Snapshot) {
        self.with_state(|state| state.snapshot = snapshot);
    }

    pub(crate) fn wants_snapshot(&self) -> bool {
        self.wanted.swap(false, Ordering::Relaxed)
    }

    fn with_state<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A connection, as the application holds it. Dropping it ends the connection at once.
///
/// It can be [split](Self::split) into its two directions.
#[derive(Debug)]
pub struct Stream {
    sending: SendHalf,
    receiving: ReceiveHalf,
}

impl Stream {
    pub(crate) fn new(id: StreamId, producer: Producer, shared: Arc<Shared>, orders: Orders) -> Self {
        let link = Arc::new(Link { id, shared, orders });
        Self { sending: SendHalf { producer, link: link.clone() }, receiving: ReceiveHalf { link } }
    }

    /// Its two directions, for two threads. The connection lasts until both are dropped.
    #[must_use]
    pub fn split(self) -> (SendHalf, ReceiveHalf) {
        (self.sending, self.receiving)
    }

    /// Where it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.sending.status()
    }

    /// The direction to the peer.
    pub fn sending(&mut self) -> &mut SendHalf {
        &mut self.sending
    }

    /// The direction from the peer.
    pub fn receiving(&mut self) -> &mut ReceiveHalf {
        &mut self.receiving
    }
}

/// What ends the connection when nobody holds it any more.
#[derive(Debug)]
struct Link {
    id: StreamId,
    shared: Arc<Shared>,
    orders: Orders,
}

impl Link {
    fn status(&self) -> Status {
        self.shared.with_state(|state| state.status)
    }
}

/// Sleeps until `waker` rings, but not beyond `deadline`.
fn wait(waker: &Waker, deadline: Option<Instant>) -> bool {
    waker.wait(deadline.map(|at| at.saturating_since(clock::now())))
}

impl Drop for Link {
    fn drop(&mut self) {
        self.orders.send(Order::Abandon(self.id));
    }
}

/// The direction to the peer: the packet ring, and what became of what was put into it.
#[derive(Debug)]
pub struct SendHalf {
    producer: Producer,
    link: Arc<Link>,
}

impl SendHalf {
    /// Queues a packet. It costs no system call unless the engine has asked to be told.
    ///
    /// # Errors
    /// The ring's: full, or closed, or the payload is larger than a buffer.
    pub fn enqueue(&mut self, meta: &AduMeta, bytes: &[u8]) -> Result<Index, EnqueueError> {
        let index = self.producer.enqueue(meta, bytes)?;
        self.notify_if_asked();
        Ok(index)
    }

    /// The ring itself: to look over what is queued, to pull it back, to change, drop or reorder it. Call
    /// [`notify_if_asked`](Self::notify_if_asked) after queueing through it.
    pub fn ring(&mut self) -> &mut Producer {
        &mut self.producer
    }

    /// Tells the engine that there is something to send, if it has asked to be told (the paper's `dccp_notify`).
    pub fn notify_if_asked(&mut self) {
        if self.producer.needs_notify() {
            self.link.orders.send(Order::Notify(self.link.id));
        }
    }

    /// What became of the next ADU whose fate is known.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.producer.poll_completion()
    }

    /// Where the connection stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.link.status()
    }

    /// What was known when the engine last wrote it down; it writes again soon after it was asked.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        snapshot(&self.link)
    }

    /// Sleeps until the ring has room again or a fate is known or the connection has ended, but not beyond `deadline`. `false` if nothing happened.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        wait(&self.link.shared.writable, deadline)
    }

    /// Ends the connection as soon as everything that is queued has had its fate.
    pub fn finish(&self) {
        self.link.orders.send(Order::Finish(self.link.id));
    }

    /// Rings when the ring has room again or a fate is known, or the connection has ended.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        &self.link.shared.writable
    }
}

impl AsFd for SendHalf {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.shared.writable.as_fd()
    }
}

/// The direction from the peer.
#[derive(Debug)]
pub struct ReceiveHalf {
    link: Arc<Link>,
}

impl ReceiveHalf {
    /// The next datagram that has come, if any.
    pub fn poll_received(&mut self) -> Option<Received> {
        self.link.shared.inbox.pop()
    }

    /// Where the connection stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.link.status()
    }

    /// What was known when the engine last wrote it down; it writes again soon after it was asked.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        snapshot(&self.link)
    }

    /// Sleeps until something has come or the connection has ended, but not beyond `deadline`. `false` if nothing happened.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        wait(&self.link.shared.readable, deadline)
    }

    /// Ends the connection as soon as everything that is queued has had its fate.
    pub fn finish(&self) {
        self.link.orders.send(Order::Finish(self.link.id));
    }

    /// Rings when something has come, or the connection has ended.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        &self.link.shared.readable
    }
}

impl AsFd for ReceiveHalf {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.shared.readable.as_fd()
    }
}

fn snapshot(link: &Link) -> Snapshot {
    link.shared.wanted.store(true, Ordering::Relaxed);
    link.shared.with_state(|state| state.snapshot)
}

/// How often a snapshot is written down at most.
pub(crate) const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(50);
