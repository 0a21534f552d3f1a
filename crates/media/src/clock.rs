//! Maps RTP timestamps to local time, by the smallest delay of several frames (one outlier moves nothing).

use std::collections::VecDeque;

use timeous_core::{Duration, Instant};

use crate::rtp::RTP_CLOCK_HZ;

/// Frames that must agree before the clock moves, against wrong timestamps and outliers. Chosen by us: a higher value
/// follows a stepped clock later.
const AGREEING: usize = 3;
/// Time for which frames must be late before the path delay counts as increased. Chosen by us: longer than a burst
/// after an outage; a higher value drops late frames for longer.
const INCREASE_TIME: Duration = Duration::from_secs(1);
/// Window for the minimum offset that drift is derived from. Chosen by us: longer than the queues of a few keyframes; a
/// higher value follows drift later.
const DRIFT_WINDOW: Duration = Duration::from_secs(10);
/// Resolution of the drift window. Chosen by us: a higher value takes less memory and follows drift more coarsely.
const BUCKET: Duration = Duration::from_millis(250);
/// Fastest drift that is followed, in parts per million: twice that of bad crystals or of 29.97 fps declared as 30.
/// Chosen by us: a higher value takes queues for drift.
const MAX_DRIFT_PPM: u64 = 2_000;
/// Offset error, in nanoseconds, beyond which the source's clock was stepped or restarted. Chosen by us: two seconds
/// are the most that a viewer should wait; a lower value takes outages for steps.
const STEP: i128 = 2_000_000_000;
/// Largest difference, in nanoseconds, between offsets of the same clock after a step. Chosen by us: a higher value
/// accepts unrelated outliers; a lower one rejects a jittering path.
const SAME_CLOCK: i128 = 200_000_000;

/// Change of the media clock, reported once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockChange {
    /// The source's clock was stepped, by this many seconds forward (negative: back).
    Stepped(i64),
    /// The delay of the path, or of the source, has increased by this much.
    Longer(Duration),
    /// The delay of the path has decreased by this much.
    Shorter(Duration),
}

/// Offset of a frame: local arrival time minus media time, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    offset: i128,
}

/// Mapping from media time to local time.
///
/// `arrival − timestamp` is a constant plus the frame's delay; the clock is its minimum. Three agreeing frames lower
/// it; slow drift raises it gradually; a path longer by more than the `tolerance` raises it after about a second. A
/// step of the source's clock is followed after three frames, or after a second if frames only seem to be late.
///
/// ```
/// use timeous_core::{Duration, Instant};
/// use timeous_media::MediaClock;
/// let mut clock = MediaClock::new(Duration::from_millis(150));
/// let at = |ms| Instant::ZERO + Duration::from_millis(ms);
/// for frame in 0..10u64 {
///     clock.observe(frame as i64 * 3_600, at(100 + 40 * frame), true);
/// }
/// assert_eq!(clock.instant(36_000), at(500));
/// ```
#[derive(Clone, Debug)]
pub struct MediaClock {
    /// Increase of the path delay that is ignored; a larger one is followed after a second.
    tolerance: Duration,
    base: Option<i128>,
    /// Latest offsets.
    latest: VecDeque<Sample>,
    /// Minimum offsets of the drift window, by bucket.
    least: VecDeque<Sample>,
    /// Consecutive frames later than the tolerance.
    above: Option<LateRun>,
    /// Consecutive offsets beyond a step.
    stepped: VecDeque<i128>,
    crept_at: Instant,
}

/// Run of frames later than the tolerance.
#[derive(Clone, Copy, Debug)]
struct LateRun {
    since: Instant,
    frames: usize,
    least: i128,
}

impl MediaClock {
    /// Creates a clock without a mapping yet.
    pub fn new(tolerance: Duration) -> Self {
        Self {
            tolerance,
            base: None,
            latest: VecDeque::new(),
            least: VecDeque::new(),
            above: None,
            stepped: VecDeque::new(),
            crept_at: Instant::ZERO,
        }
    }

    /// Changes the tolerance.
    pub fn set_tolerance(&mut self, tolerance: Duration) {
        self.tolerance = tolerance;
    }

    /// Handles the first packet of a frame with timestamp `ticks`. `prompt`: the frame was not queued at its sender, so
    /// that a late one means a longer path.
    pub fn observe(&mut self, ticks: i64, now: Instant, prompt: bool) -> Option<ClockChange> {
        let sample = Sample { at: now, offset: i128::from(now.as_nanos()) - nanos(ticks) };
        let Some(base) = self.base else {
            self.start(sample);
            return None;
        };
        if (sample.offset - base).abs() > STEP {
            return self.step(base, sample, prompt);
        }
        self.stepped.clear();
        let down = self.lower(base, sample);
        if prompt {
            self.creep(sample);
            return down.or_else(|| self.raise(sample));
        }
        down
    }

    /// Local arrival time of a frame with this timestamp and no extra delay; zero before the first frame.
    pub fn instant(&self, ticks: i64) -> Instant {
        let at = self.base.unwrap_or(0) + nanos(ticks);
        Instant::from_nanos(u64::try_from(at.max(0)).unwrap_or(u64::MAX))
    }

