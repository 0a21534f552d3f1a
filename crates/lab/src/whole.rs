//! Report of many experiments: one page with a section for each, and their data beside it.

use std::fs;
use std::path::PathBuf;

use timeous_testbed::report::{Cell, Mark, Page};

use crate::experiment::{self, Compared, Experiment, Extent, Findings, Progress, Run, RunError};

/// Runs every experiment and writes a page with all that was found
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct AllArgs {
    /// Experiments; all without any
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Where the page and the data go
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// First seed of the experiments' randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Also on this machine's kernel, where an experiment can
    #[arg(long)]
    real: bool,
    /// Fail only if the list of expected failures is not exact for these runs; it is for seed 1
    #[arg(long)]
    strict: bool,
}

/// Outcome of one experiment in one form.
struct Outcome<'a> {
    about: &'a Experiment,
    run: Run<'a>,
    result: Result<Findings, RunError>,
}

impl Outcome<'_> {
    /// Identifier on the page and in file names.
    fn id(&self) -> String {
        format!("{}{}", self.about.name, if self.run.real { "-real" } else { "" })
    }

    fn heading(&self) -> String {
        let form = if self.run.real { ", for real" } else { "" };
        format!("{}{form}: {}", self.about.name, self.about.title)
    }
}

/// Runs the experiments, also on this machine's kernel if wanted. Returns the exit code: 0, 1 if a bound is broken (strict: if the list of
/// expected failures is not exact), 4 if an experiment could not be run. Experiments that this build lacks are reported as left out, which
/// is no failure.
///
/// # Errors
/// [`RunError::File`] if the report cannot be written, [`RunError::Usage`] if a name is unknown.
pub(crate) fn run(experiments: &[Experiment], args: &AllArgs, progress: &Progress) -> Result<u8, RunError> {
    let AllArgs { names, out, seed, real, strict } = args;
    let (seed, real) = (*seed, *real);
    if let Some(name) = names.iter().find(|name| !experiments.iter().any(|about| about.name == *name)) {
        let why = format!("{name:?} is no experiment: `timeous-lab list` has the names");
        return Err(RunError::Usage(why));
    }
    fs::create_dir_all(out).map_err(RunError::file(out))?;
    let forms = || [false, true].into_iter().filter(|form| real || !form);
    let wanted: Vec<_> = experiments
        .iter()
        .filter(|about| names.is_empty() || names.iter().any(|name| name == about.name))
        .flat_map(|experiment| forms().map(move |form| (experiment, form)))
        .filter(|(experiment, form)| experiment.forms.include(*form))
        .collect();
    let mut outcomes = Vec::new();
    for (index, (experiment, form)) in wanted.iter().enumerate() {
        let about: &Experiment = experiment;
        let outcome = {
            let run = Run {
                seed,
                seeds: about.seeds_of(*form),
                real: *form,
                extent: Extent::Usual,
                sabotage: None,
                progress,
            };
            let place = format!("{} of {}: {}", index + 1, wanted.len(), about.name);
            progress.say(&format!("{place}{} ({})", if *form { " --real" } else { "" }, about.takes));
            Outcome { about, run, result: (experiment.run)(&run) }
        };
        if let Ok(findings) = &outcome.result {
            let path = out.join(format!("{}.json", outcome.id()));
            let record = experiment::record(about, &outcome.run, findings);
            fs::write(&path, pretty(&record)).map_err(RunError::file(&path))?;
        }
        outcomes.push(outcome);
    }
    let path = out.join("claims.md");
    fs::write(&path, claims(&outcomes, seed)).map_err(RunError::file(&path))?;
    let path = out.join("index.html");
    fs::write(&path, page(&outcomes, seed, real)).map_err(RunError::file(&path))?;
    outcomes.iter().for_each(print_outcome);
    let code = |outcome| if *strict { strict_code(outcome) } else { code(outcome) };
    Ok(outcomes.iter().map(code).max().unwrap_or(0))
}

/// Formats JSON for readers.
pub(crate) fn pretty(record: &serde_json::Value) -> String {
    let mut text = serde_json::to_string_pretty(record).expect("names, numbers and texts are JSON");
    text.push('\n');
    text
}

/// Describes the claims whose bound is broken.
pub(crate) fn broken(findings: &Findings) -> impl Iterator<Item = String> {
    let broken = findings.claims.iter().filter(|claim| claim.passes() == Some(false));
    broken.map(|claim| {
        let bound = claim.pass.map_or_else(String::new, |bound| bound.to_string());
        format!("{}: {} (must be {bound})", claim.what, claim.measured)
    })
}

