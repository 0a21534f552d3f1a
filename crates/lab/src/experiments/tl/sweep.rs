//! Round trips and playouts of the sweeps.

use timeous::core::Duration;

use super::PLAYOUT;
use super::offers::SIZES;
use super::trial::WIDE;

/// A datagram's packet at most, with record and headers.
const LONGEST: usize = SIZES[1] + 70;
/// Round-trip times of the sweeps: a town, a country, a continent, the world.
pub(crate) const ROUND_TRIPS: [Duration; 5] = [
    Duration::from_millis(10),
    Duration::from_millis(40),
    Duration::from_millis(70),
    Duration::from_millis(100),
    Duration::from_millis(200),
];
/// Playouts of the sweeps, in tenths of the one-way delay: from one without time for a repair, where each jitter counts, to ample ones.
pub(crate) const PLAYOUTS: [u64; 4] = [11, 15, 20, 40];

/// Returns the delay of one datagram over the link: propagation, and the transmission of the longer one.
pub(crate) fn one_way(round_trip: Duration) -> Duration {
    round_trip / 2 + WIDE.time_for(LONGEST as u64)
}

/// Returns the playouts of the sweeps over a path: multiples of the one-way delay, and [`PLAYOUT`].
pub(crate) fn playouts(round_trip: Duration) -> Vec<Duration> {
    PLAYOUTS.iter().map(|&tenths| one_way(round_trip) * tenths / 10).chain([PLAYOUT]).collect()
}

/// Returns the name of the playout at this place of [`playouts`].
pub(crate) fn playout_name(place: usize) -> String {
    let tenths = PLAYOUTS.get(place);
    tenths.map_or_else(
        || format!("{} ms", PLAYOUT.as_millis()),
        |&tenths| format!("{} one-way delays", tenths as f64 / 10.0),
    )
}
