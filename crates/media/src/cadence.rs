//! Capture times for a source without timestamps: smooths the arrival times of its frames with a phase-locked loop.

use timeous_core::{Duration, Instant};

/// Loop gain for the phase, per frame. Chosen by us: a higher value follows a new frame rate sooner (now within about
/// thirty frames), and smooths less.
const PHASE_GAIN: f64 = 0.1;
/// Loop gain for the interval, per frame: a second-order loop, critically damped (gain²/4).
const INTERVAL_GAIN: f64 = PHASE_GAIN * PHASE_GAIN / 4.0;
/// Largest difference of a smoothed time from the arrival; above the jitter of a pipe and the scheduler. Chosen by us:
/// a higher value smooths more and restarts the loop later.
const MAX_SMOOTHING: Duration = Duration::from_millis(20);
/// Intervals after which a late frame restarts the loop: the source has paused. Chosen by us: a higher value follows
/// the source's clock for longer across a pause.
const PAUSE_INTERVALS: u64 = 3;
/// Frames at the start of a loop whose mean gives the interval. Chosen by us: a higher value starts more exactly, and
/// later.
const ACQUISITION_FRAMES: u32 = 16;
/// Consecutive frames off by more than the smoothing bound before the loop restarts. Chosen by us: a higher value
/// ignores more outliers and restarts later.
const MAX_UNLOCKED: u32 = 5;
/// Lower bound of the frame interval: 1000 frames per second. Chosen by us: above any encoder's rate.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
/// Upper bound of the frame interval: 0.5 frames per second. Chosen by us: below the rate of any live stream.
const MAX_INTERVAL: Duration = Duration::from_secs(2);

/// Smooths the arrival times of frames.
///
/// ```
/// use timeous_core::{Duration, Instant};
/// use timeous_media::Cadence;
/// let mut cadence = Cadence::default();
/// let ms = Duration::from_millis;
/// let at = |frame: u64| Instant::ZERO + ms(41) * frame + ms(frame % 2 * 4);
/// let times: Vec<Instant> = (0..200).map(|frame| cadence.frame(at(frame), ms(40))).collect();
/// let last = times[199].saturating_since(times[198]);
/// assert!(last.abs_diff(ms(41)) < ms(1), "every 41 ms, whatever the stream declares: {last:?}");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Cadence {
    last: Option<Instant>,
    interval: Duration,
    /// Start of the loop; then its frames, and consecutive frames beyond the smoothing bound.
    began: Instant,
    frames: u32,
    misfits: u32,
}

impl Cadence {
    /// Returns the smoothed time of a frame that arrived at `now`; `declared` is its duration by the stream. Times are
    /// strictly increasing, and within 20 ms of the arrival.
    pub fn frame(&mut self, now: Instant, declared: Duration) -> Instant {
        let Some(last) = self.last else { return self.begin(now, declared) };
        let expected = last + self.interval;
        let error = now.as_nanos() as f64 - expected.as_nanos() as f64;
        if now > expected + self.interval * PAUSE_INTERVALS || now < last.saturating_sub(MAX_SMOOTHING) {
            // After two pauses in a row, the pause is the interval.
            let interval = if self.frames == 0 { now.saturating_since(last) } else { self.interval };
            return self.begin(now.max(last + Duration::from_nanos(1)), interval);
        }
        self.frames = self.frames.saturating_add(1);
        let is_misfit = error.abs() > MAX_SMOOTHING.as_nanos() as f64;
        self.misfits = if is_misfit { self.misfits + 1 } else { 0 };
        if self.misfits >= MAX_UNLOCKED {
            return self.begin(now.max(last + Duration::from_nanos(1)), self.interval);
        }
        let smoothed = moved(expected, error * PHASE_GAIN.max(1.0 / f64::from(self.frames + 1)));
        let interval = if self.frames <= ACQUISITION_FRAMES {
            now.saturating_since(self.began) / u64::from(self.frames)
        } else {
            Duration::from_nanos((self.interval.as_nanos() as f64 + error * INTERVAL_GAIN).max(0.0) as u64)
        };
        self.interval = interval.clamp(MIN_INTERVAL, MAX_INTERVAL);
        let bounded = smoothed.clamp(now.saturating_sub(MAX_SMOOTHING), now + MAX_SMOOTHING);
        let at = bounded.max(last + Duration::from_nanos(1));
        self.last = Some(at);
        at
    }

    /// Current estimate of the frame interval.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    fn begin(&mut self, now: Instant, interval: Duration) -> Instant {
        self.last = Some(now);
        (self.began, self.misfits) = (now, 0);
        self.interval = interval.clamp(MIN_INTERVAL, MAX_INTERVAL);
        self.frames = 0;
        now
    }
}

fn moved(at: Instant, by: f64) -> Instant {
    Instant::from_nanos((at.as_nanos() as f64 + by).max(0.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeous_core::Rng;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Arrival times and smoothed times of frames sent every `interval`, up to 8 ms late.
    fn run(cadence: &mut Cadence, from: Instant, interval: Duration, frames: u64) -> Vec<(Instant, Instant)> {
        let mut rng = Rng::from_seed(1);
        (0..frames)
            .map(|frame| {
                let arrival = from + interval * frame + Duration::from_micros(rng.below(8_000));
                (arrival, cadence.frame(arrival, ms(40)))
            })
            .collect()
    }

    #[test]
    fn any_rate_is_followed_and_smoothed() {
        for interval in [8, 25, 40, 42, 66, 200, 500] {
            let times = run(&mut Cadence::default(), Instant::ZERO + ms(500), ms(interval), 400);
            assert!(times.is_sorted_by(|a, b| a.1 < b.1));
            assert!(times.iter().all(|(arrival, at)| arrival.as_nanos().abs_diff(at.as_nanos()) <= 20_000_000));
            let gaps = times[100..].windows(2).map(|pair| pair[1].1.saturating_since(pair[0].1));
            let worst = gaps.map(|gap| gap.abs_diff(ms(interval)).as_micros()).max().unwrap();
            assert!(worst < 2_000, "{interval} ms: {worst} us off");
        }
    }

    #[test]
    fn a_pause_is_a_pause_and_a_changed_rate_is_followed() {
        let mut cadence = Cadence::default();
        run(&mut cadence, Instant::ZERO, ms(40), 100);
        let after = run(&mut cadence, Instant::ZERO + ms(10_000), ms(20), 100);
        assert_eq!(after[0].0, after[0].1, "a pause leaves nothing behind");
        assert!(cadence.interval().abs_diff(ms(20)) < ms(1));
    }

    #[test]
    fn times_rise_even_if_frames_come_together() {
        let mut cadence = Cadence::default();
        let now = Instant::ZERO + ms(1_000);
        let times: Vec<Instant> = (0..50).map(|_| cadence.frame(now, ms(40))).collect();
        assert!(times.is_sorted_by(|a, b| a < b));
        assert!(times[49].saturating_since(now) <= ms(21));
    }
}
