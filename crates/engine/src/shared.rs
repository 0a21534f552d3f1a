//! State of a stream shared by engine and application, beside the packet ring.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use timeous_core::{Advice, BufferState, Duration, Instant, PathState};
use timeous_dccp::{CloseReason, Config as DccpConfig, Statistics};
use timeous_kernel_tcp::TcpView;
use timeous_ring::Violation;
use timeous_seal::{Intent, SealError};

use crate::clock;
use crate::inbox::Inbox;
use crate::waker::Waker;

/// Status of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Status {
    /// Handshake in progress.
    #[default]
    Connecting,
    /// Established: data can flow.
    Open,
    /// Closed.
    Closed(CloseReason),
}

/// Statistics of a stream at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Snapshot {
    /// The transport's counters.
    pub transport: Statistics,
    /// Path state from the Congestion Manager.
    pub path: PathState,
    /// Unsent packets in the ring.
    pub queued_packets: usize,
    /// Unsent bytes in the ring.
    pub queued_bytes: usize,
    /// State of the send buffer, if the late choice advises the source.
    pub buffer: Option<BufferState>,
    /// Retransmitted packets.
    pub repaired: u64,
    /// Whether losses are repaired: the peer can tell retransmissions from new data.
    pub repairs: bool,
    /// Received datagrams dropped unread for newer ones.
    pub unread: u64,
    /// TCP connection that carries the stream; `None`: DCCP does.
    pub tcp: Option<TcpView>,
}

/// State of a stream shared by engine and application, beside the packet ring.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) inbox: Inbox,
    /// Signalled when data can be read.
    pub(crate) readable: Waker,
    /// Signalled when the ring has room again, or the fate of an ADU is known.
    pub(crate) writable: Waker,
    state: Mutex<State>,
    /// Signals a new snapshot.
    told: Condvar,
    /// Signals the answer to a request to attach a zone, or the end of the connection.
    answered: Condvar,
    /// Whether a snapshot is wanted: taking one costs a walk over the queue.
    wanted: AtomicBool,
    /// Whether the peer has ended its direction, and the stream goes on.
    peer_ended: AtomicBool,
    /// Largest payload that leaves in one packet, in bytes; zero while the path's size is unknown.
    packet_payload: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    status: Status,
    snapshot: Snapshot,
    /// Time of the last snapshot.
    taken: Option<Instant>,
    violation: Option<Violation>,
    /// Address of the peer, once it is known.
    peer: Option<SocketAddr>,
    /// Newest advice that was not taken yet.
    advice: Option<Advice>,
    /// Stream that the caller has named.
    stream_id: Option<Box<str>>,
    /// Direction of the data for which the caller was admitted.
    intent: Option<Intent>,
    /// Reason why the stream's packets cannot be encrypted.
    seal_error: Option<Box<SealError>>,
    /// Whether the other process has attached the requested zone, once it has answered.
    zone: Option<bool>,
}

impl Shared {
    pub(crate) fn new() -> std::io::Result<Arc<Self>> {
        Ok(Self::with(Inbox::default(), Waker::new()?, Waker::new()?))
    }

    pub(crate) fn with(inbox: Inbox, readable: Waker, writable: Waker) -> Arc<Self> {
        let (state, told, answered) = (Mutex::default(), Condvar::new(), Condvar::new());
        let (wanted, peer_ended, packet_payload) =
            (AtomicBool::new(false), AtomicBool::new(false), AtomicUsize::new(0));
        Arc::new(Self { inbox, readable, writable, state, told, answered, wanted, peer_ended, packet_payload })
    }

    pub(crate) fn status(&self) -> Status {
        self.with_state(|state| state.status)
    }

    /// Notes that the peer has ended its direction: no more is received.
    pub(crate) fn set_peer_ended(&self) {
        self.peer_ended.store(true, Ordering::Release);
    }

    pub(crate) fn has_peer_ended(&self) -> bool {
        self.peer_ended.load(Ordering::Acquire)
    }

