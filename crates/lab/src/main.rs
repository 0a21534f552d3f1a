//! The binary `timeous-lab`: the experiments of the papers.

mod experiment;
mod experiments;
mod sabotages;
mod whole;

use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};

use experiment::{Compared, Experiment, Extent, Progress, Run, RunError};
use experiments::cm_api::client;
use experiments::daemon::{self, member};
use experiments::sending::{engine_calls, processes};

/// Repeats the experiments of the papers
///
/// Exit codes: 0 all holds, 1 a bound does not hold, 2 the command line is wrong, 4 the machine lacks something.
#[derive(Debug, Parser)]
#[command(name = "timeous-lab", version, disable_help_subcommand = true, subcommand_required = true)]
struct Lab {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Lists what can be run
    List,
    All(whole::AllArgs),
    Sabotages(sabotages::SabotagesArgs),
    #[command(name = processes::COMMAND, hide = true)]
    CrowdMember(processes::MemberArgs),
    #[command(name = daemon::COMMAND, hide = true)]
    DaemonClient(daemon::ClientArgs),
    #[command(name = member::COMMAND, hide = true)]
    DaemonMember(member::DaemonArgs),
    #[command(name = client::COMMAND, hide = true)]
    CmApiClient(client::ClientArgs),
    #[command(name = engine_calls::COMMAND, hide = true)]
    EngineClient(engine_calls::ClientArgs),
}

#[derive(Args, Clone, Debug)]
struct RunArgs {
    /// First seed of its randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of consecutive seeds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    seeds: Option<u32>,
    /// On this machine's kernel rather than in virtual time
    #[arg(long)]
    real: bool,
    /// Extent of the run, where an experiment can leave out cells
    #[arg(long, value_enum, default_value_t)]
    extent: Extent,
    /// Break a part of it on purpose; `timeous-lab sabotages --list` has the names
    #[arg(long, value_name = "NAME")]
    sabotage: Option<String>,
    /// Fail if the list of expected failures is not exact: for a bound or an aim that is not in it, and for an entry
    /// that holds; with --real an entry may hold, as measurements vary
    #[arg(long, conflicts_with = "sabotage")]
    strict: bool,
    /// Print what was found as JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let experiments = &experiments::ALL;
    let add = |lab: Command, experiment: &Experiment| {
        lab.subcommand(RunArgs::augment_args(Command::new(experiment.name).about(experiment.title)))
    };
    let lab = experiments.iter().fold(Lab::command(), add);
    let matches = lab.get_matches();
    let (name, own) = matches.subcommand().expect("clap asks for a subcommand");
    let experiment = experiments.iter().find(|experiment| experiment.name == name);
    let outcome = match experiment {
        Some(experiment) => one(experiment, &arguments(own)),
        None => task(arguments::<Lab>(&matches).task, experiments),
    };
    ExitCode::from(outcome)
}

fn arguments<T: FromArgMatches>(matches: &ArgMatches) -> T {
    T::from_arg_matches(matches).unwrap_or_else(|error| error.exit())
}

fn failed(error: &RunError) -> u8 {
    eprintln!("timeous-lab: {error}");
    error.exit_code()
}

fn task(task: Task, experiments: &[Experiment]) -> u8 {
    fn judged(held: Result<bool, RunError>) -> u8 {
        held.map_or_else(|error| failed(&error), |held| u8::from(!held))
    }
    match task {
        Task::List => {
            list(experiments);
            0
        }
        Task::CrowdMember(args) => judged(processes::member(&args).map(|()| true)),
        Task::DaemonMember(args) => judged(member::serve(&args).map(|()| true)),
        Task::CmApiClient(args) => judged(client::client(&args).map(|()| true)),
        Task::EngineClient(args) => judged(engine_calls::client(&args).map(|()| true)),
        Task::DaemonClient(args) => judged(daemon::client(&args).map(|()| true)),
        Task::Sabotages(args) => judged(sabotages::run(experiments, &args)),
        Task::All(args) => {
            let outcome = whole::run(experiments, &args, &Progress::default());
            outcome.unwrap_or_else(|error| failed(&error))
        }
    }
}

fn list(experiments: &[Experiment]) {
    for about in experiments {
        let forms: Vec<_> =
            [(false, "virtual"), (true, "real")].into_iter().filter(|f| about.forms.include(f.0)).collect();
        let forms = forms.into_iter().map(|(_, name)| name).collect::<Vec<_>>().join(", ");
        println!("{:<16}{forms:<16}{} ({})", about.name, about.title, about.source);
    }
}

fn one(experiment: &Experiment, args: &RunArgs) -> u8 {
    let progress = Progress::default();
    // In the form of its sabotages only.
    let known = if args.real == experiment.is_only_real() { experiment.sabotages } else { &[] };
    let wanted = |name: &String| known.iter().find(|sabotage| sabotage.name == name).copied();
    let sabotage = args.sabotage.as_ref().map(|name| wanted(name).ok_or_else(|| name.clone())).transpose();
    let sabotage = match sabotage {
        Ok(sabotage) => sabotage,
        Err(wanted) => {
            let name = experiment.name;
            let why = format!("{name} has no sabotage {wanted:?}: `timeous-lab sabotages {name} --list` has the names");
            return failed(&RunError::Usage(why));
        }
    };
    let run = Run {
        seed: args.seed,
        seeds: args.seeds.unwrap_or(experiment.seeds_of(args.real)),
        real: args.real,
        extent: args.extent,
        sabotage,
        progress: &progress,
    };
    let found = match (experiment.forms.include(args.real), args.real) {
        (true, _) => (experiment.run)(&run),
        (false, true) => {
            Err(RunError::Usage(format!("{} runs in virtual time only: leave --real out", experiment.name)))
        }
        (false, false) => {
            Err(RunError::Usage(format!("{} runs on this machine's kernel only: add --real", experiment.name)))
        }
    };
    let findings = match found {
        Ok(findings) => findings,
        Err(error) => return failed(&error),
    };
    if args.json {
        print!("{}", whole::pretty(&experiment::record(experiment, &run, &findings)));
    } else {
        print!("{}", experiment::text(experiment, &run, &findings));
    }
    if args.strict {
        let compared = if args.real { Compared::Real } else { Compared::Snapshot };
        let surprises = experiment::surprises(experiment.name, compared, &findings.claims);
        surprises.iter().for_each(|line| eprintln!("{line}"));
        return u8::from(!surprises.is_empty());
    }
    let broken: Vec<String> = whole::broken(&findings).collect();
    broken.iter().for_each(|claim| eprintln!("does not hold: {claim}"));
    u8::from(!broken.is_empty())
}
