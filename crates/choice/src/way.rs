//! How long a packet that leaves now is under way at the least: what may still arrive is not given up.

use timeous_core::{Duration, Instant, PathState};

/// How long a packet that leaves now is thought to be under way, if the path is as fast as it may well be: the smoothed
/// round trip less its mean deviation, of which half the least is the way back; or the time in which the path delivers what is
/// outstanding, if that is less.
///
/// The smoothed round trip "responds slowly to rapid variations" (McQuistin §3.2): after a standstill it stays high for
/// many round trips, and the deviation with it; where a queue stands, there is little of that. Not to send what is useful is
/// worse than to send what is late (ibid.). When it delivers again, each round trip is that of a packet that was there while it
/// stood still; what is left of those, at the rate at which they come, is all that a packet has to wait for. And a single round
/// trip, the handshake's perhaps, says nothing of the next.
pub(crate) fn optimistic(path: &PathState) -> Duration {
    if is_single(path) {
        return Duration::ZERO;
    }
    let half = path.min_rtt.or(path.srtt).unwrap_or(Duration::ZERO) / 2;
    let usual = path.one_way().saturating_sub(path.rttvar);
    let ahead = path.delivered.map_or(Duration::MAX, |rate| rate.time_for(path.outstanding) + half);
    usual.min(ahead).max(half.min(path.one_way()))
}

/// Whether one round trip was measured: its half is taken for the deviation (RFC 6298 §2.2), and the next one makes it less. The
/// kernel tells whole microseconds, and of an odd one the lesser half.
fn is_single(path: &PathState) -> bool {
    let least = |srtt: Duration| srtt.saturating_sub(Duration::from_micros(1));
    path.srtt.is_some_and(|srtt| path.min_rtt == Some(srtt) && path.rttvar * 2 >= least(srtt))
}

/// How long the packet was under way of which was heard last, the way back taken for half of the least round trip.
pub(crate) fn latest(path: &PathState) -> Duration {
    let latest = path.latest_rtt.unwrap_or(Duration::ZERO);
    latest.saturating_sub(path.min_rtt.unwrap_or(latest) / 2)
}

/// How long a packet of `len` bytes that leaves now is under way where a queue stands: behind all that is under way, at the rate
/// at which the path delivers. Nothing where no queue stands, or the packet has not waited for a round trip: then the path may
/// be faster than it was asked to be.
///
/// Where a path becomes slower, round trips tell of it when it is too late: each is that of a packet which left one ago.
pub(crate) fn behind(now: Instant, path: &PathState, enqueued: Instant, len: u64) -> Duration {
    let (Some(srtt), Some(least), Some(rate)) = (path.srtt, path.min_rtt, path.delivered) else {
        return Duration::ZERO;
    };
    if srtt <= least + least / 2 || now.saturating_since(enqueued) < srtt {
        return Duration::ZERO;
    }
    // Half of a round trip is the way back.
    rate.time_for(path.outstanding.saturating_add(len)).saturating_sub(least / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_a_queue_that_stands_a_packet_waits_for_all_of_it() {
        let ms = |millis| Duration::from_millis(millis);
        let at = |millis| Instant::ZERO + ms(millis);
        let path = PathState {
            srtt: Some(ms(100)),
            min_rtt: Some(ms(40)),
            outstanding: 14_000,
            delivered: Some(timeous_core::Rate::from_kbps(400)),
            ..PathState::default()
        };
        let behind = |path: &PathState, enqueued| behind(at(500), path, at(enqueued), 1_000);
        assert_eq!(behind(&path, 400), ms(300 - 20));
        assert_eq!(behind(&path, 401), ms(0), "perhaps nothing was sent of late");
        assert_eq!(behind(&PathState { srtt: Some(ms(60)), ..path }, 0), ms(0), "no queue");
        assert_eq!(behind(&PathState { delivered: None, ..path }, 0), ms(0));
    }

    #[test]
    fn what_varies_may_be_fast_again_and_what_stands_is_slow() {
        let ms = |millis| Duration::from_millis(millis);
        let path = |srtt, rttvar| PathState {
            srtt: Some(ms(srtt)),
            rttvar: ms(rttvar),
            min_rtt: Some(ms(40)),
            ..PathState::default()
        };
        assert_eq!(optimistic(&path(40, 1)), ms(20), "never less than over an empty path");
        assert_eq!(optimistic(&path(340, 10)), ms(310), "a queue that stands");
        assert_eq!(optimistic(&path(200, 150)), ms(30), "one that is gone");
        assert_eq!(optimistic(&PathState::default()), Duration::ZERO);
    }

    /// Found by `timeous-lab tl-timelines`: the handshake met a standstill, and the first group of pictures was given up.
    #[test]
    fn a_single_round_trip_gives_nothing_up() {
        let ms = |millis| Duration::from_millis(millis);
        let known = PathState { srtt: Some(ms(440)), rttvar: ms(220), min_rtt: Some(ms(440)), ..PathState::default() };
        assert_eq!(optimistic(&known), ms(0));
        assert_eq!(optimistic(&PathState { rttvar: ms(165), ..known }), ms(220), "a second one was the same");
        // Found by `tcp-expired`: of every second stream whose call met a standstill the first intra frame was given up.
        let odd = Some(Duration::from_micros(440_001));
        assert_eq!(optimistic(&PathState { srtt: odd, min_rtt: odd, ..known }), ms(0));
    }

    /// Found by `timeous-lab tl-timelines`: what was handed over while the samples of a standstill came in was given up.
    #[test]
    fn where_a_path_delivers_again_a_packet_waits_only_for_what_is_left() {
        let ms = |millis| Duration::from_millis(millis);
        let path = PathState {
            srtt: Some(ms(240)),
            rttvar: ms(50),
            min_rtt: Some(ms(40)),
            outstanding: 5_000,
            delivered: Some(timeous_core::Rate::from_kbps(2_000)),
            ..PathState::default()
        };
        assert_eq!(optimistic(&path), ms(20 + 20));
        assert_eq!(optimistic(&PathState { outstanding: 0, ..path }), ms(20), "never less than over an empty path");
        assert_eq!(optimistic(&PathState { outstanding: 100_000, ..path }), ms(170), "what is usual may be less");
        assert_eq!(optimistic(&PathState { delivered: None, ..path }), ms(170));
    }
}
