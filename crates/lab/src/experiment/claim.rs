//! A claim: measured value, the paper's result, and bounds.

use std::fmt;
use std::ops::{RangeFrom, RangeInclusive, RangeToInclusive};

use timeous_testbed::Stats;

/// Bound of a value.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    /// Minimum.
    AtLeast(f64),
    /// Maximum.
    AtMost(f64),
    /// Range, both ends included.
    Within(f64, f64),
}

impl Bound {
    /// Whether the value is within the bound. NaN and infinity never are: they come from nothing measured.
    pub(crate) fn holds(self, value: f64) -> bool {
        value.is_finite()
            && match self {
                Self::AtLeast(least) => value >= least,
                Self::AtMost(most) => value <= most,
                Self::Within(least, most) => (least..=most).contains(&value),
            }
    }
}

impl From<RangeFrom<f64>> for Bound {
    fn from(range: RangeFrom<f64>) -> Self {
        Self::AtLeast(range.start)
    }
}

impl From<RangeToInclusive<f64>> for Bound {
    fn from(range: RangeToInclusive<f64>) -> Self {
        Self::AtMost(range.end)
    }
}

impl From<RangeInclusive<f64>> for Bound {
    fn from(range: RangeInclusive<f64>) -> Self {
        Self::Within(*range.start(), *range.end())
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, "≥ {least}"),
            Self::AtMost(most) => write!(f, "≤ {most}"),
            Self::Within(least, most) => write!(f, "{least} to {most}"),
        }
    }
}

/// A result of an experiment, compared to the paper.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Claim {
    /// Quantity, with the unit of the value.
    pub(crate) what: String,
    /// Result in the paper.
    pub(crate) paper: String,
    /// Measured result, for people.
    pub(crate) measured: String,
    /// Measured value, for the bounds.
    pub(crate) value: f64,
    /// Minimum requirement.
    pub(crate) pass: Option<Bound>,
    /// Goal.
    pub(crate) aim: Option<Bound>,
}

impl Claim {
    /// Creates a claim without bounds.
    pub(crate) fn new(what: impl Into<String>, paper: &str, measured: impl ToString, value: f64) -> Self {
        let (what, paper, measured) = (what.into(), paper.to_owned(), measured.to_string());
        Self { what, paper, measured, value, pass: None, aim: None }
    }

    /// Creates a claim about a number, shown with this number of decimals.
    pub(crate) fn number(what: impl Into<String>, paper: &str, digits: usize, value: f64) -> Self {
        Self::new(what, paper, format_args!("{value:.digits$}"), value)
    }

    /// Creates a claim about a mean, shown with its extremes.
    pub(crate) fn mean(what: impl Into<String>, paper: &str, digits: usize, stats: Stats) -> Self {
        Self::new(what, paper, format_args!("{stats:.digits$}"), stats.mean)
    }

    /// Creates a claim about a count.
    pub(crate) fn count(what: impl Into<String>, paper: &str, count: u64) -> Self {
        Self::new(what, paper, count, count as f64)
    }

    /// Creates a claim that is true or false, such as an order of several values.
    pub(crate) fn order(what: impl Into<String>, paper: &str, measured: impl ToString, holds: bool) -> Self {
        Self::new(what, paper, measured, f64::from(u8::from(holds))).pass(1.0..)
    }

    /// Names the number of values that were judged. Without any the claim does not hold: nothing was measured.
    pub(crate) fn among(mut self, judged: usize) -> Self {
        if judged == 0 {
            (self.value, self.measured) = (f64::NAN, "nothing to judge".to_owned());
        }
        self
    }

    /// Sets the minimum requirement: `0.5..`, `..=2.0` or `0.5..=2.0`.
    pub(crate) fn pass(mut self, bound: impl Into<Bound>) -> Self {
        self.pass = Some(bound.into());
        self
    }

    /// Sets the goal.
    pub(crate) fn aim(mut self, bound: impl Into<Bound>) -> Self {
        self.aim = Some(bound.into());
        self
    }

    /// Whether the minimum requirement is met, if there is one.
    pub(crate) fn passes(&self) -> Option<bool> {
        self.pass.map(|bound| bound.holds(self.value))
    }

    /// Whether the goal is reached, if there is one.
    pub(crate) fn reaches_aim(&self) -> Option<bool> {
        self.aim.map(|bound| bound.holds(self.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_judges_itself() {
        let claim = Claim::new("UDP over ring, times", "1.6", "2.1", 2.1).pass(1.6..).aim(4.0..);
        assert_eq!((claim.passes(), claim.reaches_aim()), (Some(true), Some(false)));
        assert_eq!(Claim::new("x", "", "", 1.0).passes(), None, "held to nothing");
        assert_eq!(Claim::order("x", "", "", false).passes(), Some(false));
        assert_eq!(Claim::order("x", "", "", true).passes(), Some(true));
    }

    #[test]
    fn a_claim_about_nothing_does_not_hold() {
        let stale = |judged| Claim::count("stale", "", 0).among(judged).pass(..=0.0).passes();
        assert_eq!([stale(1), stale(0)], [Some(true), Some(false)]);
    }

    #[test]
    fn bounds_include_their_ends_and_exclude_what_is_no_number() {
        assert!(Bound::AtMost(1.0).holds(1.0) && Bound::AtLeast(1.0).holds(1.0) && Bound::Within(1.0, 2.0).holds(2.0));
        assert!(
            !Bound::AtMost(1.0).holds(1.1) && !Bound::AtLeast(1.0).holds(0.9) && !Bound::Within(1.0, 2.0).holds(0.9)
        );
        for bound in [Bound::AtMost(1.0), Bound::AtLeast(1.0), Bound::Within(1.0, 2.0)] {
            for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                assert!(!bound.holds(value), "{bound}: {value}");
            }
        }
    }
}
