//! Proof that the experiments can fail: each sabotage is run, and the claims that it breaks are printed.

use crate::experiment::{Experiment, Extent, Progress, Run, RunError, Sabotage};

/// Breaks experiments on purpose, and shows which of their claims fall
///
/// Each is run with one seed and as few cells as it has: first as it is, then with each of its sabotages. Exit code 1:
/// a claim still holds that has to fall.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct SabotagesArgs {
    /// Experiments, those in virtual time or real ones with sabotages; all in virtual time without any
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Only list the sabotages and the claims that have to fall
    #[arg(long)]
    list: bool,
    /// Seed of the experiments' randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Runs or lists the sabotages. Returns whether all listed claims fell.
///
/// # Errors
/// [`RunError`] if an experiment is unknown or could not be run.
pub(crate) fn run(experiments: &[Experiment], args: &SabotagesArgs) -> Result<bool, RunError> {
    let known = || experiments.iter().filter(|about| !about.is_only_real() || !about.sabotages.is_empty());
    if let Some(name) = args.names.iter().find(|name| !known().any(|about| about.name == *name)) {
        let why = format!("{name:?} is no experiment in virtual time: `timeous-lab list` has the names");
        return Err(RunError::Usage(why));
    }
    let is_named = |about: &&Experiment| args.names.iter().any(|name| name == about.name);
    let wanted = known().filter(|about| is_named(about) || (args.names.is_empty() && !about.is_only_real()));
    let mut proved = true;
    for about in wanted {
        if args.list {
            list(about);
        } else {
            proved &= prove(about, args.seed)?;
        }
    }
    Ok(proved)
}

fn list(about: &Experiment) {
    for sabotage in about.sabotages {
        print_sabotage(about, sabotage);
        sabotage.falls.iter().for_each(|claim| println!("    falls: {claim}"));
    }
}

fn print_sabotage(about: &Experiment, sabotage: &Sabotage) {
    let real = if about.is_only_real() { " --real" } else { "" };
    println!("{}{real} --sabotage {}: {}", about.name, sabotage.name, sabotage.what);
}

/// Runs an experiment as it is and with each of its sabotages. Returns whether all listed claims fell.
fn prove(about: &Experiment, seed: u64) -> Result<bool, RunError> {
    let progress = Progress::default();
    let run = |sabotage| {
        let (seeds, real, extent) = (1, about.is_only_real(), Extent::Least);
        (about.run)(&Run { seed, seeds, real, extent, sabotage, progress: &progress })
    };
    if about.sabotages.is_empty() {
        println!("{}: no sabotage", about.name);
        return Ok(true);
    }
    let sound = run(None)?;
    let mut proved = true;
    for sabotage in about.sabotages {
        let damage = sabotage.damage(&sound.claims, &run(Some(*sabotage))?.claims);
        print_sabotage(about, sabotage);
        damage.fell.iter().for_each(|claim| println!("    fell: {claim}"));
        damage.wrong.iter().for_each(|line| println!("    WRONG: {line}"));
        proved &= damage.wrong.is_empty();
    }
    Ok(proved)
}
