//! Expected failures: bounds that are known not to hold, each with its reason, from `expected_failures.csv`.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::claim::Claim;

/// One of a claim's bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Column {
    /// Minimum requirement.
    Pass,
    /// Goal.
    Aim,
}

impl Column {
    /// Head of the column.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Aim => "aim",
        }
    }

    /// Whether the claim keeps this bound, if it has one.
    fn holds(self, claim: &Claim) -> Option<bool> {
        match self {
            Self::Pass => claim.passes(),
            Self::Aim => claim.reaches_aim(),
        }
    }
}

/// Form of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Form {
    /// With seed 1 and the number of seeds of its snapshot.
    Virtual,
    /// With seed 1 and all seeds and cells, as `timeous-lab all` runs it: of a claim that only such a run has, or that holds in the
    /// snapshot's.
    Full,
    /// On this machine's kernel, where measurements vary: a bound may hold in some runs.
    Real,
}

/// Run whose claims are compared with the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// As for its snapshot: entries of full runs may hold, or name no claim.
    Snapshot,
    /// With all seeds and cells: entries of snapshots may hold.
    Full,
    /// On this machine's kernel: all entries may hold.
    Real,
}

/// Bound that an experiment is known not to keep.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct ExpectedFailure {
    form: Form,
    experiment: String,
    /// Bound that is not kept.
    #[serde(rename = "bound")]
    pub(crate) column: Column,
    /// Date of the entry.
    pub(crate) since: String,
    /// Text of the claim.
    pub(crate) claim: String,
    /// Cause of the failure, or what is known of it; also whether a bound is not kept with one seed only.
    pub(crate) reason: String,
}

static EXPECTED: LazyLock<Vec<ExpectedFailure>> = LazyLock::new(|| read(include_str!("../../expected_failures.csv")));

fn read(list: &str) -> Vec<ExpectedFailure> {
    let entries = csv::Reader::from_reader(list.as_bytes()).into_deserialize().collect::<Result<_, _>>();
    entries.expect("the list is a part of this program")
}

impl ExpectedFailure {
    fn is_of(&self, experiment: &str, real: bool) -> bool {
        self.experiment == experiment && (self.form == Form::Real) == real
    }

    /// Whether the bound of this entry is among the claims and not kept.
    fn failed(&self, claims: &[Claim]) -> bool {
        claims.iter().any(|claim| claim.what == self.claim && self.column.holds(claim) == Some(false))
    }
}

/// Returns the entries for bounds that these claims do not keep; `real`: on this machine's kernel.
pub(crate) fn expected<'a>(
    experiment: &'a str,
    real: bool,
    claims: &'a [Claim],
) -> impl Iterator<Item = &'static ExpectedFailure> + 'a {
    EXPECTED.iter().filter(move |entry| entry.is_of(experiment, real) && entry.failed(claims))
}

/// Compares the claims of an experiment with the list. Returns a line for each bound that is not kept and not listed, and for each entry
/// of runs of this form whose bound does not exist, or in virtual time is kept: on a real kernel measurements vary.
pub(crate) fn surprises(experiment: &str, run: Compared, claims: &[Claim]) -> Vec<String> {
    surprises_of(&EXPECTED, experiment, run, claims)
}

fn surprises_of(list: &[ExpectedFailure], experiment: &str, run: Compared, claims: &[Claim]) -> Vec<String> {
    let is_real = run == Compared::Real;
    let (known, rest): (Vec<_>, Vec<_>) =
        list.iter().filter(|entry| entry.is_of(experiment, is_real)).partition(|entry| entry.failed(claims));
    let bounds = claims.iter().flat_map(|claim| [Column::Pass, Column::Aim].map(|column| (claim, column)));
    let broken = bounds.filter(|(claim, column)| column.holds(claim) == Some(false));
    let unlisted = broken
        .filter(|(claim, column)| !known.iter().any(|entry| entry.claim == claim.what && entry.column == *column));
    let unlisted = unlisted.map(|(claim, column)| {
        let (what, measured, column) = (&claim.what, &claim.measured, column.name());
        format!("does not hold ({column}), and is not in the list of expected failures: {what}: {measured}")
    });
    let stale = rest.into_iter().filter_map(|entry| {
        let is_of_run = (entry.form == Form::Full) == (run == Compared::Full);
        let state = match claims.iter().find(|claim| claim.what == entry.claim) {
            Some(claim) if entry.column.holds(claim).is_some() => (!is_real && is_of_run).then_some("holds again")?,
            Some(_) => "has no such bound",
            None if !is_of_run => return None,
            None => "is no claim",
        };
        Some(format!("{state} ({}), and is in the list of expected failures: {}", entry.column.name(), entry.claim))
    });
    unlisted.chain(stale).collect()
}

