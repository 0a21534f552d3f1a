//! Application side of a connection: a packet ring to fill, an inbox to read, a waker to wait on.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use timeous_core::{AduMeta, Advice, Instant, Rate};
use timeous_ring::{Completion, EnqueueError, FrozenBuffer, Index, Limits, Producer};
use timeous_seal::{Intent, SealError};
use timeous_stream::{Order, StreamId};

use crate::clock;
use crate::inbox::Received;
use crate::line::Orders;
use crate::remote::{Reader, RemoteError};
use crate::shared::{Shared, Snapshot, Status};
use crate::waker::Waker;
use crate::way::Way;

/// Limits for a ring from another process's engine, in slots and bytes; no engine creates larger ones. Chosen by us:
/// they bound what a hostile process can make this one map.
const REMOTE_LIMITS: Limits = Limits { slots: 1 << 20, bytes: 8 << 30 };

/// A connection, for the application. Dropping it ends the connection at once.
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

    /// Opens a stream that the engine of another process runs: `ring` is its packet ring, `socket` this side's end of the control socket.
    /// It is used as any other stream; a thread reads the socket.
    ///
    /// # Errors
    /// The ring or the socket is invalid, or the system refuses a thread.
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

    /// Splits the stream into its two directions, for two threads. The connection lasts until both are dropped.
    #[must_use]
    pub fn split(self) -> (SendHalf, ReceiveHalf) {
        (self.sending, self.receiving)
    }

    /// Returns the connection's status.
    #[must_use]
    pub fn status(&self) -> Status {
        self.sending.status()
    }

    /// Returns the waker of the sending direction, which also signals that the connection has opened or ended.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        self.sending.waker()
    }

    /// Returns the peer's address, if it is known.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.sending.peer()
    }

    /// Returns the direction of the data for which an incoming caller was admitted; `None` without encryption. The stream goes both ways
    /// all the same: a listener that admits both has to see to it that a caller with the right to receive does not send.
    #[must_use]
    pub fn intent(&self) -> Option<Intent> {
        self.sending.intent()
    }

    /// Returns the stream that an incoming caller has named, if it has.
    #[must_use]
    pub fn stream_id(&self) -> Option<String> {
        self.sending.stream_id()
    }

    /// Returns why the stream's packets cannot be encrypted, if it has [closed](timeous_dccp::CloseReason::Unsealed) for that.
    #[must_use]
    pub fn seal_error(&self) -> Option<SealError> {
        self.sending.seal_error()
    }

    /// Refuses an incoming connection as busy.
    pub fn refuse(self) {
        self.sending.link.way.send(Order::Refuse);
    }

    /// Returns the sending direction.
    pub fn sending(&mut self) -> &mut SendHalf {
        &mut self.sending
    }

    /// Returns the receiving direction.
    pub fn receiving(&mut self) -> &mut ReceiveHalf {
        &mut self.receiving
    }
}

/// State shared by both directions; the connection ends when both have dropped it.
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
            // A daemon replies with the snapshot from before the request.
            if self.way.is_thread() {
                self.shared.await_news();
            }
        }
        self.shared.snapshot()
    }
}

/// Sleeps until `waker` is signalled, but not beyond `deadline`.
fn wait(waker: &Waker, deadline: Option<Instant>) -> bool {
    waker.wait(deadline.map(|at| at.saturating_since(clock::now())))
}

impl Drop for Link {
    fn drop(&mut self) {
        self.way.send(Order::Abandon);
    }
}

/// Sending direction: the packet ring, and the fates of the packets put into it.
#[derive(Debug)]
pub struct SendHalf {
    producer: Producer,
    link: Arc<Link>,
}

impl SendHalf {
    /// Queues a packet. It takes no system call unless the engine has requested a notification.
    ///
    /// # Errors
    /// The ring's: full, or closed, or the payload is larger than a buffer.
    pub fn enqueue(&mut self, meta: &AduMeta, bytes: &[u8]) -> Result<Index, EnqueueError> {
        let index = self.producer.enqueue(meta, bytes)?;
        self.notify_if_asked();
        Ok(index)
    }

    /// Queues a buffer of a packet zone, or a part of one, without a copy. If another process runs the stream, that process
    /// has to have made the zone; the first packet of a zone waits for it.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue)'s; or [`EnqueueError::ForeignBuffer`], if the process that runs the stream does not
    /// know the zone.
    pub fn enqueue_shared(&mut self, meta: &AduMeta, buffer: &FrozenBuffer) -> Result<Index, EnqueueError> {
        if let Some(request) = self.producer.zone_to_attach(buffer)? {
            self.link.way.ask_for_zone(&request);
            match self.link.shared.await_zone() {
                Some(true) => self.producer.attached(request),
                Some(false) => return Err(EnqueueError::ForeignBuffer),
                None => {
                    // A late answer would be taken for that to another request.
                    self.link.way.send(Order::Abandon);
                    return Err(EnqueueError::Closed);
                }
            }
        }
        let index = self.producer.enqueue_shared(meta, buffer)?;
        self.notify_if_asked();
        Ok(index)
    }

