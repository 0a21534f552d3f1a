//! How long a packet that leaves now is under way at the least: what may still arrive is not given up.

use timeous_core::{Duration, PathState};

/// How long a packet that leaves now is thought to be under way, if the path is as fast as it may well be: the smoothed
/// round trip less its mean deviation, of which half the least is the way back.
///
/// The smoothed round trip "responds slowly to rapid variations" (McQuistin §3.2): after a standstill it stays high for
/// many round trips, and the deviation with it; where a queue stands, there is little of that. Not to send what is useful is
/// worse than to send what is late (ibid.).
pub(crate) fn optimistic(path: &PathState) -> Duration {
    let half = path.min_rtt.or(path.srtt).unwrap_or(Duration::ZERO) / 2;
    path.one_way().saturating_sub(path.rttvar).max(half.min(path.one_way()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
