//! Statistics over seeds, rounds and packets: means, extremes and quantiles.

use std::fmt;

/// Returns the mean; NaN without values.
pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) = values.into_iter().fold((-0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

/// Returns the minimum; NaN without values, or if one is NaN.
pub fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    extreme(values, f64::min)
}

/// Returns the maximum; NaN without values, or if one is NaN.
pub fn most(values: impl IntoIterator<Item = f64>) -> f64 {
    extreme(values, f64::max)
}

/// `f64::min` and `f64::max` drop NaN, and a claim about a value that was not measured would hold.
fn extreme(values: impl IntoIterator<Item = f64>, of: fn(f64, f64) -> f64) -> f64 {
    let further = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { of(a, b) };
    values.into_iter().reduce(further).unwrap_or(f64::NAN)
}

/// Returns Jain's fairness index: 1 if all shares are equal, 1/n if one has everything.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

/// Mean and extremes of some values, shown as `2.5 (1.0 to 4.0)`.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Stats {
    /// Mean.
    pub mean: f64,
    /// Minimum.
    pub least: f64,
    /// Maximum.
    pub most: f64,
    /// Standard error of the mean; NaN with a single value.
    pub error: f64,
}

impl Stats {
    /// Computes the statistics of at least one value.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.into_iter().collect();
        let (each, count) = (|| values.iter().copied(), values.len() as f64);
        let mean = mean(each());
        let squares: f64 = each().map(|value| (value - mean) * (value - mean)).sum();
        let error = (squares / (count - 1.0) / count).sqrt();
        Self { mean, least: least(each()), most: most(each()), error }
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        write!(f, "{:.digits$} ({:.digits$} to {:.digits$})", self.mean, self.least, self.most)
    }
}

/// Values in ascending order. Each quantile is one of them; NaN without values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sorted(Vec<f64>);

impl Sorted {
    /// Returns the values, in order.
    pub fn values(&self) -> &[f64] {
        &self.0
    }

    /// Returns the mean.
    pub fn mean(&self) -> f64 {
        mean(self.0.iter().copied())
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn at(&self, index: usize) -> f64 {
        self.0.get(index).copied().unwrap_or(f64::NAN)
    }

    /// Returns the smallest value that at least `percent` of the values do not exceed (nearest rank).
    pub fn percentile(&self, percent: f64) -> f64 {
        self.at((self.0.len() as f64 * percent / 100.0).ceil().max(1.0) as usize - 1)
    }

    /// Returns the value nearest to `percent` of the way from the first value to the last.
    pub fn nearest(&self, percent: f64) -> f64 {
        self.at((percent / 100.0 * self.0.len().saturating_sub(1) as f64).round() as usize)
    }

    /// Returns the first value after the `percent` smallest ones, or the last value.
    pub fn after(&self, percent: usize) -> f64 {
        self.at((self.0.len() * percent / 100).min(self.0.len().saturating_sub(1)))
    }

    /// Returns the median; the mean of the middle two of an even number of values.
    pub fn median(&self) -> f64 {
        f64::midpoint(self.at(self.0.len().saturating_sub(1) / 2), self.at(self.0.len() / 2))
    }

    /// Returns the 95 % confidence interval of the median, by order statistics: the number of values below the
    /// median is binomial.
    pub fn median_interval(&self) -> (f64, f64) {
        let (last, off) = (self.0.len() as f64 - 1.0, 1.96 * (self.0.len() as f64).sqrt() / 2.0);
        let at = |place: f64| self.at(place.round().clamp(0.0, last.max(0.0)) as usize);
        (at(last / 2.0 - off), at(last / 2.0 + off))
    }
}

impl FromIterator<f64> for Sorted {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        Self(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_extremes_are_shown_together() {
        let stats = Stats::of([1.0, 4.0, 2.5]);
        assert_eq!(format!("{stats:.1}"), "2.5 (1.0 to 4.0)");
        assert_eq!(Stats::of([1.0, 3.0]).error, 1.0);
        assert!(Stats::of([1.0]).error.is_nan(), "one value has no error");
        assert!([mean([]), least([]), most([])].iter().all(|value| value.is_nan()));
        assert_eq!((least([2.0, 1.0]), most([2.0, 3.0])), (1.0, 3.0));
        for values in [[f64::NAN, 1.0], [1.0, f64::NAN]] {
            assert!(least(values).is_nan() && most(values).is_nan(), "a value that was not measured is not dropped");
        }
    }

    #[test]
    fn the_fairness_index_is_one_for_equals_and_falls_to_one_over_their_number() {
        assert_eq!(jain(&[3.0; 7]), 1.0);
        assert_eq!(jain(&[1.0, 0.0, 0.0, 0.0]), 0.25);
        assert!((jain(&[1.0, 2.0]) - 0.9).abs() < 1e-12);
    }

    #[test]
    fn quantiles_are_values() {
        let sorted = Sorted::from_iter([4.0, 1.0, 3.0, 2.0]);
        assert_eq!([0.0, 25.0, 26.0, 100.0].map(|percent| sorted.percentile(percent)), [1.0, 1.0, 2.0, 4.0]);
        assert_eq!([0.0, 50.0, 100.0].map(|percent| sorted.nearest(percent)), [1.0, 3.0, 4.0]);
        assert_eq!([0, 50, 100].map(|percent| sorted.after(percent)), [1.0, 3.0, 4.0]);
        assert_eq!((sorted.median(), Sorted::from_iter([3.0, 1.0, 2.0]).median()), (2.5, 2.0));
        assert_eq!(sorted.median_interval(), (1.0, 4.0), "four values say little");
        let twenty = (1..=20).map(f64::from).collect::<Sorted>();
        assert_eq!(
            [1.0, 50.0, 95.0, 99.0, 100.0].map(|percent| twenty.percentile(percent)),
            [1.0, 10.0, 19.0, 20.0, 20.0]
        );
        let none = Sorted::default();
        assert!(none.percentile(50.0).is_nan() && none.nearest(50.0).is_nan() && none.median().is_nan());
    }
}
