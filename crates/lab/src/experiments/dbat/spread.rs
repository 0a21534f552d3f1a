//! Spread over several seeds: mean, minimum and maximum.

use std::fmt;

use super::outcome::Outcome;
use super::setup::StreamTransport;

/// Mean, minimum and maximum of some values.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Computes the spread of at least one value.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.into_iter().collect();
        Self {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// Computes the spread over all runs of a transport at a round-trip time.
    pub(crate) fn over(outcomes: &[Outcome], way: StreamTransport, rtt: u64, value: impl Fn(&Outcome) -> f64) -> Self {
        Self::of(outcomes.iter().filter(|outcome| outcome.way == way && outcome.rtt == rtt).map(value))
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        write!(f, "{:.digits$} ({:.digits$} to {:.digits$})", self.mean, self.least, self.most)
    }
}

/// Returns the value below which a share of the values lies.
pub(crate) fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let index = (share * values.len().saturating_sub(1) as f64).round() as usize;
    values.get(index).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_told_with_its_ends() {
        let spread = Spread::of([1.0, 4.0, 2.5]);
        assert_eq!(format!("{spread:.1}"), "2.5 (1.0 to 4.0)");
        assert_eq!(quantile(vec![3.0, 1.0, 2.0], 0.5), 2.0);
        assert!(quantile(Vec::new(), 0.5).is_nan());
    }
}
