//! Clocks of processor time of a process or a thread.

use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;
use timeous::core::Duration;

use crate::experiment::LabError;

/// Clock of processor time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(ClockId);

impl Clock {
    /// Clock of this process, over all threads.
    pub(super) const PROCESS: Self = Self(ClockId::CLOCK_PROCESS_CPUTIME_ID);
    /// Clock of the calling thread.
    pub(super) const THREAD: Self = Self(ClockId::CLOCK_THREAD_CPUTIME_ID);

    /// Returns the clock of another process.
    pub(super) fn of(process: u32) -> Result<Self, LabError> {
        let clock = clock_getcpuclockid(Pid::from_raw(process as i32));
        clock.map(Self).map_err(|error| LabError::System { what: "find the clock of a process", source: error.into() })
    }

    /// Returns the processor time so far.
    pub(super) fn read(self) -> Duration {
        let time = self.0.now().expect("the clock of a process that lives can be read");
        Duration::from_secs(time.tv_sec() as u64) + Duration::from_nanos(time.tv_nsec() as u64)
    }
}
