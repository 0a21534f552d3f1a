//! Streamer and player after Goddard (Chung & Claypool 2005), as in Hasan et al. §4: applications
//! in virtual time, the same over each transport.

pub(crate) mod message;
pub(crate) mod player;
pub(crate) mod probe;
pub(crate) mod server;

use timeous::core::{Duration, Rate};

/// Rates of the media, by level.
pub(crate) const RATES: [Rate; 7] = [
    Rate::from_kbps(80),
    Rate::from_kbps(120),
    Rate::from_kbps(240),
    Rate::from_kbps(320),
    Rate::from_kbps(640),
    Rate::from_kbps(960),
    Rate::from_kbps(1_920),
];

/// Ratio of sending rate to playing rate while the player's buffer fills, as a fraction: five
/// packets are sent in the playing time of four.
pub(crate) const HASTE: (u64, u64) = (5, 4);

/// Returns the playing time of one packet at a level.
pub(crate) fn interval(level: usize) -> Duration {
    RATES[level].time_for(message::PACKET as u64)
}

/// Returns the highest level whose rate fits into `rate`; the lowest if none does.
pub(crate) fn fitting(rate: Rate) -> usize {
    RATES.iter().rposition(|level| *level <= rate).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_chosen_by_what_fits() {
        let of = |kbps| fitting(Rate::from_kbps(kbps));
        assert_eq!([of(10), of(80), of(319), of(320), of(973), of(5_000)], [0, 0, 2, 3, 5, 6]);
        assert_eq!(interval(0), Duration::from_millis(100));
    }
}
