//! Clock of PES packets: times of 33 bits, counted on over wraps and over sources that begin anew.

use super::packet::TIME_VALUES;
use crate::rtp::RTP_CLOCK_HZ;

/// Step of the times beyond which the source has begun anew, for players: ten seconds. Chosen by us: longer than what is given up at a time.
const MOST_STEP: i64 = 10 * RTP_CLOCK_HZ as i64;

/// Step back beyond which it has: two seconds. Data stay in a decoder's buffer for at most one (ISO/IEC 13818-1 §2.4.2.6), so that sound
/// and picture beside each other are nearer; a higher value lets players stand still for as long.
const MOST_BACK: i64 = 2 * RTP_CLOCK_HZ as i64;

/// Counts times on from zero, in ticks of 90 kHz; steps of more than `MOST` are none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PesClock<const MOST: i64 = MOST_STEP> {
    /// Last time, as it came and as it is counted.
    last: Option<(i64, i64)>,
}

/// The same for files, in which players seek: a break of hours is a gap.
pub(crate) type FileClock = PesClock<TIME_VALUES>;

impl<const MOST: i64> PesClock<MOST> {
    /// Counts a time on, over wraps of its 33 bits; a source that begins anew goes on where it was.
    pub(crate) fn count(&mut self, time: u64) -> i64 {
        let time = time as i64;
        let counted = match self.last {
            None => 0,
            Some((last, counted)) => {
                let step = wrapped(time - last);
                if (-MOST_BACK..=MOST).contains(&step) { counted + step } else { counted }
            }
        };
        self.last = Some((time, counted));
        counted
    }
}

/// Difference of two times of 33 bits.
pub(crate) fn wrapped(difference: i64) -> i64 {
    (difference + TIME_VALUES / 2).rem_euclid(TIME_VALUES) - TIME_VALUES / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_on_when_their_bits_wrap() {
        let mut clock = <PesClock>::default();
        let end = TIME_VALUES as u64 - 900;
        assert_eq!([end, 900, 0, 1_800].map(|time| clock.count(time)), [0, 1_800, 900, 2_700]);
    }

    /// Found by reading: a player stood still for an hour where a looped source began again.
    #[test]
    fn a_source_that_begins_anew_goes_on_where_it_was() {
        assert_goes_on(<PesClock>::default());
        assert_goes_on(FileClock::default());
    }

    /// Found by reading: a break of more than ten seconds was no gap in MP4.
    #[test]
    fn a_break_of_hours_is_a_gap_in_a_file() {
        let hours = 10 * 3_600 * u64::from(RTP_CLOCK_HZ);
        let times = [TIME_VALUES as u64 - hours / 2, hours / 2];
        let mut clock = FileClock::default();
        assert_eq!(times.map(|time| clock.count(time)), [0, hours as i64]);
        let mut clock = <PesClock>::default();
        assert_eq!(times.map(|time| clock.count(time)), [0, 0]);
    }

    fn assert_goes_on<const MOST: i64>(mut clock: PesClock<MOST>) {
        let hour = 3_600 * u64::from(RTP_CLOCK_HZ);
        assert_eq!([hour, hour + 3_600, 0, 3_600].map(|time| clock.count(time)), [0, 3_600, 3_600, 7_200]);
        // By four seconds: a recording was silent for as long.
        let mut clock = PesClock::<MOST>::default();
        let back = hour - 4 * u64::from(RTP_CLOCK_HZ);
        assert_eq!([hour, back, back + 1_800, back].map(|time| clock.count(time)), [0, 0, 1_800, 0]);
    }
}
