//! The sender's media clock as seen from here: from RTP timestamps to local instants.

use timeous_core::{Duration, Instant};

use crate::rtp::RTP_CLOCK_HZ;

/// The least delay is looked for over one to two such spans: long enough to outlast a queue, short enough to follow
/// two clocks that drift apart (100 ppm are 12 ms in two of them).
const SPAN: Duration = Duration::from_secs(60);

/// Maps media time to local time by the packet that was under way the shortest.
///
/// `arrival − timestamp` of a packet is a constant plus its delay. Its minimum is what the sender's clock would show,
/// the shortest way included.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MediaClock {
    /// The minimum of the current span, and when that span began.
    current: Option<(i128, Instant)>,
    /// The minimum of the span before.
    previous: Option<i128>,
}

impl MediaClock {
    /// A packet stamped `ticks` arrived.
    pub(super) fn observe(&mut self, ticks: i64, now: Instant) {
        let offset = i128::from(now.as_nanos()) - nanos(ticks);
        match &mut self.current {
            Some((least, began)) if now - *began < SPAN => *least = offset.min(*least),
            current => {
                self.previous = current.map(|(least, _)| least);
                *current = Some((offset, now));
            }
        }
    }

    /// The local instant of a timestamp, `after` added; before any packet everything is due at once.
    pub(super) fn instant(&self, ticks: i64, after: Duration) -> Instant {
        let Some((current, _)) = self.current else { return Instant::ZERO };
        let offset = self.previous.map_or(current, |previous| previous.min(current));
        let at = offset + nanos(ticks) + i128::from(after.as_nanos());
        Instant::from_nanos(u64::try_from(at.max(0)).unwrap_or(u64::MAX))
    }
}

fn nanos(ticks: i64) -> i128 {
    i128::from(ticks) * 1_000_000_000 / i128::from(RTP_CLOCK_HZ)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_packet_sets_the_clock() {
        let mut clock = MediaClock::default();
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        clock.observe(0, at(150));
        clock.observe(9_000, at(220));
        clock.observe(18_000, at(400));
        assert_eq!(clock.instant(27_000, Duration::from_millis(50)), at(120 + 300 + 50));
    }

    #[test]
    fn a_slow_sender_is_followed() {
        let mut clock = MediaClock::default();
        // Its clock loses 1 ms a second.
        for second in 0..300 {
            clock.observe(second * 90_000, Instant::from_nanos(second as u64 * 1_001_000_000));
        }
        let error = clock.instant(300 * 90_000, Duration::ZERO).as_nanos().abs_diff(300 * 1_001_000_000);
        assert!(error < 121_000_000, "{error} ns behind after five minutes");
    }
}
