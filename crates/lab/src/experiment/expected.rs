//! Expected failures: bounds that do not hold today, each with its reason.

use super::claim::Claim;
use super::expected_failures::{Column, EXPECTED, ExpectedFailure};
use super::expected_real_failures::EXPECTED_REAL;

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

/// Returns the entries for bounds that these claims do not keep; `real`: on this machine's kernel.
pub(crate) fn expected<'a>(
    experiment: &'a str,
    real: bool,
    claims: &'a [Claim],
) -> impl Iterator<Item = &'static ExpectedFailure> + 'a {
    expected_of(if real { EXPECTED_REAL } else { EXPECTED }, experiment, claims)
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
/// and for each entry whose bound does not exist, or in virtual time is kept: on a real kernel measurements vary.
pub(crate) fn surprises(experiment: &str, real: bool, claims: &[Claim]) -> Vec<String> {
    surprises_of(if real { EXPECTED_REAL } else { EXPECTED }, real, experiment, claims)
}

fn surprises_of(list: &'static [ExpectedFailure], may_hold: bool, experiment: &str, claims: &[Claim]) -> Vec<String> {
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
    let stale = entries.filter_map(|entry| {
        let state = match claims.iter().find(|claim| claim.what == entry.claim) {
            Some(claim) if entry.column.holds(claim).is_some() => (!may_hold).then_some("holds again")?,
            Some(_) => "has no such bound",
            None => "is no claim",
        };
        Some(format!("{state} ({}), and is in the list of expected failures: {}", entry.column.name(), entry.claim))
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
        let said = |claims: &[Claim]| surprises_of(&LIST, false, "e", claims);
        assert!(said(&[claim("age", 1.0), Claim::number("rate", "", 0, 0.0).pass(1.0..)]).is_empty());
        assert_eq!(
            said(&[claim("age", 0.0), Claim::number("rate", "", 0, 1.0).pass(1.0..)]),
            [
                "does not hold (pass), and is not in the list of expected failures: age: 0",
                "holds again (pass), and is in the list of expected failures: rate",
            ]
        );
        assert_eq!(said(&[Claim::number("age", "", 0, 0.0)]).len(), 2, "one has no bound, the other is no claim");
        assert!(surprises_of(&LIST, false, "another", &[]).is_empty());
    }

    #[test]
    fn on_a_real_kernel_an_entry_may_hold() {
        let listed = EXPECTED_REAL[0];
        let others = EXPECTED_REAL.iter().filter(|entry| entry.experiment == listed.experiment && **entry != listed);
        let mut claims: Vec<Claim> = others
            .map(|entry| match entry.column {
                Column::Pass => Claim::number(entry.claim, "", 0, 0.0).pass(1.0..),
                Column::Aim => Claim::number(entry.claim, "", 0, 0.0).aim(1.0..),
            })
            .collect();
        claims.push(Claim::number(listed.claim, "", 0, 1.0).pass(1.0..));
        assert_eq!(surprises(listed.experiment, true, &claims), [""; 0]);
        claims.push(Claim::number("another", "", 0, 0.0).pass(1.0..));
        assert_eq!(surprises(listed.experiment, true, &claims).len(), 1);
    }

    #[test]
    fn every_entry_has_a_date_and_a_reason_and_stands_once() {
        for (list, index, entry) in [EXPECTED, EXPECTED_REAL]
            .into_iter()
            .flat_map(|list| list.iter().enumerate().map(move |(index, entry)| (list, index, entry)))
        {
            let date: Vec<&str> = entry.since.split('-').collect();
            let digits = date.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
            assert!(digits && date.iter().map(|part| part.len()).eq([4, 2, 2]), "{entry:?}");
            assert!(!entry.reason.is_empty(), "{entry:?}");
            let same = |other: &ExpectedFailure| {
                (other.experiment, other.claim, other.column) == (entry.experiment, entry.claim, entry.column)
            };
            assert!(!list[..index].iter().any(same), "{entry:?} stands twice");
        }
    }
}
