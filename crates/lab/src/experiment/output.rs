//! Findings as text for people, JSON for programs, and Markdown and a section of the page for readers.

use std::fmt::Write;

use serde_json::{Value, json};
use timeous_testbed::report::columns::columns;
use timeous_testbed::report::{Cell, Mark, Page, markdown};

use super::claim::{Bound, Claim};
use super::expected::{ExpectedFailure, expected};
use super::findings::Findings;
use super::run::{Experiment, Run};

/// Returns all findings except the plots as JSON.
pub(crate) fn record(about: &Experiment, run: &Run<'_>, findings: &Findings) -> Value {
    let of_claim = |claim: &Claim| {
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
    };
    let of_expected = |entry: &ExpectedFailure| json!({ "claim": entry.claim, "bound": entry.column, "since": entry.since, "reason": entry.reason });
    json!({
        "name": about.name,
        "title": about.title,
        "source": about.source,
        "paper": about.paper,
        "command": about.command(run),
        "sabotage": run.sabotage.map(|sabotage| sabotage.name),
        "form": if run.real { "real" } else { "virtual" },
        "seed": run.seed,
        "seeds": run.seeds,
        "passes": findings.claims.iter().all(|claim| claim.passes() != Some(false)),
        "claims": findings.claims.iter().map(of_claim).collect::<Vec<_>>(),
        "expected_failures": expected_failures(about, run, findings).map(of_expected).collect::<Vec<_>>(),
        "tables": findings.tables,
        "setup": findings.setup,
        "notes": findings.notes,
        "data": findings.data,
    })
}

/// Title, tables, claims, setup and notes.
pub(crate) fn text(about: &Experiment, run: &Run<'_>, findings: &Findings) -> String {
    let mut out = format!("{}: {}\n{}\n\nThe paper: {}\n", about.name, about.title, source(about, run), about.paper);
    if let Some(sabotage) = run.sabotage {
        let _ = write!(out, "\nSabotage {}: {}\n", sabotage.name, sabotage.what);
    }
    for table in &findings.tables {
        let _ = write!(out, "\n{}\n{}", table.title, columns(&table.head, &table.rows));
    }
    if !findings.claims.is_empty() {
        let rows: Vec<_> = findings.claims.iter().map(of_claim).collect();
        let _ = write!(out, "\nClaims\n{}", columns(&["claim", "measured", "paper", "pass", "aim"], &rows));
    }
    let setup = findings.setup.iter();
    let setup =
        setup.map(|choice| format!("{}: {} ({}: {})", choice.what, choice.value, choice.source.word(), choice.why));
    let expected = expected_failures(about, run, findings).map(sentence);
    let lists =
        [("Expected failures", expected.collect()), ("Setup", setup.collect()), ("Notes", findings.notes.clone())];
    for (title, lines) in lists {
        let lines: String = lines.iter().map(|line| format!("- {line}\n")).collect();
        if !lines.is_empty() {
            let _ = write!(out, "\n{title}\n{lines}");
        }
    }
    out
}

/// Description and claims in Markdown, for the documentation.
pub(crate) fn claims(about: &Experiment, run: &Run<'_>, findings: &Findings) -> String {
    let rows: Vec<_> = findings.claims.iter().map(of_claim).collect();
    let table = markdown::table(&["Claim", "Measured", "Paper", "Pass", "Aim"], &rows);
    let Experiment { name, title, source, paper, .. } = about;
    let expected: Vec<String> =
        expected_failures(about, run, findings).map(|entry| format!("- {}\n", sentence(entry))).collect();
    let expected =
        if expected.is_empty() { String::new() } else { format!("\nExpected failures:\n\n{}", expected.concat()) };
    format!("## {name}: {title}\n{source}; {}. The paper: {paper}\n\n{table}{expected}", seeds(run))
}

/// Returns the expected failures among the claims.
fn expected_failures<'a>(
    about: &'a Experiment,
    run: &Run<'_>,
    findings: &'a Findings,
) -> impl Iterator<Item = &'static ExpectedFailure> + 'a {
    let judged = run.sabotage.is_none();
    expected(about.name, run.real, &findings.claims).filter(move |_| judged)
}

fn sentence(entry: &ExpectedFailure) -> String {
    format!("{} ({}): {} ({})", entry.claim, entry.column.name(), entry.reason, entry.since)
}

/// Writes a section of the page; `data` is the name of the raw data file.
pub(crate) fn section(page: &mut Page, about: &Experiment, run: &Run<'_>, findings: &Findings, data: &str) {
    page.paragraph(&format!("{}.", source(about, run)));
    page.paragraph(&format!("The paper: {}", about.paper));
    if !findings.claims.is_empty() {
        let cells = |claim: &Claim| -> Vec<Cell> {
            let judged = [claim.passes(), claim.reaches_aim()].map(|holds| match holds {
                Some(true) => Mark::Good,
                Some(false) => Mark::Bad,
                None => Mark::Plain,
            });
            let marks = [Mark::Text; 3].into_iter().chain(judged);
            of_claim(claim).into_iter().zip(marks).map(|(text, mark)| Cell { text, mark }).collect()
        };
        let rows: Vec<_> = findings.claims.iter().map(cells).collect();
        page.cells(&["claim", "measured", "paper", "pass", "aim"], &rows);
        for entry in expected_failures(about, run, findings) {
            page.paragraph(&format!("Expected failure: {}", sentence(entry)));
        }
    }
    for figure in &findings.figures {
        page.figure(&figure.svg, &figure.caption);
    }
    for table in &findings.tables {
        page.subheading(&table.title);
        page.table(&table.head, &table.rows);
    }
    for note in &findings.notes {
        page.paragraph(note);
    }
    if !findings.setup.is_empty() {
        page.subheading("Setup");
        let rows = findings.setup.iter();
        let rows =
            rows.map(|c| [c.what.as_str(), &c.value, c.source.word(), &c.why].map(|text| Cell::new(text, Mark::Text)));
        page.cells(&["what", "chosen", "by", "why, or where"], &rows.map(Vec::from).collect::<Vec<_>>());
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
        match judged.len() {
            0 => Cell::new("–", Mark::Plain),
            all => Cell::new(&format!("{held} of {all}"), if held == all { Mark::Good } else { Mark::Bad }),
        }
    };
    vec![Cell::new(name, Mark::Name), count(Claim::passes), count(Claim::reaches_aim)]
}

fn source(about: &Experiment, run: &Run<'_>) -> String {
    let form = if run.real { "on this machine's kernel" } else { "in virtual time" };
    format!("{}; {form}, {}", about.source, seeds(run))
}

fn seeds(run: &Run<'_>) -> String {
    match run.seeds {
        0 | 1 => format!("seed {}", run.seed),
        n => format!("seeds {} to {}", run.seed, run.seed.wrapping_add(u64::from(n) - 1)),
    }
}

fn of_claim(claim: &Claim) -> Vec<String> {
    let judged = |bound: Option<Bound>, holds: Option<bool>| {
        let (Some(bound), Some(holds)) = (bound, holds) else { return "–".to_owned() };
        // A claim that is true or false has the bound "at least 1".
        let bound = if bound == Bound::AtLeast(1.0) { String::new() } else { format!(" ({bound})") };
        format!("{}{bound}", if holds { "yes" } else { "NO" })
    };
    let [pass, aim] = [judged(claim.pass, claim.passes()), judged(claim.aim, claim.reaches_aim())];
    vec![claim.what.clone(), claim.measured.clone(), claim.paper.clone(), pass, aim]
}