/// Returns the experiments of the entries in virtual time.
#[cfg(test)]
pub(crate) fn virtual_experiments() -> impl Iterator<Item = &'static str> {
    EXPECTED.iter().filter(|entry| entry.form == Form::Virtual).map(|entry| entry.experiment.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "form,experiment,bound,since,claim,reason\n\
        virtual,e,aim,2026-11-27,age,r\nvirtual,e,pass,2026-11-27,rate,r\nreal,e,pass,2026-11-27,age,r\n";

    fn claim(what: &str, value: f64) -> Claim {
        Claim::number(what, "", 0, value).pass(1.0..).aim(2.0..)
    }

    #[test]
    fn a_failure_that_is_not_listed_and_an_entry_that_holds_are_surprises() {
        let said = |claims: &[Claim]| surprises_of(&read(LIST), "e", Compared::Snapshot, claims);
        assert!(said(&[claim("age", 1.0), Claim::number("rate", "", 0, 0.0).pass(1.0..)]).is_empty());
        assert_eq!(
            said(&[claim("age", 0.0), Claim::number("rate", "", 0, 1.0).pass(1.0..)]),
            [
                "does not hold (pass), and is not in the list of expected failures: age: 0",
                "holds again (pass), and is in the list of expected failures: rate",
            ]
        );
        assert_eq!(said(&[Claim::number("age", "", 0, 0.0)]).len(), 2, "one has no bound, the other is no claim");
        assert!(surprises_of(&read(LIST), "another", Compared::Snapshot, &[]).is_empty());
    }

    #[test]
    fn an_entry_of_full_runs_is_compared_with_them_alone() {
        let list = read(
            "form,experiment,bound,since,claim,reason\nfull,e,pass,2026-11-28,age,r\nvirtual,e,pass,2026-11-28,rate,r\n",
        );
        let said = |run, value, of| {
            let claims = [Claim::number("age", "", 0, value).pass(1.0..), Claim::number("rate", "", 0, of).pass(1.0..)];
            surprises_of(&list, "e", run, &claims)
        };
        assert!(said(Compared::Snapshot, 1.0, 0.0).is_empty() && said(Compared::Snapshot, 0.0, 0.0).is_empty());
        assert!(said(Compared::Full, 0.0, 0.0).is_empty() && said(Compared::Full, 0.0, 1.0).is_empty());
        let [snapshot, full] = [Compared::Snapshot, Compared::Full].map(|run| said(run, 1.0, 1.0));
        assert_eq!(snapshot, ["holds again (pass), and is in the list of expected failures: rate"]);
        assert_eq!(full, ["holds again (pass), and is in the list of expected failures: age"]);
        let missing = |run| surprises_of(&list[..1], "e", run, &[]).len();
        assert_eq!([Compared::Snapshot, Compared::Full].map(missing), [0, 1]);
    }

    #[test]
    fn on_a_real_kernel_an_entry_may_hold() {
        let said = |claims: &[Claim]| surprises_of(&read(LIST), "e", Compared::Real, claims);
        assert!(said(&[claim("age", 2.0)]).is_empty());
        assert_eq!(said(&[claim("age", 2.0), claim("another", 0.0)]).len(), 2, "both of its bounds");
    }

    #[test]
    fn every_entry_has_a_date_and_a_reason_and_stands_once() {
        for (index, entry) in EXPECTED.iter().enumerate() {
            let date: Vec<&str> = entry.since.split('-').collect();
            let digits = date.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
            assert!(digits && date.iter().map(|part| part.len()).eq([4, 2, 2]), "{entry:?}");
            assert!(!entry.reason.is_empty(), "{entry:?}");
            let same = |other: &ExpectedFailure| {
                other.is_of(&entry.experiment, entry.form == Form::Real)
                    && (&other.claim, other.column) == (&entry.claim, entry.column)
            };
            assert!(!EXPECTED[..index].iter().any(same), "{entry:?} stands twice");
        }
    }
}
