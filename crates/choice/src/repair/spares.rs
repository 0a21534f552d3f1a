//! How many copies leave of what will have no other chance.

use timeous_core::{AduMeta, Duration, Instant, PathState};

/// What is sent a last time should be lost no more often than that.
const RESIDUAL: f64 = 1e-3;
/// More copies than that share the fate of the first: losses come in bursts.
const MOST_COPIES: u32 = 3;
/// What a peer waits before it acknowledges.
const HOLD: Duration = Duration::from_millis(5);

/// How many copies should leave of an ADU that leaves again at `now`: one, if there will be time to hear that it was lost and
/// to send it once more; else as many as make its loss rare. Those beyond the first take no fresh ADU's place.
pub(super) fn copies(now: Instant, path: &PathState, meta: &AduMeta) -> u32 {
    let (Some(srtt), Some(deadline)) = (path.srtt, meta.deadline) else { return 1 };
    // The next copy leaves when this one is overdue.
    let next = now + srtt + srtt / 16 + path.rttvar * 4 + HOLD + path.one_way();
    if next <= deadline {
        return 1;
    }
    let loss = f64::from(path.loss_ppm) / 1e6;
    let mut copies = 1;
    while loss.powi(copies as i32) > RESIDUAL && copies < MOST_COPIES {
        copies += 1;
    }
    copies
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    #[test]
    fn a_last_chance_is_taken_more_than_once_where_much_is_lost() {
        let of = |loss_ppm, deadline| {
            let srtt = Some(Duration::from_millis(100));
            let path = PathState { srtt, min_rtt: srtt, loss_ppm, ..PathState::default() };
            copies(at(0), &path, &AduMeta { deadline: Some(at(deadline)), ..AduMeta::default() })
        };
        assert_eq!([of(0, 150), of(500, 150), of(20_000, 150), of(50_000, 150)], [1, 1, 2, 3]);
        assert_eq!(of(500_000, 150), 3);
        assert_eq!([of(50_000, 161), of(50_000, 162)], [3, 1], "111 ms until it is overdue, and 50 ms on the way");
    }
}
