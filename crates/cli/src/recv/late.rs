//! Warning of late frames: the latency is too short for the path.

use timeous::core::{Duration, Instant};
use timeous_media::FrameFate;

use crate::notice::tell;

/// Percentage of late frames, and the time over which it is measured, that are reported.
const LATE_PERCENT: u64 = 20;
const LATE_OVER: Duration = Duration::from_secs(5);

/// Warns if the latency is too short for the path.
#[derive(Default)]
pub(super) struct LateWatch {
    since: Instant,
    frames: u64,
    late: u64,
    /// Highest number of missing frames so far.
    missing: u64,
}

impl LateWatch {
    /// Counts a frame, and the frames missing so far.
    pub(super) fn count(&mut self, fate: FrameFate, missing: u64, now: Instant, latency: Duration) {
        // A frame that was missing and comes late is counted once: the next one that is missing adds nothing.
        let lost = missing.saturating_sub(self.missing);
        self.missing = self.missing.max(missing);
        self.frames += lost + 1;
        self.late += lost + u64::from(matches!(fate, FrameFate::Late | FrameFate::Incomplete));
        if now.saturating_since(self.since) < LATE_OVER {
            return;
        }
        let percent = (self.late * 100).checked_div(self.frames).unwrap_or(0);
        if percent >= LATE_PERCENT && self.since > Instant::ZERO {
            tell(format_args!(
                "{percent} % of the frames were late or lost in {} s: latency={}ms is short for this path, or the path for \
                 this rate",
                LATE_OVER.as_secs_f64(),
                latency.as_millis()
            ));
        }
        *self = Self { since: now, missing: self.missing, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_are_missing_incomplete_or_late_count_once() {
        let mut watch = LateWatch { since: Instant::from_nanos(1), ..LateWatch::default() };
        let now = Instant::from_nanos(2);
        // Two are missing, of which one comes late, and another one is missing at the end.
        let fates = [
            (FrameFate::Decodable, 2),
            (FrameFate::Late, 1),
            (FrameFate::Incomplete, 1),
            (FrameFate::Incomplete, 1),
            (FrameFate::Decodable, 2),
        ];
        fates.into_iter().for_each(|(fate, missing)| watch.count(fate, missing, now, Duration::from_millis(400)));
        assert_eq!((watch.frames, watch.late), (7, 5));
    }

    #[test]
    fn seconds_of_incomplete_frames_alone_end_no_receiver() {
        let mut watch = LateWatch::default();
        let mut now = Instant::ZERO;
        for _ in 0..3 {
            now += LATE_OVER;
            watch.count(FrameFate::Incomplete, 0, now, Duration::from_millis(400));
        }
        assert_eq!((watch.frames, watch.late), (0, 0));
    }
}
