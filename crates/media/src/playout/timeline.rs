//! Output timeline: continues over steps of the source's clock and over restarts.

use timeous_core::Instant;

use crate::rtp::RTP_CLOCK_HZ;

/// Maps a source's timestamps to the output by adding a shift. After a change of the source's clock, the shift is
/// recomputed from the local time that passed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timeline {
    shift: i64,
    last: Option<LastTimestamp>,
    /// Whether the source's clock has changed since the last frame.
    is_new: bool,
}

#[derive(Clone, Copy, Debug)]
struct LastTimestamp {
    decode: i64,
    played: Instant,
}

impl Timeline {
    /// Begins a new source clock with the next frame.
    pub(super) fn begin_anew(&mut self) {
        self.is_new = true;
    }

    /// Output presentation and decoding times of the next frame, by its source times and playout instant.
    pub(super) fn place(&mut self, presentation: i64, capture: i64, playout_at: Instant) -> (i64, i64) {
        if let Some(last) = self.last.filter(|_| self.is_new) {
            let passed = ticks_between(last.played, playout_at).max(1);
            self.shift = last.decode + passed - capture;
        }
        self.is_new = false;
        let decode = self.last.map_or(capture + self.shift, |last| (capture + self.shift).max(last.decode + 1));
        self.last = Some(LastTimestamp { decode, played: playout_at });
        (presentation + self.shift, decode)
    }
}

fn ticks_between(from: Instant, to: Instant) -> i64 {
    let nanos = i128::from(to.as_nanos()) - i128::from(from.as_nanos());
    i64::try_from(nanos * i128::from(RTP_CLOCK_HZ) / 1_000_000_000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeous_core::Duration;

    #[test]
    fn another_clock_goes_on_where_the_last_one_ended() {
        let mut timeline = Timeline::default();
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        assert_eq!(timeline.place(1_000_000, 1_000_000, at(0)), (1_000_000, 1_000_000));
        assert_eq!(timeline.place(1_003_600, 1_003_600, at(40)), (1_003_600, 1_003_600));
        timeline.begin_anew();
        assert_eq!(timeline.place(7, 7, at(1_040)), (1_093_600, 1_093_600), "a second passed");
        assert_eq!(timeline.place(3_607, 3_607, at(1_080)).0, 1_097_200);
        assert_eq!(timeline.place(10, 0, at(1_081)), (1_093_603, 1_097_201), "decoding times rise all the same");
    }
}
