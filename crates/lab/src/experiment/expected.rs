//! Expected failures: bounds that do not hold today, each with its reason.

use super::claim::Claim;
use super::expected_failures::{Column, EXPECTED, ExpectedFailure};

impl Column {
    const ALL: [Self; 2] = [Self::Pass, Self::Aim];

    /// Whether the claim keeps this bound, if it has one.
    fn holds(self, claim: &Claim) -> Option<bool> {
        match self {
            Self::Pass => claim.passes(),
            Self::Aim => claim.reaches_aim(),
        }
    }
}

/// Returns the entries for bounds that these claims do not keep.
pub(crate) fn expected<'a>(
    experiment: &'a str,
    claims: &'a [Claim],
) -> impl Iterator<Item = &'static ExpectedFailure> + 'a {
    expected_of(EXPECTED, experiment, claims)
}

fn expected_of<'a>(
    list: &'static [ExpectedFailure],
    experiment: &'a str,
    claims: &'a [Claim],
) -> impl Iterator<Item = &'static ExpectedFailure> + 'a {
    let failed = |entry: &ExpectedFailure| {
        claims.iter().any(|claim| claim.what == entry.claim && entry.column.holds(claim) == Some(false))
    };
    list.iter().filter(move |entry| entry.experiment == experiment && failed(entry))
}

/// Compares the claims of an experiment with the list. Returns a line for each bound that is not kept and not listed,
/// and for each entry whose bound is kept or does not exist.
pub(crate) fn surprises(experiment: &str, claims: &[Claim]) -> Vec<String> {
    surprises_of(EXPECTED, experiment, claims)
}

fn surprises_of(list: &'static [ExpectedFailure], experiment: &str, claims: &[Claim]) -> Vec<String> {
    let known: Vec<&ExpectedFailure> = expected_of(list, experiment, claims).collect();
    let bounds = claims.iter().flat_map(|claim| Column::ALL.map(|column| (claim, column)));
    let broken = bounds.filter(|(claim, column)| column.holds(claim) == Some(false));
    let unlisted = broken
        .filter(|(claim, column)| !known.iter().any(|entry| entry.claim == claim.what && entry.column == *column));
    let unlisted = unlisted.map(|(claim, column)| {
        let (what, measured, column) = (&claim.what, &claim.measured, column.name());
        format!("does not hold ({column}), and is not in the list of expected failures: {what}: {measured}")
    });
    let entries = list.iter().filter(|entry| entry.experiment == experiment && !known.contains(entry));
    let stale = entries.map(|entry| {
        let state = match claims.iter().find(|claim| claim.what == entry.claim) {
            Some(claim) if entry.column.holds(claim).is_some() => "holds again",
            Some(_) => "has no such bound",
            None => "is no claim",
        };
        format!("{state} ({}), and is in the list of expected failures: {}", entry.column.name(), entry.claim)
    });
    unlisted.chain(stale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn entry(claim: &'static str, column: Column) -> ExpectedFailure {
        ExpectedFailure { experiment: "e", claim, column, since: "2026-11-27", reason: "r" }
    }

    const LIST: [ExpectedFailure; 2] = [entry("age", Column::Aim), entry("rate", Column::Pass)];

    #[test]
    fn a_failure_that_is_not_listed_and_an_entry_that_holds_are_surprises() {
        let claim = |what: &str, value| Claim::number(what, "", 0, value).pass(1.0..).aim(2.0..);
        let said = |claims: &[Claim]| surprises_of(&LIST, "e", claims);
        assert!(said(&[claim("age", 1.0), Claim::number("rate", "", 0, 0.0).pass(1.0..)]).is_empty());
        assert_eq!(
            said(&[claim("age", 0.0), Claim::number("rate", "", 0, 1.0).pass(1.0..)]),
            [
                "does not hold (pass), and is not in the list of expected failures: age: 0",
                "holds again (pass), and is in the list of expected failures: rate",
            ]
        );
        assert_eq!(said(&[Claim::number("age", "", 0, 0.0)]).len(), 2, "one has no bound, the other is no claim");
        assert!(surprises_of(&LIST, "another", &[]).is_empty());
    }

    #[test]
    fn every_entry_has_a_date_and_a_reason_and_stands_once() {
        for (index, entry) in EXPECTED.iter().enumerate() {
            let date: Vec<&str> = entry.since.split('-').collect();
            let digits = date.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
            assert!(digits && date.iter().map(|part| part.len()).eq([4, 2, 2]), "{entry:?}");
            assert!(!entry.reason.is_empty(), "{entry:?}");
            let same = |other: &ExpectedFailure| {
                (other.experiment, other.claim, other.column) == (entry.experiment, entry.claim, entry.column)
            };
            assert!(!EXPECTED[..index].iter().any(same), "{entry:?} stands twice");
        }
    }
}
