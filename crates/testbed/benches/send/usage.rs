//! Processor time of a thread: user and system time.

use timeous_core::Duration;

/// User and system time of a thread since its start. The sum is exact; the shares are sampled at each tick.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    user: Duration,
    system: Duration,
}

impl Usage {
    pub(crate) fn of_this_thread() -> Self {
        // SAFETY: a C structure of numbers, for which zero is a valid value; the kernel fills it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
            usage
        };
        Self { user: duration(usage.ru_utime), system: duration(usage.ru_stime) }
    }

    /// Subtracts user time that should not be counted.
    pub(crate) fn without_user(self, time: Duration) -> Self {
        Self { user: self.user.saturating_sub(time), ..self }
    }

    /// Returns user and system time since `then`.
    pub(crate) fn since(self, then: Self) -> [Duration; 2] {
        [self.user.saturating_sub(then.user), self.system.saturating_sub(then.system)]
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_micros(time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64)
}

/// Returns the exact processor time of this thread.
pub(crate) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
