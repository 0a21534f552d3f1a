//! Units of a file between values of its program clock that are far apart: spread over the time between.

use std::collections::VecDeque;

use timeous_core::Duration;

use super::unit::TsUnit;

/// Longest interval between two values of the clock that is left as it is (ISO/IEC 13818-1 §2.7.2).
const LONGEST: Duration = Duration::from_millis(100);
/// Most bytes that wait for the next value. Chosen by us: a second at 256 Mbit/s; a higher value takes more memory.
const MOST_BYTES: usize = 32 << 20;

/// Gives units of a file times between values of its program clock: the rate is constant from one to the next (ISO/IEC 13818-1 §2.4.2.2).
/// Without it a file whose values are a second apart, as with a picture a second, comes in bursts.
///
/// ```
/// use timeous_media::ts::{Spread, TsReader};
/// let (mut reader, mut spread) = (TsReader::new(), Spread::default());
/// reader.push(&[0x47; 188 * 3])?;
/// while let Some(unit) = reader.next_unit() {
///     spread.push(unit);
/// }
/// while let Some(unit) = spread.next_unit() {
///     println!("{:?}: {} bytes", unit.time, unit.packets.len());
/// }
/// # Ok::<(), timeous_media::MediaError>(())
/// ```
#[derive(Debug, Default)]
pub struct Spread {
    /// Units since the last value of the clock, and their bytes.
    held: Vec<TsUnit>,
    bytes: usize,
    ready: VecDeque<TsUnit>,
}

impl Spread {
    /// Takes a unit, in the order of the file.
    pub fn push(&mut self, unit: TsUnit) {
        if self.held.first().is_some_and(|first| first.time != unit.time) || self.bytes > MOST_BYTES {
            self.end(unit.time);
        }
        self.bytes += unit.packets.len();
        self.held.push(unit);
    }

    /// Ends the file: what is left has the time of the last value.
    pub fn finish(&mut self) {
        self.end(None);
    }

    /// Returns the next unit.
    pub fn next_unit(&mut self) -> Option<TsUnit> {
        self.ready.pop_front()
    }

    fn end(&mut self, next: Option<Duration>) {
        let (all, mut before) = (std::mem::take(&mut self.bytes) as u64, 0);
        for mut unit in self.held.drain(..) {
            let len = unit.packets.len() as u64;
            if let (Some(begin), Some(next)) = (unit.time, next)
                && next > begin + LONGEST
            {
                unit.time = Some(begin + (next - begin) * before / all.max(1));
            }
            before += len;
            self.ready.push_back(unit);
        }
    }
}

#[cfg(test)]
mod tests {
    use timeous_core::{Priority, References, SubStream};

    use super::*;
    use crate::pictures::UnitKind;
    use crate::ts::stream::TsStream;

    fn unit(millis: u64, packets: usize) -> TsUnit {
        TsUnit {
            frame: 0,
            stream: TsStream::default(),
            place: 0,
            first: 0,
            last: true,
            kind: UnitKind::Other,
            references: References::NONE,
            priority: Priority::default(),
            substream: SubStream::TABLES,
            layer: 0,
            time: Some(Duration::from_millis(millis)),
            packets: vec![0; 188 * packets],
        }
    }

    fn times(units: &[(u64, usize)]) -> Vec<u64> {
        let mut spread = Spread::default();
        units.iter().for_each(|&(millis, packets)| spread.push(unit(millis, packets)));
        spread.finish();
        std::iter::from_fn(|| spread.next_unit()).map(|unit| unit.time.unwrap().as_millis()).collect()
    }

    #[test]
    fn a_long_interval_is_divided_by_bytes() {
        assert_eq!(times(&[(0, 6), (0, 1), (0, 1), (1_000, 2), (1_000, 2)]), [0, 750, 875, 1_000, 1_000]);
    }

    #[test]
    fn a_short_interval_and_a_clock_that_begins_anew_stay() {
        assert_eq!(times(&[(0, 1), (0, 1), (100, 1), (100, 1), (50, 1)]), [0, 0, 100, 100, 50]);
    }
}
