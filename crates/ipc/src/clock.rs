//! The host's monotonic clock, on which client and daemon agree.

use timeous_core::{Duration, Instant};

/// Now.
pub(crate) fn now() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant::ZERO + Duration::from_secs(time.tv_sec as u64) + Duration::from_nanos(time.tv_nsec as u64)
}

/// A duration as the system takes it.
pub(crate) fn timespec(duration: Duration) -> rustix::time::Timespec {
    const NANOS: u64 = 1_000_000_000;
    let nanos = duration.as_nanos();
    rustix::time::Timespec { tv_sec: (nanos / NANOS) as i64, tv_nsec: (nanos % NANOS) as i64 }
}