    /// Timestamp of a frame that arrives at this instant with no extra delay.
    pub fn ticks_of(&self, at: Instant) -> Option<i64> {
        let nanos = i128::from(at.as_nanos()) - self.base?;
        i64::try_from(nanos * i128::from(RTP_CLOCK_HZ) / 1_000_000_000).ok()
    }

    /// Extra delay of the fastest prompt frames of the last second, against this clock.
    pub fn excess(&self, now: Instant) -> Option<Duration> {
        let base = self.base?;
        let recent = self.least.iter().filter(|bucket| now.saturating_since(bucket.at) <= INCREASE_TIME + BUCKET);
        let least = recent.map(|bucket| bucket.offset).min()?;
        Some(Duration::from_nanos(u64::try_from((least - base).max(0)).unwrap_or(u64::MAX)))
    }

    fn start(&mut self, sample: Sample) {
        self.base = Some(sample.offset);
        self.latest.clear();
        self.least.clear();
        self.above = None;
        self.stepped.clear();
        self.crept_at = sample.at;
        self.remember(sample);
    }

    /// Handles a frame beyond a step. Later offsets count only after a second: after an outage, frames arrive just as
    /// late for a short time.
    fn step(&mut self, base: i128, sample: Sample, prompt: bool) -> Option<ClockChange> {
        if self.stepped.back().is_some_and(|last| (sample.offset - last).abs() > SAME_CLOCK) {
            self.stepped.clear();
        }
        self.stepped.push_back(sample.offset);
        if self.stepped.len() < AGREEING {
            return None;
        }
        let later = sample.offset > base;
        if later && self.raise_is_due(sample, prompt).is_none() {
            self.stepped.pop_front();
            return None;
        }
        self.start(sample);
        Some(ClockChange::Stepped(((base - sample.offset) / 1_000_000_000) as i64))
    }

    /// Lowers the clock to the largest of the last three offsets.
    fn lower(&mut self, base: i128, sample: Sample) -> Option<ClockChange> {
        self.latest.push_back(sample);
        if self.latest.len() > AGREEING {
            self.latest.pop_front();
        }
        let agreed = self.latest.iter().map(|sample| sample.offset).max()?;
        if self.latest.len() < AGREEING || agreed >= base {
            return None;
        }
        self.base = Some(agreed);
        let by = Duration::from_nanos(u64::try_from(base - agreed).unwrap_or(u64::MAX));
        (by >= self.tolerance / 2).then_some(ClockChange::Shorter(by))
    }

    fn raise(&mut self, sample: Sample) -> Option<ClockChange> {
        let base = self.base?;
        if sample.offset <= base + i128::from(self.tolerance.as_nanos()) {
            self.above = None;
            return None;
        }
        let least = self.raise_is_due(sample, true)?;
        self.base = Some(least);
        self.above = None;
        Some(ClockChange::Longer(Duration::from_nanos(u64::try_from(least - base).unwrap_or(u64::MAX))))
    }

    /// Counts a frame later than the tolerance; returns the minimum offset of the run once it is long enough.
    fn raise_is_due(&mut self, sample: Sample, prompt: bool) -> Option<i128> {
        if !prompt {
            return None;
        }
        let above = self.above.get_or_insert(LateRun { since: sample.at, frames: 0, least: sample.offset });
        above.frames += 1;
        above.least = above.least.min(sample.offset);
        let lasts = sample.at.saturating_since(above.since) >= INCREASE_TIME;
        (lasts && above.frames >= AGREEING).then_some(above.least)
    }

    /// Follows slow drift towards the minimum offset of the window, at most as fast as crystals drift.
    fn creep(&mut self, sample: Sample) {
        self.remember(sample);
        let passed = sample.at.saturating_since(self.crept_at);
        self.crept_at = sample.at;
        let spans = self.least.front().is_some_and(|first| sample.at.saturating_since(first.at) >= DRIFT_WINDOW / 2);
        let least = self.least.iter().map(|bucket| bucket.offset).min();
        if let (Some(base), Some(least), true) = (self.base, least, spans)
            && least > base
        {
            let most = i128::from(passed.as_nanos()) * i128::from(MAX_DRIFT_PPM) / 1_000_000;
            self.base = Some(least.min(base + most));
        }
    }

    fn remember(&mut self, sample: Sample) {
        match self.least.back_mut() {
            Some(bucket) if sample.at.saturating_since(bucket.at) < BUCKET => {
                bucket.offset = bucket.offset.min(sample.offset);
            }
            _ => self.least.push_back(sample),
        }
        while self.least.front().is_some_and(|first| sample.at.saturating_since(first.at) > DRIFT_WINDOW) {
            self.least.pop_front();
        }
    }
}

