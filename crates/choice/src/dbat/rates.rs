//! Rates advised to the source of a stream by early feedback (Hasan et al. §3.2).

use timeous_core::{Duration, PathState, Rate};

/// Time within which the queue beyond `Min_Th` must drain, in path delays (docs/design/encoder-feedback.md). Chosen by
/// us: a higher value lowers the rate by less, and drains the queue later.
const DRAIN_DELAYS: u64 = 4;

/// Rate of the path, as far as known.
pub(super) fn path_rate(path: &PathState) -> Option<Rate> {
    path.srtt.map(|_| path.rate).filter(|rate| *rate > Rate::ZERO)
}

/// Rate that brings the queue back to `Min_Th`: the path's, less the bytes `beyond` it over four delays. Not below
/// three quarters of the path's rate nor half of the stream's, since the path's rate is an estimate and the next advice
/// is only a round trip away.
pub(super) fn lower(stream: Rate, path: Option<Rate>, beyond: u64, delay: Duration) -> Rate {
    let base = kept(stream, path).as_bps();
    let relief = Rate::from_bytes_in(beyond, delay * DRAIN_DELAYS).as_bps();
    let least = (base - base / 4).max(stream.as_bps() / 2);
    Rate::from_bps(base.saturating_sub(relief).max(least))
}

/// Rate at which the queue drains by itself: the stream's, limited to the path's rate but not below half of the stream's.
pub(super) fn held(stream: Rate, path: Option<Rate>) -> Rate {
    kept(stream, path).max(Rate::from_bps(stream.as_bps() / 2))
}

/// The same if the path's own queue is long and must drain: slightly below the path's rate.
pub(super) fn eased(stream: Rate, path: Option<Rate>) -> Rate {
    held(stream, path.map(not_quite))
}

/// Rate at which the path's own queue drains: slightly below the path's rate, but not below three quarters of the
/// stream's.
pub(super) fn relieved(stream: Rate, path: Option<Rate>) -> Rate {
    not_quite(kept(stream, path)).max(Rate::from_bps(stream.as_bps() / 4 * 3))
}

/// The part of the stream's rate that the path carries.
pub(super) fn kept(stream: Rate, path: Option<Rate>) -> Rate {
    path.map_or(stream, |path| path.min(stream))
}

/// Knowledge of the path's rate from earlier attempts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// Rate at which the queue filled; valid until more than that is delivered.
    pub(super) ceiling: Option<Rate>,
    /// Maximum delivered rate since the last advice.
    pub(super) shown: Rate,
    /// Maximum delivered rate ever, once a queue has filled.
    pub(super) best: Option<Rate>,
}

/// Higher rate to try when there is room, slightly below the path's estimated rate so that a queue can drain: a quarter
/// more; or half more, up to the rate that the path has carried before, and an eighth beyond that. If a queue filled
/// before, its ceiling is approached likewise and then exceeded by an eighth, to see whether there is more now. `None`
/// if that is hardly an increase.
pub(super) fn higher(stream: Rate, path: Option<Rate>, known: &Known) -> Option<Rate> {
    let [eighth, quarter, half] = [8, 4, 2].map(|of| Rate::from_bps(parts_more(stream, of)));
    let more = known.best.map_or(quarter, |best| half.min(not_quite(best)).max(eighth)).max(not_quite(known.shown));
    let more = match known.ceiling {
        Some(ceiling) if is_near(stream, ceiling) => few_parts_more(ceiling),
        Some(ceiling) => more.min(not_quite(ceiling)),
        None => more,
    };
    let rate = more.min(not_quite(path?));
    Some(rate).filter(|rate| is_more(*rate, stream))
}

/// Whether this is clearly more than the stream's rate.
pub(super) fn is_more(rate: Rate, stream: Rate) -> bool {
    rate.as_bps() > parts_more(stream, 32)
}

/// Whether the stream's rate is about the one that filled the queue before: at most an eighth below.
pub(super) fn is_near(stream: Rate, ceiling: Rate) -> bool {
    few_parts_more(stream) > ceiling
}