    /// Returns the ring: to inspect queued packets, withdraw, change, drop or reorder them. Call [`notify_if_asked`](Self::notify_if_asked)
    /// after queueing through it.
    pub fn ring(&mut self) -> &mut Producer {
        &mut self.producer
    }

    /// Number of ADUs enqueued so far; each gets exactly one fate.
    pub fn enqueued(&self) -> u64 {
        self.producer.enqueued()
    }

    /// Number of fates not reported because the application left the completion ring full.
    pub fn completions_lost(&self) -> u64 {
        self.producer.completions_lost()
    }

    /// Notifies the engine of queued data, if it has requested that (the paper's `dccp_notify`).
    pub fn notify_if_asked(&mut self) {
        if self.producer.needs_notify() {
            self.link.way.send(Order::Notify);
        }
    }

    /// Returns the next ADU whose fate is known.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.producer.poll_completion()
    }

    /// Returns the newest advice of the late choice to the source, if it was not taken yet.
    pub fn poll_advice(&mut self) -> Option<Advice> {
        self.link.shared.take_advice()
    }

    /// Sets the source's rate, for a late choice that advises it. Zero means unknown.
    pub fn set_rate(&self, rate: Rate) {
        self.link.way.send(Order::Rate(rate));
    }

    /// Returns the connection's status.
    #[must_use]
    pub fn status(&self) -> Status {
        self.link.shared.status()
    }

    /// Returns the peer's current address, if it is known.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.link.shared.peer()
    }

    /// Returns the direction of the data for which an incoming caller was admitted; `None` without encryption. The stream goes both ways
    /// all the same: a listener that admits both has to see to it that a caller with the right to receive does not send.
    #[must_use]
    pub fn intent(&self) -> Option<Intent> {
        self.link.shared.intent()
    }

    /// Returns the stream that an incoming caller has named, if it has.
    #[must_use]
    pub fn stream_id(&self) -> Option<String> {
        self.link.shared.stream_id()
    }

    /// Returns why the stream's packets cannot be encrypted, if it has [closed](timeous_dccp::CloseReason::Unsealed) for that.
    #[must_use]
    pub fn seal_error(&self) -> Option<SealError> {
        self.link.shared.seal_error()
    }

    /// Returns the largest payload that leaves in one packet, as path MTU discovery knows it; `None` before it has begun, and over TCP.
    #[must_use]
    pub fn packet_payload(&self) -> Option<usize> {
        self.link.shared.packet_payload()
    }

    /// Returns statistics of the stream, at most some 50 ms old: the engine is asked, and waited for, for at most 100 ms. A stream run by a
    /// daemon returns those of the previous request.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.link.snapshot()
    }

    /// Sleeps until the ring has room again, a fate is known, advice is available or the connection has ended, but not beyond `deadline`.
    /// Returns `false` if nothing happened.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        wait(&self.link.shared.writable, deadline)
    }

    /// Ends the connection once the fate of every queued packet is known.
    pub fn finish(&self) {
        self.link.way.send(Order::Finish);
    }

    /// Returns the waker that is signalled when the ring has room again, a fate is known, advice is available, or the connection has ended.
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

/// Receiving direction.
#[derive(Debug)]
pub struct ReceiveHalf {
    link: Arc<Link>,
}

impl ReceiveHalf {
    /// Returns whether the peer has ended its direction, though the stream goes on: nothing is received behind what is queued.
    #[must_use]
    pub fn has_peer_ended(&self) -> bool {
        self.link.shared.has_peer_ended()
    }

    /// Returns the next received datagram, if any.
    pub fn poll_received(&mut self) -> Option<Received> {
        self.link.shared.inbox.pop()
    }

    /// Returns the connection's status.
    #[must_use]
    pub fn status(&self) -> Status {
        self.link.shared.status()
    }

    /// Returns the peer's current address, if it is known.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.link.shared.peer()
    }

    /// Returns why the stream's packets cannot be encrypted, if it has [closed](timeous_dccp::CloseReason::Unsealed) for that.
    #[must_use]
    pub fn seal_error(&self) -> Option<SealError> {
        self.link.shared.seal_error()
    }

    /// Returns statistics of the stream, at most some 50 ms old: the engine is asked, and waited for, for at most 100 ms. A stream run by a
    /// daemon returns those of the previous request.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.link.snapshot()
    }

    /// Sleeps until a datagram was received or the connection has ended, but not beyond `deadline`. Returns `false` if nothing happened.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        wait(&self.link.shared.readable, deadline)
    }

    /// Ends the connection once the fate of every queued packet is known.
    pub fn finish(&self) {
        self.link.way.send(Order::Finish);
    }

    /// Returns the waker that is signalled when a datagram was received or the connection has ended.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        &self.link.shared.readable
    }
}

impl Drop for ReceiveHalf {
    /// Tells the peer to stop sending, should it go on (RFC 4340 §11.7.2).
    fn drop(&mut self) {
        self.link.way.send(Order::Ignore);
    }
}

impl AsFd for ReceiveHalf {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.shared.readable.as_fd()
    }
}