/// Returns the exit code of one experiment.
fn code(outcome: &Outcome<'_>) -> u8 {
    match &outcome.result {
        Ok(findings) => u8::from(broken(findings).next().is_some()),
        Err(RunError::LeftOut(_)) => 0,
        Err(error) => error.exit_code(),
    }
}

/// Prints what differs from the list of expected failures, and returns the exit code.
fn strict_code(outcome: &Outcome<'_>) -> u8 {
    let Ok(findings) = &outcome.result else { return code(outcome) };
    let compared = if outcome.run.real { Compared::Real } else { Compared::Full };
    let surprises = experiment::surprises(outcome.about.name, compared, &findings.claims);
    surprises.iter().for_each(|line| eprintln!("{}: {line}", outcome.id()));
    u8::from(!surprises.is_empty())
}

fn print_outcome(outcome: &Outcome<'_>) {
    match &outcome.result {
        Ok(findings) => {
            let broken: Vec<String> = broken(findings).collect();
            println!("{:<24}{}", outcome.id(), if broken.is_empty() { "holds" } else { "does not hold" });
            broken.iter().for_each(|claim| eprintln!("{}: does not hold: {claim}", outcome.id()));
        }
        Err(RunError::LeftOut(why)) => println!("{:<24}left out: {why}", outcome.id()),
        Err(error) => {
            println!("{:<24}could not be run", outcome.id());
            eprintln!("{}: {error}", outcome.id());
        }
    }
}

fn page(outcomes: &[Outcome<'_>], seed: u64, real: bool) -> String {
    let mut page = Page::new("The papers' experiments, repeated by Timeous");
    page.paragraph(
        "Each section is one experiment of a paper: what the paper reports beside what was measured here, whether that is \
         enough (pass) and whether it is as good as we want it (aim), the figures, and every choice that was made. \
         What ran in virtual time comes out the same, byte for byte, on every machine.",
    );
    page.contents(&outcomes.iter().map(|outcome| (outcome.id(), outcome.heading())).collect::<Vec<_>>());
    let rows: Vec<Vec<Cell>> = outcomes.iter().map(row).collect();
    page.cells(&["experiment", "claims that pass", "aims that are reached"], &rows);
    for outcome in outcomes {
        let id = outcome.id();
        page.section(&id, &outcome.heading());
        match &outcome.result {
            Ok(findings) => {
                experiment::section(&mut page, outcome.about, &outcome.run, findings, &format!("{id}.json"));
            }
            Err(RunError::LeftOut(why)) => {
                page.paragraph(&format!("It was left out: {why}."));
            }
            Err(error) => {
                page.paragraph(&format!("It could not be run: {error}."));
            }
        }
    }
    page.heading("All of it again");
    page.listing(&format!(
        "cargo build --release -p timeous-cli -p timeous-lab\n\
         target/release/timeous-lab all --seed {seed}{} --out report",
        if real { " --real" } else { "" }
    ));
    page.html()
}

/// Formats all claims in Markdown, for the documentation.
fn claims(outcomes: &[Outcome<'_>], seed: u64) -> String {
    let known = outcomes.iter().filter_map(|outcome| {
        let findings = outcome.result.as_ref().ok().filter(|findings| !findings.claims.is_empty())?;
        Some(experiment::claims(outcome.about, &outcome.run, findings))
    });
    format!(
        "# Claims of the papers' experiments\n\n`timeous-lab all --seed {seed} --out report` writes this page \
         (`report/claims.md`), and plots, tables and the set-up of each run beside it. *Pass* is the bound that a claim \
         must keep, *aim* the one that we would like; the experiments are described [here](papers.md).\n\n{}",
        known.collect::<Vec<_>>().join("\n")
    )
}

fn row(outcome: &Outcome<'_>) -> Vec<Cell> {
    match &outcome.result {
        Ok(findings) => experiment::summary(&outcome.id(), findings),
        Err(error) => {
            let (what, mark) = match error {
                RunError::LeftOut(_) => ("left out", Mark::Plain),
                _ => ("not run", Mark::Bad),
            };
            vec![Cell::new(&outcome.id(), Mark::Plain), Cell::new(what, mark), Cell::new(what, mark)]
        }
    }
}
