//! Which rate the source of a stream had better take: what it is told by early feedback (Hasan et al. §3.2).

use timeous_core::{Duration, PathState, Rate};

/// Over so many delays, what waits beyond `Min_Th` is to be gone.
const DELAYS: u64 = 4;

/// The rate of the path as far as it is known.
pub(super) fn path_rate(path: &PathState) -> Option<Rate> {
    path.srtt.map(|_| path.rate).filter(|rate| *rate > Rate::ZERO)
}

/// The rate that brings a queue back to `Min_Th`: what the path carries, less what waits `beyond` it over four delays.
///
/// A stream is not asked for less than three quarters of what the path carries, nor for less than half of what it has:
/// what is known of a path is an estimate, and the next advice is a round trip away.
pub(super) fn lower(stream: Rate, path: Option<Rate>, beyond: u64, delay: Duration) -> Rate {
    let base = kept(stream, path).as_bps();
    let relief = Rate::from_bytes_in(beyond, delay * DELAYS).as_bps();
    let least = (base - base / 4).max(stream.as_bps() / 2);
    Rate::from_bps(base.saturating_sub(relief).max(least))
}

/// The rate where the queue goes back by itself: the stream's, and not more than the path carries, nor less than half.
pub(super) fn held(stream: Rate, path: Option<Rate>) -> Rate {
    kept(stream, path).max(Rate::from_bps(stream.as_bps() / 2))
}

/// What a stream of this rate gets through the path.
pub(super) fn kept(stream: Rate, path: Option<Rate>) -> Rate {
    path.map_or(stream, |path| path.min(stream))
}

/// A rate that is tried where there is room: a quarter more, or half of that if a queue was `near` here before, and not
/// quite what the path is thought to carry, so that a queue can go back. `None` if that is hardly more than now.
pub(super) fn higher(stream: Rate, path: Option<Rate>, near: bool) -> Option<Rate> {
    let more = if near { few_parts_more(stream) } else { Rate::from_bps(parts_more(stream, 4)) };
    let carried = path?.as_bps();
    let rate = (carried - carried / 16).min(more.as_bps());
    (rate > parts_more(stream, 32)).then_some(Rate::from_bps(rate))
}

/// An eighth more.
pub(super) fn few_parts_more(rate: Rate) -> Rate {
    Rate::from_bps(parts_more(rate, 8))
}

fn parts_more(rate: Rate, of: u64) -> u64 {
    rate.as_bps().saturating_add(rate.as_bps() / of)
}

/// Whether the path's own queues are short: else there is no room, wherever what was sent waits.
pub(super) fn is_short(path: &PathState, delay: Duration) -> bool {
    let queues = path.srtt.zip(path.min_rtt).map(|(smoothed, least)| smoothed.saturating_sub(least));
    queues.is_none_or(|queues| queues <= delay / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(150);

    fn kbps(rate: u64) -> Rate {
        Rate::from_kbps(rate)
    }

    #[test]
    fn what_waits_beyond_the_first_threshold_goes_within_four_delays() {
        // 3 000 bytes over 600 ms are 40 kbit/s.
        assert_eq!(lower(kbps(320), None, 3_000, DELAY), kbps(280));
        assert_eq!(lower(kbps(320), Some(kbps(300)), 3_000, DELAY), kbps(260));
        assert_eq!(
            lower(kbps(320), Some(kbps(900)), 3_000, DELAY),
            kbps(280),
            "the queue grows whatever is said of the path"
        );
    }

    #[test]
    fn estimates_are_not_followed_into_the_depths() {
        assert_eq!(lower(kbps(320), None, 1_000_000, DELAY), kbps(240), "three quarters of what the path carries");
        assert_eq!(lower(kbps(320), Some(kbps(20)), 3_000, DELAY), kbps(160), "half of what the stream has");
        assert_eq!(lower(kbps(320), None, 1, Duration::ZERO), kbps(240));
    }

    #[test]
    fn where_the_queue_goes_back_the_stream_keeps_what_the_path_carries() {
        assert_eq!(held(kbps(320), None), kbps(320));
        assert_eq!(held(kbps(320), Some(kbps(300))), kbps(300));
        assert_eq!(held(kbps(320), Some(kbps(900))), kbps(320));
        assert_eq!(held(kbps(320), Some(kbps(20))), kbps(160));
    }

    #[test]
    fn a_quarter_more_is_tried_where_the_path_has_it() {
        assert_eq!(higher(kbps(320), Some(kbps(900)), false), Some(kbps(400)));
        assert_eq!(higher(kbps(320), Some(kbps(384)), false), Some(kbps(360)));
        assert_eq!(higher(kbps(320), Some(kbps(350)), false), None);
        assert_eq!(higher(kbps(320), Some(kbps(100)), false), None);
        assert_eq!(higher(kbps(320), None, false), None);
        assert_eq!(
            higher(kbps(320), Some(kbps(900)), true),
            Some(kbps(360)),
            "less of a step where a queue was before"
        );
    }
}
