//! Waiting for descriptors, on the engine's clock.

use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec};
use timeous_core::{Duration, Instant};
use timeous_engine::clock;

/// Reason for the end of a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WakeReason {
    /// Deadline.
    No,
    /// Manager's descriptor readable, perhaps others as well.
    ByManager,
    /// Other descriptor readable.
    ByOther,
}

/// Sleeps until the manager's descriptor or another one is readable, at most until `deadline`.
pub(super) fn readable(
    manager: BorrowedFd<'_>,
    other: Option<BorrowedFd<'_>>,
    deadline: Option<Instant>,
) -> WakeReason {
    // Without another one the manager's is listed twice, which poll() permits.
    let other = other.unwrap_or(manager);
    let mut polled = [PollFd::from_borrowed_fd(manager, PollFlags::IN), PollFd::from_borrowed_fd(other, PollFlags::IN)];
    loop {
        let left = deadline.map(|at| at.saturating_since(clock::now()));
        match rustix::event::poll(&mut polled, left.map(timespec).as_ref()) {
            Ok(0) => return WakeReason::No,
            Ok(_) if polled[0].revents().is_empty() => return WakeReason::ByOther,
            Ok(_) => return WakeReason::ByManager,
            Err(rustix::io::Errno::INTR) => {}
            // After an error, assume that there is an event.
            Err(_) => return WakeReason::ByManager,
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    let whole = std::time::Duration::from(duration);
    Timespec { tv_sec: whole.as_secs() as i64, tv_nsec: i64::from(whole.subsec_nanos()) }
}
