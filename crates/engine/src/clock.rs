//! The engine's clock: the only place that reads the time.

use timeous_core::{Duration, Instant};

/// Returns the current time of the host's monotonic clock, which all processes of a host share.
#[must_use]
pub fn now() -> Instant {
    from_timespec(rustix::time::clock_gettime(rustix::time::ClockId::Monotonic))
}

/// Time within which both clocks should be read, and number of attempts. Chosen by us: an error of some milliseconds shows in the round
/// trips of a path; a busy machine may hold up any reading, but hardly all of them.
const MAX_GAP: Duration = Duration::from_micros(20);
const MAX_READINGS: usize = 4;

/// Returns the offset of the host's wall clock (Unix time) from [`now`], for logs that are compared with captures.
///
/// The process may be held up between the readings: the best of a few is taken. What is left makes a time that is converted to [`now`]'s
/// late, never early.
#[must_use]
pub fn unix_offset() -> Duration {
    let (mut offset, mut least) = (Duration::ZERO, Duration::MAX);
    for _ in 0..MAX_READINGS {
        let before = now();
        let wall = from_timespec(rustix::time::clock_gettime(rustix::time::ClockId::Realtime));
        let after = now();
        let gap = after - before;
        if gap < least {
            (offset, least) = (wall - after, gap);
        }
        if gap <= MAX_GAP {
            break;
        }
    }
    offset
}

fn from_timespec(time: rustix::time::Timespec) -> Instant {
    Instant::ZERO + Duration::from_secs(time.tv_sec as u64) + Duration::from_nanos(time.tv_nsec as u64)
}
