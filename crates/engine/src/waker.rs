//! An eventfd by which one side wakes the other.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use timeous_core::Duration;

/// Wakes threads that poll its descriptor. Clones share it.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// Creates a waker that is not signalled.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self(Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// Signals it: the descriptor is readable until [`clear`](Self::clear). A second signal has no effect.
    pub fn wake(&self) {
        // The only possible failure is a full counter, which is readable, too.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    /// Clears the signal; returns `true` if there was one.
    pub fn clear(&self) -> bool {
        rustix::io::read(&*self.0, &mut [0u8; 8]).is_ok()
    }

    /// Sleeps until it is signalled, or until `limit` has passed, without clearing. Returns `true` if it was signalled.
    pub fn is_rung(&self, limit: Option<Duration>) -> bool {
        let timeout = limit.map(timespec);
        let mut fds = [PollFd::new(&*self.0, PollFlags::IN)];
        matches!(rustix::event::poll(&mut fds, timeout.as_ref()), Ok(n) if n > 0)
    }

    /// Sleeps until it is signalled, or until `limit` has passed, and clears it. Returns `true` if it was signalled.
    pub fn wait(&self, limit: Option<Duration>) -> bool {
        let rung = self.is_rung(limit);
        self.clear();
        rung
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Waker {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Converts a duration for `ppoll`.
pub(crate) fn timespec(duration: Duration) -> Timespec {
    const NANOS: u64 = 1_000_000_000;
    let nanos = duration.as_nanos();
    Timespec { tv_sec: (nanos / NANOS) as i64, tv_nsec: (nanos % NANOS) as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_before_the_wait_is_not_missed_and_counts_once() {
        let waker = Waker::new().unwrap();
        waker.wake();
        waker.clone().wake();
        assert!(waker.wait(Some(Duration::ZERO)));
        assert!(!waker.wait(Some(Duration::ZERO)));
    }
}
