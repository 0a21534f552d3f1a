//! Use of the advised rate by a source: an encoder may produce less than asked for, and more while it adapts to a lower rate.

use std::collections::VecDeque;

use timeous_core::{Duration, Instant, Rate};

/// Time over which the use is measured. Chosen by us: over less, a single large frame would dominate; a higher value
/// follows the encoder later.
const USE_SPAN: Duration = Duration::from_millis(500);
/// Time over which the current rate is measured: some frames. Chosen by us: a higher value follows the encoder later.
const RATE_SPAN: Duration = Duration::from_millis(200);
/// Minimum spacing of measurement points. Chosen by us: it bounds memory at high rates; a higher value measures more
/// coarsely.
const SAMPLE_SPACING: Duration = Duration::from_millis(20);

/// Measurement point, with byte counts since the start.
#[derive(Clone, Copy, Debug, Default)]
struct Point {
    at: Instant,
    /// Bytes at the stream's nominal rate.
    asked: u64,
    handed: u64,
}

/// Compares the bytes handed over to the stream's nominal rate.
#[derive(Clone, Debug, Default)]
pub(super) struct Used {
    handed: u64,
    points: VecDeque<Point>,
}

impl Used {
    /// Counts `len` bytes handed over at `at` by a stream of this nominal rate, if known.
    pub(super) fn arrived(&mut self, at: Instant, len: u64, rate: Option<Rate>) {
        let last = self.points.back().copied();
        if last.is_none_or(|last| at.saturating_since(last.at) >= SAMPLE_SPACING) {
            let since = last.map_or(Duration::ZERO, |last| at.saturating_since(last.at));
            let asked = rate.map_or(0, |rate| rate.bytes_in(since));
            let asked = last.map_or(0, |last| last.asked).saturating_add(asked);
            self.points.push_back(Point { at, asked, handed: self.handed });
            while self.points.get(1).is_some_and(|second| at.saturating_since(second.at) >= USE_SPAN) {
                self.points.pop_front();
            }
        }
        self.handed = self.handed.saturating_add(len);
    }

    /// Rate actually tried at this nominal rate: the current one, limited by the recent use.
    pub(super) fn tried(&self, rate: Rate) -> Rate {
        let of_late = self.share().map_or(rate, |(handed, asked)| part(rate, handed, asked));
        self.now().map_or(of_late, |now| now.min(of_late))
    }

    /// Nominal rate at which this rate is handed over, by the recent use.
    pub(super) fn to_have(&self, handed: Rate) -> Rate {
        self.share().map_or(handed, |(of, asked)| part(handed, asked, of))
    }

    fn now(&self) -> Option<Rate> {
        let last = self.points.back()?;
        let first = self.points.iter().rev().find(|point| last.at.saturating_since(point.at) >= RATE_SPAN)?;
        Some(Rate::from_bytes_in(last.handed - first.handed, last.at.saturating_since(first.at)))
    }

    /// Bytes handed over, and nominal bytes. At least three quarters: the rate that an encoder does not use while its
    /// picture stands still is needed again when that moves.
    fn share(&self) -> Option<(u64, u64)> {
        let (first, last) = self.points.front().zip(self.points.back())?;
        let (asked, handed) = (last.asked - first.asked, last.handed - first.handed);
        let known = last.at.saturating_since(first.at) >= USE_SPAN && asked > 0;
        known.then(|| (handed.clamp(asked - asked / 4, asked), asked))
    }
}

/// The share `parts / of` of a rate.
fn part(rate: Rate, parts: u64, of: u64) -> Rate {
    let bits = u128::from(rate.as_bps()) * u128::from(parts) / u128::from(of.max(1));
    Rate::from_bps(u64::try_from(bits).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kbps(rate: u64) -> Rate {
        Rate::from_kbps(rate)
    }

    /// Hands over `bytes` every 40 ms, as a stream of 400 kbit/s.
    fn hands(used: &mut Used, frames: std::ops::Range<u64>, bytes: u64) {
        for frame in frames {
            used.arrived(Instant::ZERO + Duration::from_millis(40 * frame), bytes, Some(kbps(400)));
        }
    }

    #[test]
    fn an_encoder_that_makes_four_fifths_is_asked_for_five_quarters() {
        let mut used = Used::default();
        hands(&mut used, 0..13, 1_600);
        assert_eq!((used.tried(kbps(400)), used.to_have(kbps(400))), (kbps(320), kbps(400)), "not known yet");
        hands(&mut used, 13..20, 1_600);
        assert_eq!((used.tried(kbps(400)), used.to_have(kbps(400))), (kbps(320), kbps(500)));
    }

    #[test]
    fn what_is_hardly_used_may_be_used_again_and_what_is_more_than_asked_for_is_no_habit() {
        let [mut still, mut turns] = [Used::default(), Used::default()];
        hands(&mut still, 0..20, 400);
        assert_eq!((still.tried(kbps(400)), still.to_have(kbps(300))), (kbps(80), kbps(400)));
        hands(&mut turns, 0..20, 3_000);
        assert_eq!((turns.tried(kbps(400)), turns.to_have(kbps(300))), (kbps(400), kbps(300)));
    }

    #[test]
    fn what_is_tried_is_what_is_handed_over_just_now() {
        let mut used = Used::default();
        hands(&mut used, 0..20, 2_000);
        hands(&mut used, 20..26, 1_000);
        assert_eq!(used.tried(kbps(400)), kbps(200));
    }

    #[test]
    fn a_stream_without_a_rate_is_as_it_is() {
        let mut used = Used::default();
        (0..40).for_each(|frame| used.arrived(Instant::ZERO + Duration::from_millis(40 * frame), 1_000, None));
        assert_eq!((used.tried(kbps(100)), used.to_have(kbps(100))), (kbps(100), kbps(100)));
    }
}
