//! What the source of a stream is told: early feedback (Hasan et al. §3.2), and which rate to take.

use timeous_core::{Duration, Instant, PathState, Rate};

use super::thresholds::{Level, Thresholds};

/// Over so many delays, what waits beyond `Min_Th` is to be gone.
const DELAYS: u64 = 4;

/// Feedback to a stream's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// When it was given.
    pub at: Instant,
    /// Why.
    pub reason: Reason,
    /// What is queued, in bytes.
    pub queued: u64,
    /// Its weighted average, in bytes.
    pub average: u64,
    /// What that is measured by.
    pub thresholds: Thresholds,
    /// The rate that the stream has as far as it said.
    pub stream: Rate,
    /// The rate that it had better take.
    pub rate: Rate,
    /// What the path is thought to carry, if that is known. A source with few rates to choose from takes the next one
    /// above its own when that fits into this; [`rate`](Self::rate) goes up in steps.
    pub path: Option<Rate>,
}

/// Why advice is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The average queue is beyond the middle of its thresholds.
    Filling,
    /// It is beyond `Max_Th`: what is not marked is given up.
    Overfull,
    /// Little waits, and the path is thought to carry more than the stream has. Not the paper's.
    Room,
}

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

fn kept(stream: Rate, path: Option<Rate>) -> Rate {
    path.map_or(stream, |path| path.min(stream))
}

/// A rate that is tried where there is room: a quarter more, and not quite what the path is thought to carry, so that a
/// queue can go back. `None` if that is hardly more than now.
pub(super) fn higher(stream: Rate, path: Option<Rate>) -> Option<Rate> {
    let stream = stream.as_bps();
    let carried = path?.as_bps();
    let rate = (carried - carried / 16).min(stream.saturating_add(stream / 4));
    (rate > stream.saturating_add(stream / 32)).then_some(Rate::from_bps(rate))
}

impl Reason {
    /// That a queue's level gives, if any.
    pub(super) const fn of(level: Level) -> Option<Self> {
        match level {
            Level::Overfull => Some(Self::Overfull),
            Level::Filling => Some(Self::Filling),
            Level::Low => Some(Self::Room),
            Level::Fair | Level::Unknown => None,
        }
    }
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
        assert_eq!(higher(kbps(320), Some(kbps(900))), Some(kbps(400)));
        assert_eq!(higher(kbps(320), Some(kbps(384))), Some(kbps(360)));
        assert_eq!(higher(kbps(320), Some(kbps(350))), None);
        assert_eq!(higher(kbps(320), Some(kbps(100))), None);
        assert_eq!(higher(kbps(320), None), None);
    }
}
