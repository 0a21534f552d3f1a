//! Number of copies for an ADU's last chance.

use timeous_core::{AduMeta, Duration, Instant, PathState};

/// Target loss rate of a last transmission, as a probability (docs/design/repair.md). Chosen by us: a lower value sends
/// more copies.
const TARGET_LOSS: f64 = 1e-3;
/// Maximum number of copies of a last transmission (docs/design/repair.md). Chosen by us: more would share the fate of
/// the first, as losses come in bursts.
const MAX_COPIES: u32 = 3;
/// Acknowledgement delay of the peer: that of an end that accepts retransmissions (docs/design/repair.md). A higher
/// value takes more transmissions for the last chance.
const ACK_DELAY: Duration = Duration::from_millis(5);

/// Number of copies of an ADU retransmitted at `now`: one if there is time to detect its loss and send another;
/// otherwise enough to make the loss of all rare. Additional copies take no new ADU's place.
pub(super) fn copies(now: Instant, path: &PathState, meta: &AduMeta) -> u32 {
    let (Some(srtt), Some(deadline)) = (path.srtt, meta.deadline) else { return 1 };
    // The next copy is sent when this one is overdue.
    let next = now + srtt + srtt / 16 + path.rttvar * 4 + ACK_DELAY + path.one_way();
    if next <= deadline {
        return 1;
    }
    let loss = f64::from(path.loss_ppm) / 1e6;
    let mut copies = 1;
    while loss.powi(copies as i32) > TARGET_LOSS && copies < MAX_COPIES {
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
