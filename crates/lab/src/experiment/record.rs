//! Findings as JSON, for programs.

use serde_json::{Value, json};

use super::about::Experiment;
use super::claim::Claim;
use super::findings::Findings;
use super::run::Run;

/// Returns all findings except the plots.
pub(crate) fn record(about: &Experiment, run: &Run<'_>, findings: &Findings) -> Value {
    json!({
        "name": about.name,
        "title": about.title,
        "source": about.source,
        "paper": about.paper,
        "command": about.command(run),
        "form": if run.real { "real" } else { "virtual" },
        "seed": run.seed,
        "seeds": run.seeds,
        "passes": findings.claims.iter().all(|claim| claim.passes() != Some(false)),
        "claims": findings.claims.iter().map(of_claim).collect::<Vec<_>>(),
        "tables": findings.tables,
        "setup": findings.setup,
        "notes": findings.notes,
        "data": findings.data,
    })
}

fn of_claim(claim: &Claim) -> Value {
    json!({
        "what": claim.what,
        "paper": claim.paper,
        "measured": claim.measured,
        "value": claim.value,
        "pass": claim.pass,
        "passes": claim.passes(),
        "aim": claim.aim,
        "reaches_aim": claim.reaches_aim(),
    })
}
