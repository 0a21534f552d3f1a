//! The host's monotonic clock, which client and daemon share.

use timeous_core::{Duration, Instant};

/// Returns the present time.
pub(crate) fn now() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant::ZERO + Duration::from_secs(time.tv_sec as u64) + Duration::from_nanos(time.tv_nsec as u64)
}

/// Converts a duration into a `timespec`.
pub(crate) fn timespec(duration: Duration) -> rustix::time::Timespec {
    const NANOS: u64 = 1_000_000_000;
    let nanos = duration.as_nanos();
    rustix::time::Timespec { tv_sec: (nanos / NANOS) as i64, tv_nsec: (nanos % NANOS) as i64 }
}