/// Whether the delivered rate is no higher than the one that filled the queue before, within a measurement error of a sixteenth.
pub(super) fn not_more(came: Rate, ceiling: Rate) -> bool {
    came.as_bps() <= parts_more(ceiling, 16)
}

/// Fifteen sixteenths of a rate.
pub(super) fn not_quite(rate: Rate) -> Rate {
    Rate::from_bps(rate.as_bps() - rate.as_bps() / 16)
}

/// A rate increased by an eighth.
fn few_parts_more(rate: Rate) -> Rate {
    Rate::from_bps(parts_more(rate, 8))
}

fn parts_more(rate: Rate, of: u64) -> u64 {
    rate.as_bps().saturating_add(rate.as_bps() / of)
}

/// Queueing delay of the path. The minimum of latest and smoothed RTT is used, since one RTT without a queue is proof,
/// which the smoothed one shows only late.
pub(super) fn queues(path: &PathState) -> Option<Duration> {
    let now = path.latest_rtt.into_iter().chain(path.srtt).min();
    now.zip(path.min_rtt).map(|(now, least)| now.saturating_sub(least))
}

/// Whether the path's queue is short: otherwise there is no room, wherever packets wait.
pub(super) fn is_short(path: &PathState, delay: Duration) -> bool {
    queues(path).is_none_or(|queues| queues <= delay / 2)
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
        // 3 000 bytes in 600 ms are 40 kbit/s.
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
    fn where_the_paths_own_queue_has_to_go_back_the_stream_gets_not_quite_what_it_carries() {
        assert_eq!(eased(kbps(320), Some(kbps(320))), kbps(300));
        assert_eq!(eased(kbps(320), Some(kbps(400))), kbps(320), "it has less already");
        assert_eq!(eased(kbps(320), Some(kbps(20))), kbps(160));
    }

    #[test]
    fn a_quarter_more_is_tried_where_the_path_has_it() {
        let more = |path| higher(kbps(320), path, &Known::default());
        assert_eq!(more(Some(kbps(900))), Some(kbps(400)));
        assert_eq!(more(Some(kbps(384))), Some(kbps(360)));
        assert_eq!(more(Some(kbps(350))), None);
        assert_eq!(more(Some(kbps(100))), None);
        assert_eq!(more(None), None);
    }

    #[test]
    fn what_is_known_of_the_path_makes_steps_larger_and_smaller() {
        let more = |known| higher(kbps(320), Some(kbps(2_000)), &known);
        let known = Known::default();
        let some = |rate| Some(kbps(rate));
        assert_eq!(more(Known { ceiling: some(336), ..known }), some(378), "an eighth beyond what filled the queue");
        assert_eq!(more(Known { ceiling: some(384), ..known }), some(360), "first up to that");
        assert_eq!(more(Known { best: some(1_200), ..known }), some(480), "half more where the path had it once");
        assert_eq!(more(Known { best: some(400), ..known }), some(375));
        assert_eq!(more(Known { best: some(320), ..known }), some(360), "an eighth where it never had");
        assert_eq!(more(Known { shown: kbps(800), ..known }), some(750), "at once what has come through just now");
    }

    #[test]
    fn one_round_trip_without_a_queue_is_enough() {
        let ms = |millis| Some(Duration::from_millis(millis));
        let path = PathState { srtt: ms(140), min_rtt: ms(40), ..PathState::default() };
        let is_short = |latest_rtt| is_short(&PathState { latest_rtt, ..path }, DELAY);
        assert!(!is_short(None) && !is_short(ms(116)));
        assert!(is_short(ms(115)), "half of the delay");
        let smoothed = PathState { srtt: ms(100), latest_rtt: ms(200), ..path };
        assert!(super::is_short(&smoothed, DELAY), "one that was delayed is not enough");
    }

    #[test]
    fn the_paths_own_queues_get_shorter_by_a_sixteenth() {
        assert_eq!(relieved(kbps(320), Some(kbps(304))), kbps(285));
        assert_eq!(relieved(kbps(320), Some(kbps(20))), kbps(240), "by a quarter at most");
    }
}
