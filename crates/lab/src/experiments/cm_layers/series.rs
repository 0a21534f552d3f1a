//! Step function: a value over time that holds until the next one.

/// Steps in order of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps(Vec<(f64, f64)>);

impl Steps {
    pub(super) fn new(steps: impl Iterator<Item = (f64, f64)>) -> Self {
        Self(steps.collect())
    }

    /// Returns the steps from `from` on.
    pub(super) fn since(&self, from: f64) -> impl Iterator<Item = (f64, f64)> {
        self.0.iter().copied().filter(move |&(at, _)| at >= from)
    }

    /// Returns the value at a time; none before the first step.
    pub(super) fn at(&self, time: f64) -> Option<f64> {
        let after = self.0.partition_point(|&(at, _)| at <= time);
        Some(self.0[after.checked_sub(1)?].1)
    }

    /// Returns the corners of its line, up to `end`.
    pub(super) fn line(&self, end: f64) -> Vec<(f64, f64)> {
        let ends = self.0.iter().skip(1).map(|&(at, _)| at).chain([end]);
        self.0.iter().zip(ends).flat_map(|(&(at, value), until)| [(at, value), (until, value)]).collect()
    }

    /// Returns the stretches within `from..to` in which `over` holds of this value and the other's,
    /// each as start and length.
    pub(super) fn stretches(
        &self,
        other: &Self,
        (from, to): (f64, f64),
        over: impl Fn(f64, f64) -> bool,
    ) -> Vec<(f64, f64)> {
        let mut times: Vec<f64> =
            self.0.iter().chain(&other.0).map(|&(at, _)| at).filter(|at| (from..to).contains(at)).collect();
        times.extend([from, to]);
        times.sort_unstable_by(f64::total_cmp);
        let mut stretches: Vec<(f64, f64)> = Vec::new();
        for pair in times.windows(2) {
            let (Some(own), Some(others)) = (self.at(pair[0]), other.at(pair[0])) else { continue };
            let len = pair[1] - pair[0];
            if !over(own, others) || len <= 0.0 {
                continue;
            }
            match stretches.last_mut() {
                Some((at, lasted)) if (*at + *lasted - pair[0]).abs() < 1e-9 => *lasted += len,
                _ => stretches.push((pair[0], len)),
            }
        }
        stretches
    }

    /// Returns the mean over `from..to`.
    pub(super) fn mean(&self, (from, to): (f64, f64)) -> f64 {
        let line = self.0.iter().zip(self.0.iter().skip(1).map(|&(at, _)| at).chain([f64::INFINITY]));
        let sum: f64 = line.map(|(&(at, value), until)| value * (until.min(to) - at.max(from)).max(0.0)).sum();
        sum / (to - from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(list: &[(f64, f64)]) -> Steps {
        Steps::new(list.iter().copied())
    }

    #[test]
    fn values_hold_until_the_next() {
        let a = steps(&[(1.0, 10.0), (3.0, 20.0)]);
        assert_eq!([0.5, 1.0, 2.9, 9.0].map(|t| a.at(t)), [None, Some(10.0), Some(10.0), Some(20.0)]);
        assert_eq!(a.line(5.0), [(1.0, 10.0), (3.0, 10.0), (3.0, 20.0), (5.0, 20.0)]);
        assert_eq!(a.mean((2.0, 4.0)), 15.0);
        assert_eq!(a.since(2.0).count(), 1);
    }

    #[test]
    fn stretches_join_where_nothing_changed_that_matters() {
        let a = steps(&[(0.0, 5.0), (2.0, 6.0), (4.0, 1.0)]);
        let b = steps(&[(0.0, 4.0), (1.0, 3.0), (3.0, 7.0)]);
        assert_eq!(a.stretches(&b, (0.5, 9.0), |a, b| a > b), [(0.5, 2.5)]);
    }
}