    /// Returns the last snapshot.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.with_state(|state| state.snapshot)
    }

    /// Returns whether the last snapshot is fresh, or is the final one of a closed stream.
    pub(crate) fn has_news(&self) -> bool {
        self.with_state(|state| state.is_new(clock::now()))
    }

    /// Waits for a fresh snapshot, but not for long: with a busy engine the old one has to do.
    pub(crate) fn await_news(&self) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let since = clock::now();
        drop(self.told.wait_timeout_while(state, PATIENCE.into(), |state| !state.is_new(since)));
    }

    /// Requests a new snapshot; `false` if one was requested already.
    pub(crate) fn want_snapshot(&self) -> bool {
        !self.wanted.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn set_status(&self, status: Status) {
        self.with_state(|state| state.status = status);
        self.answered.notify_all();
        self.readable.wake();
        self.writable.wake();
    }

    pub(crate) fn set_peer(&self, peer: SocketAddr) {
        // An IPv6 socket shows IPv4 addresses as mapped ones.
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        self.with_state(|state| state.peer = Some(peer));
    }

    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.with_state(|state| state.peer)
    }

    pub(crate) fn set_stream_id(&self, stream_id: &str) {
        self.with_state(|state| state.stream_id = Some(stream_id.into()));
    }

    pub(crate) fn stream_id(&self) -> Option<String> {
        self.with_state(|state| state.stream_id.as_deref().map(str::to_owned))
    }

    pub(crate) fn set_intent(&self, intent: Intent) {
        self.with_state(|state| state.intent = Some(intent));
    }

    pub(crate) fn intent(&self) -> Option<Intent> {
        self.with_state(|state| state.intent)
    }

    pub(crate) fn set_seal_error(&self, error: SealError) {
        self.with_state(|state| state.seal_error = Some(Box::new(error)));
    }

    pub(crate) fn seal_error(&self) -> Option<SealError> {
        self.with_state(|state| state.seal_error.as_deref().cloned())
    }

    /// Returns the largest payload that leaves in one packet, once path MTU discovery has found it.
    pub(crate) fn packet_payload(&self) -> Option<usize> {
        Some(self.packet_payload.load(Ordering::Relaxed)).filter(|&bytes| bytes > 0)
    }

    pub(crate) fn set_packet_payload(&self, bytes: usize) {
        self.packet_payload.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn set_snapshot(&self, snapshot: Snapshot) {
        if snapshot.transport.packet_size > 0 {
            self.set_packet_payload((snapshot.transport.packet_size as usize).saturating_sub(DccpConfig::HEADER_ROOM));
        }
        if let Some(longest) = snapshot.tcp.map(|tcp| tcp.longest).filter(|&longest| longest > 0) {
            self.set_packet_payload(longest);
        }
        let taken = Some(clock::now());
        self.with_state(|state| (state.snapshot, state.taken) = (snapshot, taken));
        self.told.notify_all();
    }

    pub(crate) fn set_advice(&self, advice: Advice) {
        self.with_state(|state| state.advice = Some(advice));
    }

    pub(crate) fn take_advice(&self) -> Option<Advice> {
        self.with_state(|state| state.advice.take())
    }

    /// Reports that the application corrupted its ring.
    pub(crate) fn set_violation(&self, violation: Violation) {
        if self.with_state(|state| state.violation.replace(violation)).is_none() {
            self.readable.wake();
            self.writable.wake();
        }
    }

    pub(crate) fn violation(&self) -> Option<Violation> {
        self.with_state(|state| state.violation)
    }

    /// Sets the answer to a request to attach a zone.
    pub(crate) fn answer_zone(&self, attached: bool) {
        self.with_state(|state| state.zone = Some(attached));
        self.answered.notify_all();
    }

    /// Waits for the answer to a request to attach a zone and returns it; `None` if the connection has ended, or there is
    /// no answer in time.
    pub(crate) fn await_zone(&self) -> Option<bool> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |state: &mut State| state.zone.is_none() && !matches!(state.status, Status::Closed(_));
        let waited = self.answered.wait_timeout_while(state, ZONE_TIMEOUT.into(), waits);
        waited.unwrap_or_else(PoisonError::into_inner).0.zone.take()
    }

    /// Returns whether a snapshot is wanted.
    pub(crate) fn is_snapshot_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Notes that a snapshot is taken: a later request wants another one.
    pub(crate) fn begin_snapshot(&self) {
        self.wanted.store(false, Ordering::Relaxed);
    }

    fn with_state<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn is_new(&self, now: Instant) -> bool {
        let is_over = matches!(self.status, Status::Closed(_));
        is_over || self.taken.is_some_and(|taken| now.saturating_since(taken) < SNAPSHOT_INTERVAL)
    }
}

/// Maximum wait for a requested snapshot. Chosen by us: a higher value blocks the caller for longer if the engine is
/// busy.
const PATIENCE: Duration = Duration::from_millis(100);
/// Timeout of an answer to a request to attach a zone: that of other calls to a daemon (`timeous_ipc::Options`).
const ZONE_TIMEOUT: Duration = Duration::from_secs(2);
/// Minimum interval between snapshots. Chosen by us: a higher value costs less time and shows older figures.
pub(crate) const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(50);
