//! Timeline: deadlines from playout times on a media clock (McQuistin §3.2).

use timeous_core::{Duration, Instant, PathState};

/// Deadline calculator for playout timestamps.
///
/// The first datagram begins the playout, half a round trip plus the receiver's buffering after it was handed over. The
/// others are due by their distance from it on the media clock, whose timestamps may wrap.
///
/// ```
/// use timeous_choice::Timeline;
/// use timeous_core::{Duration, Instant, PathState};
/// let path = PathState { srtt: Some(Duration::from_millis(40)), ..PathState::default() };
/// let mut timeline = Timeline::new(8_000).buffered(Duration::from_millis(100));
/// let (start, first) = (Instant::ZERO, u32::MAX - 79);
/// assert_eq!(timeline.deadline(start, &path, first), start + Duration::from_millis(120));
/// assert_eq!(timeline.deadline(start, &path, first.wrapping_add(160)), start + Duration::from_millis(140));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Timeline {
    rate: u32,
    buffer: Duration,
    /// Playout time of the latest timestamp, and that timestamp.
    latest: Option<(Instant, u32)>,
}

impl Timeline {
    /// Creates a timeline for timestamps at `rate` per second (the paper's `setClockrate`): 90000 for video. Zero counts as one.
    pub fn new(rate: u32) -> Self {
        Self { rate: rate.max(1), buffer: Duration::ZERO, latest: None }
    }

    /// Sets the receiver's buffering delay before playout.
    #[must_use]
    pub fn buffered(mut self, buffer: Duration) -> Self {
        self.buffer = buffer;
        self
    }

    /// Deadline of a datagram with this playout timestamp, handed over at `now`. The first one starts the playout.
    pub fn deadline(&mut self, now: Instant, path: &PathState, playout: u32) -> Instant {
        let half = path.srtt.unwrap_or_default() / 2;
        let (at, latest) = *self.latest.get_or_insert((now + half + self.buffer, playout));
        let ahead = playout.wrapping_sub(latest) as i32;
        let by = Duration::from_nanos(u64::from(ahead.unsigned_abs()) * 1_000_000_000 / u64::from(self.rate));
        if ahead < 0 {
            return Instant::ZERO + (at - Instant::ZERO).saturating_sub(by);
        }
        self.latest = Some((at + by, playout));
        at + by
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, path};

    #[test]
    fn playout_times_may_go_back_and_around_and_never_drift() {
        let mut timeline = Timeline::new(90_000);
        assert_eq!(timeline.deadline(at(10), &path(), 0), at(10));
        assert_eq!(timeline.deadline(at(11), &path(), 9_000), at(110));
        assert_eq!(timeline.deadline(at(12), &path(), 4_500), at(60), "a frame that is shown before one sent earlier");
        assert_eq!(timeline.deadline(at(13), &path(), 18_000), at(210), "whenever it is handed over");
        assert_eq!(
            timeline.deadline(at(13), &path(), 18_000_u32.wrapping_sub(90_000)),
            at(0),
            "nothing is before zero"
        );
        let mut playout = 18_000_u32;
        for n in 1..=50_u64 {
            playout = playout.wrapping_add(90_000_000);
            assert_eq!(timeline.deadline(at(14), &path(), playout), at(210 + n * 1_000_000));
        }
    }
}
