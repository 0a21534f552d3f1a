//! What engine and application share of one stream, beside the ring.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use timeous_core::{Advice, BufferState, Duration, Instant, PathState};
use timeous_dccp::{CloseReason, Statistics};
use timeous_ring::Violation;

use crate::carrier::CarrierView;
use crate::clock;
use crate::inbox::Inbox;
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
    /// How the send buffer stands, where the choice advises the source.
    pub buffer: Option<BufferState>,
    /// Packets that were sent again.
    pub repaired: u64,
    /// Whether the peer tells what is sent again from what is new, so that losses are repaired.
    pub repairs: bool,
    /// Datagrams that nobody read and that made room for newer ones.
    pub unread: u64,
    /// What carries it, and what late choice did behind the ring.
    pub carrier: CarrierView,
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
    /// Tells of a new snapshot.
    told: Condvar,
    /// Whether somebody looks at the snapshots: making one costs a walk over the queue.
    wanted: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    status: Status,
    snapshot: Snapshot,
    /// When that was written down.
    taken: Option<Instant>,
    violation: Option<Violation>,
    /// The peer's address, once it is known.
    peer: Option<SocketAddr>,
    /// The newest that nobody took.
    advice: Option<Advice>,
}

impl Shared {
    pub(crate) fn new() -> std::io::Result<Arc<Self>> {
        Ok(Self::with(Inbox::default(), Waker::new()?, Waker::new()?))
    }

    pub(crate) fn with(inbox: Inbox, readable: Waker, writable: Waker) -> Arc<Self> {
        let (state, told, wanted) = (Mutex::default(), Condvar::new(), AtomicBool::new(false));
        Arc::new(Self { inbox, readable, writable, state, told, wanted })
    }

    pub(crate) fn status(&self) -> Status {
        self.with_state(|state| state.status)
    }

    /// What was written down last.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.with_state(|state| state.snapshot)
    }

    /// Whether what was written down last is of just now, or of a stream that has ended: nothing newer will come.
    pub(crate) fn has_news(&self) -> bool {
        self.with_state(|state| state.is_new(clock::now()))
    }

    /// Waits until that is so, but not for long: an engine that is busy has the old one.
    pub(crate) fn await_news(&self) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let since = clock::now();
        drop(self.told.wait_timeout_while(state, PATIENCE.into(), |state| !state.is_new(since)));
    }

    /// It is wanted to be written down again; `false` if that was known.
    pub(crate) fn want_snapshot(&self) -> bool {
        !self.wanted.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn set_status(&self, status: Status) {
        self.with_state(|state| state.status = status);
        self.readable.wake();
        self.writable.wake();
    }

    pub(crate) fn set_peer(&self, peer: SocketAddr) {
        // A socket of IPv6 tells IPv4's addresses as a part of its own.
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        self.with_state(|state| state.peer = Some(peer));
    }

    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.with_state(|state| state.peer)
    }

    pub(crate) fn set_snapshot(&self, snapshot: Snapshot) {
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

    /// The application wrote into its ring what no honest one writes.
    pub(crate) fn set_violation(&self, violation: Violation) {
        if self.with_state(|state| state.violation.replace(violation)).is_none() {
            self.readable.wake();
            self.writable.wake();
        }
    }

    pub(crate) fn violation(&self) -> Option<Violation> {
        self.with_state(|state| state.violation)
    }

    pub(crate) fn wants_snapshot(&self) -> bool {
        self.wanted.swap(false, Ordering::Relaxed)
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

/// How long somebody who asks waits for the engine to write one down.
const PATIENCE: Duration = Duration::from_millis(100);
/// How often a snapshot is written down at most.
pub(crate) const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(50);
