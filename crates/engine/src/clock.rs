//! The engine's clock: the only place that reads the time.

use timeous_core::{Duration, Instant, read_both};

/// Returns the current time of the host's monotonic clock, which all processes of a host share.
#[must_use]
pub fn now() -> Instant {
    from_timespec(rustix::time::clock_gettime(rustix::time::ClockId::Monotonic))
}

/// Returns the offset of the host's wall clock (Unix time) from [`now`], for logs that are compared with captures. What is left of an error
/// makes a time that is converted to [`now`]'s late, never early.
#[must_use]
pub fn unix_offset() -> Duration {
    let wall = || from_timespec(rustix::time::clock_gettime(rustix::time::ClockId::Realtime));
    let (now, wall) = read_both(now, wall);
    wall - now
}

fn from_timespec(time: rustix::time::Timespec) -> Instant {
    Instant::ZERO + Duration::from_secs(time.tv_sec as u64) + Duration::from_nanos(time.tv_nsec as u64)
}
