//! The application's side of a connection: a packet ring to fill, an inbox to empty, a waker to wait on.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use timeous_core::{AduMeta, Advice, Instant, Rate};
use timeous_ring::{Completion, EnqueueError, Index, Limits, Producer};

use crate::clock;
use crate::inbox::Received;
use crate::order::{Order, Orders, StreamId};
use crate::remote::{Reader, RemoteError};
use crate::shared::{Shared, Snapshot, Status};
use crate::waker::Waker;
use crate::way::Way;

/// What another process's engine may hand out; more than any does.
const REMOTE_LIMITS: Limits = Limits { slots: 1 << 20, bytes: 8 << 30 };

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
        Self::with(producer, Link { shared, way: Way::Thread(id, orders) })
    }

    /// A stream that the engine of another process runs: `ring` is its packet ring, `socket` this side's end of what
    /// the two say to each other. It is used as any other; a thread of its own takes in what the other process says.
    ///
    /// # Errors
    /// What came is not what an engine hands out, or the system gives no thread.
    pub fn remote(ring: OwnedFd, socket: OwnedFd) -> Result<Self, RemoteError> {
        let producer = Producer::open(ring, &REMOTE_LIMITS)?;
        let shared = Shared::new()?;
        let socket = Arc::new(socket);
        Reader::start(socket.clone(), shared.clone())?;
        Ok(Self::with(producer, Link { shared, way: Way::Process(socket) }))
    }

    fn with(producer: Producer, link: Link) -> Self {
        let link = Arc::new(link);
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

    /// Rings when the direction to the peer has news, or the connection has opened or ended.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        self.sending.waker()
    }

    /// The peer's address, if it is known.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.sending.peer()
    }

    /// Ends a connection that came in and is not wanted: the caller is told that this end is busy.
    pub fn refuse(self) {
        self.sending.link.way.send(Order::Refuse);
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
    shared: Arc<Shared>,
    way: Way,
}

impl Link {
    fn snapshot(&self) -> Snapshot {
        if !self.shared.has_news() {
            let is_first = self.shared.want_snapshot();
            if is_first {
                self.way.send(Order::Tell);
            }
            // A daemon tells what it knew before it was asked.
            if self.way.is_thread() {
                self.shared.await_news();
            }
        }
        self.shared.snapshot()
    }
}

/// Sleeps until `waker` rings, but not beyond `deadline`.
fn wait(waker: &Waker, deadline: Option<Instant>) -> bool {
    waker.wait(deadline.map(|at| at.saturating_since(clock::now())))
}

impl Drop for Link {
    fn drop(&mut self) {
        self.way.send(Order::Abandon);
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
            self.link.way.send(Order::Notify);
        }
    }

    /// What became of the next ADU whose fate is known.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.producer.poll_completion()
    }

    /// What the late choice advises the source, if there is something new. Only the newest is kept.
    pub fn poll_advice(&mut self) -> Option<Advice> {
        self.link.shared.take_advice()
    }

    /// Tells the late choice, if it advises the source, that the source has this rate from now on. Zero takes it back.
    pub fn set_rate(&self, rate: Rate) {
        self.link.way.send(Order::Rate(rate));
    }

    /// Where the connection stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.link.shared.status()
    }

    /// The peer's address, if it is known: where it is now, should it have changed.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.link.shared.peer()
    }

    /// What is known of the stream, not longer ago than some 50 ms: the engine is asked, and waited for, but for 100 ms at
    /// most. Of a stream that a daemon runs: what was known when it was last asked.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.link.snapshot()
    }

    /// Sleeps until the ring has room again, a fate is known, something is advised or the connection has ended, but not beyond `deadline`. `false` if nothing happened.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        wait(&self.link.shared.writable, deadline)
    }

    /// Ends the connection as soon as everything that is queued has had its fate.
    pub fn finish(&self) {
        self.link.way.send(Order::Finish);
    }

    /// Rings when the ring has room again, a fate is known or something is advised, or the connection has ended.
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
        self.link.shared.status()
    }

    /// The peer's address, if it is known: where it is now, should it have changed.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.link.shared.peer()
    }

    /// What is known of the stream, not longer ago than some 50 ms: the engine is asked, and waited for, but for 100 ms at
    /// most. Of a stream that a daemon runs: what was known when it was last asked.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.link.snapshot()
    }

    /// Sleeps until something has come or the connection has ended, but not beyond `deadline`. `false` if nothing happened.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        wait(&self.link.shared.readable, deadline)
    }

    /// Ends the connection as soon as everything that is queued has had its fate.
    pub fn finish(&self) {
        self.link.way.send(Order::Finish);
    }

    /// Rings when something has come, or the connection has ended.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        &self.link.shared.readable
    }
}

impl Drop for ReceiveHalf {
    /// The peer is told, should it go on sending (RFC 4340 §11.7.2).
    fn drop(&mut self) {
        self.link.way.send(Order::Ignore);
    }
}

impl AsFd for ReceiveHalf {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.shared.readable.as_fd()
    }
}
