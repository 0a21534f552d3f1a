//! A claim: measured value, the paper's result, and bounds.

use std::fmt;

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
    /// Whether the value is within the bound. NaN never is.
    pub(crate) fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
            Self::Within(least, most) => (least..=most).contains(&value),
        }
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
    pub(crate) fn new(what: &str, paper: &str, measured: impl Into<String>, value: f64) -> Self {
        let (what, paper, measured) = (what.to_owned(), paper.to_owned(), measured.into());
        Self { what, paper, measured, value, pass: None, aim: None }
    }

    /// Creates a claim that is true or false, such as an order of several values.
    pub(crate) fn order(what: &str, paper: &str, measured: impl Into<String>, holds: bool) -> Self {
        Self::new(what, paper, measured, f64::from(u8::from(holds))).pass(Bound::AtLeast(1.0))
    }

    /// Sets the minimum requirement.
    pub(crate) fn pass(mut self, bound: Bound) -> Self {
        self.pass = Some(bound);
        self
    }

    /// Sets the goal.
    pub(crate) fn aim(mut self, bound: Bound) -> Self {
        self.aim = Some(bound);
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
        let claim =
            Claim::new("UDP over ring, times", "1.6", "2.1", 2.1).pass(Bound::AtLeast(1.6)).aim(Bound::AtLeast(4.0));
        assert_eq!((claim.passes(), claim.reaches_aim()), (Some(true), Some(false)));
        assert_eq!(Claim::new("x", "", "", 1.0).passes(), None, "held to nothing");
        assert_eq!(Claim::order("x", "", "", false).passes(), Some(false));
        assert_eq!(Claim::order("x", "", "", true).passes(), Some(true));
    }

    #[test]
    fn bounds_include_their_ends_and_exclude_what_is_no_number() {
        assert!(Bound::AtMost(1.0).holds(1.0) && Bound::AtLeast(1.0).holds(1.0) && Bound::Within(1.0, 2.0).holds(2.0));
        assert!(
            !Bound::AtMost(1.0).holds(1.1) && !Bound::AtLeast(1.0).holds(0.9) && !Bound::Within(1.0, 2.0).holds(0.9)
        );
        for bound in [Bound::AtMost(1.0), Bound::AtLeast(1.0), Bound::Within(1.0, 2.0)] {
            assert!(!bound.holds(f64::NAN), "{bound}");
        }
    }
}