fn nanos(ticks: i64) -> i128 {
    i128::from(ticks) * 1_000_000_000 / i128::from(RTP_CLOCK_HZ)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// Clock error against the true capture time, in milliseconds, for a frame at `frame`.
    fn lag(clock: &MediaClock, ticks: i64, capture: u64) -> i64 {
        (clock.instant(ticks).as_nanos() as i64 - capture as i64) / MS as i64
    }

    fn ticks(frame: u64) -> i64 {
        frame as i64 * 3_600
    }

    #[test]
    fn the_least_delay_that_three_frames_agree_on_sets_the_clock() {
        let mut clock = MediaClock::new(Duration::from_millis(150));
        for (frame, delay) in [300, 250, 200, 90, 90, 90, 90].into_iter().enumerate() {
            clock.observe(ticks(frame as u64), at((frame as u64 * 40 + delay) * MS), true);
        }
        assert_eq!(lag(&clock, ticks(10), 400 * MS), 90, "what a set-up held up is forgotten");
    }

    #[test]
    fn one_wrong_timestamp_moves_nothing() {
        for wrong in [-5_000_000, -9_000, 9_000, 400_000_000i64] {
            let mut clock = MediaClock::new(Duration::from_millis(150));
            for frame in 0..200u64 {
                let error = if frame == 100 { wrong } else { 0 };
                assert_eq!(clock.observe(ticks(frame) + error, at((frame * 40 + 20) * MS), true), None);
            }
            assert_eq!(lag(&clock, ticks(200), 8_000 * MS), 20, "{wrong}");
        }
    }

    #[test]
    fn drift_is_followed_both_ways() {
        for ppm in [-1_000i64, -200, 200, 1_000] {
            let mut clock = MediaClock::new(Duration::from_millis(150));
            for frame in 0..90_000u64 {
                let arrival = (frame * 40 * MS) as i64 * (1_000_000 + ppm) / 1_000_000 + 20 * MS as i64;
                assert_eq!(clock.observe(ticks(frame), at(arrival as u64), true), None);
                if frame > 1_000 {
                    let ahead = clock.instant(ticks(frame)).as_nanos() as i64 - arrival;
                    assert!(ahead.abs() <= 11 * MS as i64, "{ppm} ppm: {ahead} ns at frame {frame}");
                }
            }
        }
    }

    #[test]
    fn a_longer_path_is_followed_within_two_seconds_and_a_shorter_one_at_once() {
        let mut clock = MediaClock::new(Duration::from_millis(150));
        let mut told = Vec::new();
        for frame in 0..500u64 {
            let delay = if (125..250).contains(&frame) { 390 } else { 20 };
            told.extend(clock.observe(ticks(frame), at((frame * 40 + delay) * MS), true).map(|change| (frame, change)));
        }
        let longer = ClockChange::Longer(Duration::from_millis(370));
        let shorter = ClockChange::Shorter(Duration::from_millis(370));
        assert!(
            matches!(told[..], [(150..=175, first), (252, second)] if first == longer && second == shorter),
            "{told:?}"
        );
    }

    #[test]
    fn what_waited_in_the_senders_queue_says_nothing_of_the_path() {
        let mut clock = MediaClock::new(Duration::from_millis(150));
        clock.observe(0, at(20 * MS), true);
        for frame in 1..10_000u64 {
            clock.observe(ticks(frame), at((frame * 40 + 290) * MS), false);
        }
        assert_eq!(lag(&clock, 0, 0), 20);
    }

    #[test]
    fn a_burst_after_a_standstill_is_late_and_moves_nothing() {
        let mut clock = MediaClock::new(Duration::from_millis(150));
        for frame in 0..500u64 {
            let arrival = if (100..200).contains(&frame) { 200 * 40 } else { frame * 40 };
            assert_eq!(clock.observe(ticks(frame), at((arrival + 20) * MS + frame), true), None);
        }
        assert_eq!(lag(&clock, ticks(500), 20_000 * MS), 20);
    }

    #[test]
    fn a_clock_that_is_set_is_followed_and_told_of_once() {
        for hours in [-1i64, 1] {
            let mut clock = MediaClock::new(Duration::from_millis(150));
            let mut told = Vec::new();
            for frame in 0..200u64 {
                let set = if frame < 100 { 0 } else { hours * 3_600 * 90_000 };
                let change = clock.observe(ticks(frame) + set, at((frame * 40 + 20) * MS), true);
                told.extend(change.map(|change| (frame, change)));
            }
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(told[0].0 <= 100 + 50 && told[0].1 == ClockChange::Stepped(hours * 3_600), "{told:?}");
            assert_eq!(lag(&clock, ticks(200) + hours * 3_600 * 90_000, 8_000 * MS), 20);
        }
    }

    #[test]
    fn how_much_later_frames_come_is_told() {
        let mut clock = MediaClock::new(Duration::from_millis(150));
        for frame in 0..100u64 {
            let delay = if frame < 50 { 20 } else { 120 };
            clock.observe(ticks(frame), at((frame * 40 + delay) * MS), true);
        }
        let excess = clock.excess(at(4_080 * MS)).unwrap().as_millis();
        assert!((95..=100).contains(&excess), "{excess}");
        assert_eq!(clock.excess(at(9_000 * MS)), None, "nothing came of late");
    }
}
