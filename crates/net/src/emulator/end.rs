//! Common parts of relay and router: clock and capture.

use std::fs::File;
use std::io::BufWriter;
use std::time::Duration as StdDuration;

use rustix::time::{ClockId, Timespec, clock_gettime};
use timeous_core::{Duration, Instant, read_both};

use crate::capture::Capture;

/// A capture into a file.
pub(super) type CaptureFile = Capture<BufWriter<File>>;

/// Maximum plausible age of a packet's timestamp; an older one means that the wall clock was set. Chosen by us: a
/// higher value delays packets for longer after that.
const MAX_AGE: Duration = Duration::from_secs(1);
/// `CLOCK_MONOTONIC` since the emulator was created, with conversion to `CLOCK_REALTIME`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    zero: Duration,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { zero: read(ClockId::Monotonic) }
    }

    pub(super) fn now(&self) -> Instant {
        Instant::ZERO + (read(ClockId::Monotonic) - self.zero)
    }

    /// Converts `at` to the time since 1970.
    pub(super) fn since_1970(&self, at: Instant) -> Duration {
        let (now, realtime) = self.both();
        match at.checked_since(now) {
            Some(ahead) => realtime + ahead,
            None => realtime - (now - at),
        }
    }

    /// Arrival time of a packet from the kernel's timestamp (since 1970); now if it has none.
    pub(super) fn arrival(&self, stamp: Option<StdDuration>) -> Instant {
        let (now, realtime) = self.both();
        let age = stamp.map_or(Duration::ZERO, |stamp| realtime - Duration::from(stamp));
        now.saturating_sub(if age > MAX_AGE { Duration::ZERO } else { age })
    }

    /// Now by both clocks. An error makes a packet late, never early, since a link must not be shorter than its delay.
    fn both(&self) -> (Instant, Duration) {
        read_both(|| self.now(), || read(ClockId::Realtime))
    }
}

fn read(clock: ClockId) -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    Duration::from_secs(tv_sec as u64) + Duration::from_nanos(tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_came_when_the_kernel_says_unless_that_cannot_be() {
        let clock = Clock { zero: read(ClockId::Monotonic) - Duration::from_secs(100) };
        let stamp = |age: Duration| Some(StdDuration::from(read(ClockId::Realtime) - age));
        let around = |arrival: &dyn Fn() -> Instant| (clock.now(), arrival(), clock.now());

        let age = Duration::from_millis(500);
        let (before, arrival, after) = around(&|| clock.arrival(stamp(age)));
        assert!(arrival <= after.saturating_sub(age), "500 ms ago, or more where we were held up");
        assert!(arrival + age + MAX_AGE >= before, "but not much more");

        let impossible = [None, stamp(Duration::from_secs(5)), Some(StdDuration::from_secs(1 << 40))];
        for stamp in impossible {
            let (before, arrival, after) = around(&|| clock.arrival(stamp));
            assert!(before <= arrival && arrival <= after, "{stamp:?} counts as now");
        }
    }
}
