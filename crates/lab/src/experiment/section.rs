//! Findings as a section of the HTML page.

use super::about::Experiment;
use super::claim::{Bound, Claim};
use super::findings::Findings;
use super::run::Run;
use super::text::{seeds, verdict};
use crate::report::{Cell, Mark, Page};

/// Writes the section; `data` is the name of the raw data file.
pub(crate) fn section(page: &mut Page, about: &Experiment, run: &Run<'_>, findings: &Findings, data: &str) {
    let form = if run.real { "on this machine's kernel" } else { "in virtual time" };
    page.paragraph(&format!("{}; {form}, {}.", about.source, seeds(run)));
    page.paragraph(&format!("The paper: {}", about.paper));
    if !findings.claims.is_empty() {
        page.cells(
            &["claim", "measured", "paper", "pass", "aim"],
            &findings.claims.iter().map(of_claim).collect::<Vec<_>>(),
        );
    }
    for figure in &findings.figures {
        page.figure(&figure.svg, &figure.caption);
    }
    for table in &findings.tables {
        page.subheading(&table.title);
        page.table(&table.head.iter().map(String::as_str).collect::<Vec<_>>(), &table.rows);
    }
    for note in &findings.notes {
        page.paragraph(note);
    }
    if !findings.setup.is_empty() {
        page.subheading("Setup");
        let text = |text: &str| Cell { text: text.to_owned(), mark: Mark::Text };
        let rows = findings.setup.iter();
        let rows: Vec<_> =
            rows.map(|c| [c.what.as_str(), &c.value, c.source.word(), &c.why].map(text).to_vec()).collect();
        page.cells(&["what", "chosen", "by", "why, or where"], &rows);
    }
    page.subheading("Again");
    page.listing(&about.command(run));
    page.link(data, "The measurements as JSON");
}

/// Row of the overview: number of claims that hold.
pub(crate) fn summary(name: &str, findings: &Findings) -> Vec<Cell> {
    let count = |judge: fn(&Claim) -> Option<bool>| {
        let judged: Vec<bool> = findings.claims.iter().filter_map(judge).collect();
        let held = judged.iter().filter(|&&held| held).count();
        let mark = if held == judged.len() { Mark::Good } else { Mark::Bad };
        if judged.is_empty() {
            Cell { text: "–".to_owned(), mark: Mark::Plain }
        } else {
            Cell { text: format!("{held} of {}", judged.len()), mark }
        }
    };
    vec![Cell { text: name.to_owned(), mark: Mark::Name }, count(Claim::passes), count(Claim::reaches_aim)]
}

fn of_claim(claim: &Claim) -> Vec<Cell> {
    let cell = |text: &str, mark| Cell { text: text.to_owned(), mark };
    let judged = |bound: Option<Bound>, holds: Option<bool>| match (verdict(bound, holds), holds) {
        (Some(text), Some(true)) => Cell { text, mark: Mark::Good },
        (Some(text), _) => Cell { text, mark: Mark::Bad },
        (None, _) => Cell { text: "–".to_owned(), mark: Mark::Plain },
    };
    vec![
        cell(&claim.what, Mark::Text),
        cell(&claim.measured, Mark::Text),
        cell(&claim.paper, Mark::Text),
        judged(claim.pass, claim.passes()),
        judged(claim.aim, claim.reaches_aim()),
    ]
}
