//! Sleeping on descriptors, in the engine's time.

use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec};
use timeous_core::{Duration, Instant};
use timeous_engine::clock;

/// What ended a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// Time.
    No,
    /// The manager's descriptor, maybe others as well.
    ByManager,
    /// Another descriptor.
    ByOther,
}

/// Sleeps until the descriptor of a manager or another one is readable, but not beyond `deadline`.
pub(super) fn readable(manager: BorrowedFd<'_>, other: Option<BorrowedFd<'_>>, deadline: Option<Instant>) -> Woken {
    // Twice the manager's, if there is no other: poll() does not mind.
    let other = other.unwrap_or(manager);
    let mut polled = [PollFd::from_borrowed_fd(manager, PollFlags::IN), PollFd::from_borrowed_fd(other, PollFlags::IN)];
    loop {
        let left = deadline.map(|at| at.saturating_since(clock::now()));
        match rustix::event::poll(&mut polled, left.map(timespec).as_ref()) {
            Ok(0) => return Woken::No,
            Ok(_) if polled[0].revents().is_empty() => return Woken::ByOther,
            Ok(_) => return Woken::ByManager,
            Err(rustix::io::Errno::INTR) => {}
            // What cannot be waited for is looked at.
            Err(_) => return Woken::ByManager,
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    let whole = std::time::Duration::from(duration);
    Timespec { tv_sec: whole.as_secs() as i64, tv_nsec: i64::from(whole.subsec_nanos()) }
}
