//! Findings as text, for people.

use std::fmt::Write;

use super::about::Experiment;
use super::claim::{Bound, Claim};
use super::findings::Findings;
use super::run::Run;
use crate::report::columns::columns;
use crate::report::markdown;

/// Title, tables, claims, setup and notes.
pub(crate) fn text(about: &Experiment, run: &Run<'_>, findings: &Findings) -> String {
    let mut out = String::new();
    let form = if run.real { "on this machine's kernel" } else { "in virtual time" };
    let _ = writeln!(out, "{}: {}", about.name, about.title);
    let _ = writeln!(out, "{}; {form}, {}", about.source, seeds(run));
    let _ = writeln!(out, "\nThe paper: {}", about.paper);
    for table in &findings.tables {
        let head: Vec<&str> = table.head.iter().map(String::as_str).collect();
        let _ = write!(out, "\n{}\n{}", table.title, columns(&head, &table.rows));
    }
    if !findings.claims.is_empty() {
        let rows: Vec<_> = findings.claims.iter().map(of_claim).collect();
        let _ = write!(out, "\nClaims\n{}", columns(&["claim", "measured", "paper", "pass", "aim"], &rows));
    }
    if !findings.setup.is_empty() {
        out.push_str("\nSetup\n");
        for choice in &findings.setup {
            let _ = writeln!(out, "- {}: {} ({}: {})", choice.what, choice.value, choice.source.word(), choice.why);
        }
    }
    if !findings.notes.is_empty() {
        out.push_str("\nNotes\n");
        for note in &findings.notes {
            let _ = writeln!(out, "- {note}");
        }
    }
    out
}

/// Describes the seeds.
pub(super) fn seeds(run: &Run<'_>) -> String {
    match run.seeds {
        0 | 1 => format!("seed {}", run.seed),
        n => format!("seeds {} to {}", run.seed, run.seed.wrapping_add(u64::from(n) - 1)),
    }
}

/// Description and claims in Markdown, for the documentation.
pub(crate) fn markdown(about: &Experiment, run: &Run<'_>, findings: &Findings) -> String {
    let rows: Vec<_> = findings.claims.iter().map(of_claim).collect();
    format!(
        "## {}: {}\n{}; {}. The paper: {}\n\n{}",
        about.name,
        about.title,
        about.source,
        seeds(run),
        about.paper,
        markdown::table(&["Claim", "Measured", "Paper", "Pass", "Aim"], &rows)
    )
}

fn of_claim(claim: &Claim) -> Vec<String> {
    let judged = |bound: Option<Bound>, holds| verdict(bound, holds).unwrap_or_else(|| "–".to_owned());
    vec![
        claim.what.clone(),
        claim.measured.clone(),
        claim.paper.clone(),
        judged(claim.pass, claim.passes()),
        judged(claim.aim, claim.reaches_aim()),
    ]
}

/// Describes a bound and whether it holds.
pub(super) fn verdict(bound: Option<Bound>, holds: Option<bool>) -> Option<String> {
    let (bound, holds) = (bound?, holds?);
    // A claim that is true or false has the bound "at least 1".
    let bound = if bound == Bound::AtLeast(1.0) { String::new() } else { format!(" ({bound})") };
    Some(format!("{}{bound}", if holds { "yes" } else { "NO" }))
}
