//! The engine's clock: the one place where time is read.

use timeous_core::{Duration, Instant};

/// Now, on the host's monotonic clock: processes of one host agree on it.
#[must_use]
pub fn now() -> Instant {
    from_timespec(rustix::time::clock_gettime(rustix::time::ClockId::Monotonic))
}

/// How far the host's wall clock (Unix time) is ahead of [`now`]: for logs that are compared with captures.
#[must_use]
pub fn unix_offset() -> Duration {
    let wall = from_timespec(rustix::time::clock_gettime(rustix::time::ClockId::Realtime));
    wall - now()
}

fn from_timespec(time: rustix::time::Timespec) -> Instant {
    Instant::ZERO + Duration::from_secs(time.tv_sec as u64) + Duration::from_nanos(time.tv_nsec as u64)
}
