//! Link rate over time, known in advance.

use timeous_core::{Duration, Rate};
use timeous_net::link::{Capacity, RateTrace};

/// Work per byte, in bits times nanoseconds per second.
const WORK_PER_BYTE: u128 = 8 * 1_000_000_000;

/// A piecewise constant rate; the last step lasts for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Start of each step, its rate in bit/s, and the work possible before it.
    steps: Vec<(u64, u64, u128)>,
}

impl Rates {
    /// Creates a constant rate.
    pub fn fixed(rate: Rate) -> Self {
        Self { steps: vec![(0, rate.as_bps(), 0)] }
    }

    /// Creates a rate from steps in order, the first at zero.
    pub fn steps(steps: &[(Duration, Rate)]) -> Self {
        let mut work = 0;
        let mut before = (0, 0);
        let step = |&(from, rate): &(Duration, Rate)| {
            work += u128::from(from.as_nanos() - before.0) * u128::from(before.1);
            before = (from.as_nanos(), rate.as_bps());
            (before.0, before.1, work)
        };
        Self { steps: steps.iter().map(step).collect() }
    }

    /// Converts to a link's capacity.
    pub fn capacity(&self) -> Capacity {
        match self.steps.as_slice() {
            [(_, bps, _)] => Capacity::Fixed(Rate::from_bps(*bps)),
            _ => Capacity::Trace(RateTrace::new(self.each().collect()).expect("steps are in order from zero on")),
        }
    }

    /// Start and rate of each step.
    pub fn each(&self) -> impl Iterator<Item = (Duration, Rate)> + '_ {
        self.steps.iter().map(|&(from, bps, _)| (Duration::from_nanos(from), Rate::from_bps(bps)))
    }

    /// End of the transmission of `bytes` from `start`; `None`: never.
    pub fn finish(&self, start: u64, bytes: u64) -> Option<u64> {
        let done = self.work_until(start) + u128::from(bytes) * WORK_PER_BYTE;
        let at = self.steps.partition_point(|&(_, _, work)| work < done).saturating_sub(1);
        let (from, bps, work) = self.steps[at];
        match (done - work, bps) {
            (0, _) => Some(from.max(start)),
            (_, 0) => None,
            (left, bps) => Some(from + u64::try_from(left.div_ceil(u128::from(bps))).ok()?),
        }
    }

    fn work_until(&self, at: u64) -> u128 {
        let step = self.steps.partition_point(|&(from, ..)| from <= at) - 1;
        let (from, bps, work) = self.steps[step];
        work + u128::from(at - from) * u128::from(bps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_as_long_as_the_steps_that_they_meet_and_an_outage_waits() {
        let (s, ms) = (Duration::from_secs, Duration::from_millis);
        let rates = Rates::steps(&[(s(0), Rate::from_kbps(80)), (s(1), Rate::ZERO), (s(2), Rate::from_kbps(8))]);
        let finish = |at: Duration, bytes| rates.finish(at.as_nanos(), bytes).map(Duration::from_nanos);
        assert_eq!(finish(s(0), 5_000), Some(ms(500)));
        assert_eq!(finish(ms(500), 5_000), Some(s(1)));
        assert_eq!(finish(ms(500), 5_001), Some(ms(2_001)), "the rest after the outage");
        assert_eq!(finish(ms(1_500), 1_000), Some(s(3)));
        assert_eq!(Rates::fixed(Rate::ZERO).finish(0, 1), None);
    }
}
