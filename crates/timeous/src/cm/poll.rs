//! Sleeping on descriptors, in the engine's time.

use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec};
use timeous_core::{Duration, Instant};
use timeous_engine::clock;

/// Sleeps until one of some descriptors is readable, but not beyond `deadline`; `true` if one is.
pub(super) fn readable(descriptors: &[BorrowedFd<'_>], deadline: Option<Instant>) -> bool {
    let mut polled: Vec<PollFd<'_>> = descriptors.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    loop {
        let left = deadline.map(|at| at.saturating_since(clock::now()));
        let ready = rustix::event::poll(&mut polled, left.map(timespec).as_ref());
        match ready {
            Ok(ready) => return ready > 0,
            Err(rustix::io::Errno::INTR) => {}
            // What cannot be waited for is looked at.
            Err(_) => return true,
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    let whole = std::time::Duration::from(duration);
    Timespec { tv_sec: whole.as_secs() as i64, tv_nsec: i64::from(whole.subsec_nanos()) }
}
