//! The binary `timeous-lab`: demonstrations, and the experiments of the papers.

mod bound;
mod camera;
mod demo;
mod experiment;
mod experiments;
mod machine;
mod peers;
mod report;
mod sabotages;
mod soak;
mod tun;
mod whole;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};

use experiment::{Experiment, Extent, LabError, Progress, Run};
use experiments::cm_api::{client, daemon};
use experiments::cm_host;
use experiments::sending::{engine_calls, processes};

/// Demonstrates Timeous, and repeats the experiments of the papers
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
    Demo(demo::DemoArgs),
    Adapt(demo::adapt::AdaptArgs),
    Camera(camera::CameraArgs),
    Soak(soak::SoakArgs),
    /// Lists what can be run
    List,
    All(AllArgs),
    Sabotages(sabotages::SabotagesArgs),
    Peers(peers::PeersArgs),
    #[command(name = peers::COMMAND, hide = true)]
    PeersMember(Box<peers::MemberArgs>),
    #[command(name = processes::COMMAND, hide = true)]
    CrowdMember(processes::MemberArgs),
    #[command(name = cm_host::COMMAND, hide = true)]
    CmHostClient(cm_host::ClientArgs),
    #[command(name = daemon::COMMAND, hide = true)]
    DaemonMember(daemon::DaemonArgs),
    #[command(name = client::COMMAND, hide = true)]
    CmApiClient(client::ClientArgs),
    #[command(name = engine_calls::COMMAND, hide = true)]
    EngineClient(engine_calls::ClientArgs),
}

/// Runs every experiment and writes a page with all that was found
#[derive(Args, Clone, Debug)]
struct AllArgs {
    /// Where the page and the data go
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// First seed of the experiments' randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Also on this machine's kernel, where an experiment can
    #[arg(long)]
    real: bool,
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

fn failed(error: &dyn std::error::Error, code: u8) -> u8 {
    eprintln!("timeous-lab: {error}");
    code
}

fn task(task: Task, experiments: &[Experiment]) -> u8 {
    fn judged<E: std::error::Error>(held: Result<bool, E>, code: impl Fn(&E) -> u8) -> u8 {
        held.map_or_else(|error| failed(&error, code(&error)), |held| u8::from(!held))
    }
    match task {
        Task::List => {
            list(experiments);
            0
        }
        Task::Demo(args) => judged(demo::run(&args), |error| error.exit_code()),
        Task::Adapt(args) => judged(demo::adapt::run(&args), |error| error.exit_code()),
        Task::Camera(args) => judged(camera::run(&args, &Progress::new()), |error| error.exit_code()),
        Task::Soak(args) => judged(soak::run(&args), |error| error.exit_code()),
        Task::Peers(args) => judged(peers::run(&args, &Progress::new()), |error| error.exit_code()),
        Task::PeersMember(args) => judged(peers::member(&args).map(|()| true), |error| error.exit_code()),
        Task::CrowdMember(args) => judged(processes::member(&args).map(|()| true), |error| error.exit_code()),
        Task::DaemonMember(args) => judged(daemon::serve(&args).map(|()| true), |error| error.exit_code()),
        Task::CmApiClient(args) => judged(client::client(&args).map(|()| true), |error| error.exit_code()),
        Task::EngineClient(args) => judged(engine_calls::client(&args).map(|()| true), |error| error.exit_code()),
        Task::CmHostClient(args) => judged(cm_host::client(&args).map(|()| true), |error| error.exit_code()),
        Task::Sabotages(args) => judged(sabotages::run(experiments, &args), |error| error.exit_code()),
        Task::All(args) => {
            let outcome = whole::run(experiments, args.seed, args.real, &args.out, &Progress::new());
            outcome.unwrap_or_else(|error| failed(&error, error.exit_code()))
        }
    }
}

fn list(experiments: &[Experiment]) {
    for (name, what) in [
        ("demo", "a live video over a link of half its rate: plain UDP, a plain queue, Timeous"),
        ("adapt", "a live encoder over a link whose rate falls to a third and comes back"),
        ("camera", "a live camera by Timeous and by SRT over seven links: frames and their delay"),
        ("soak", "kernel TCP through loss and reordering, every byte checked"),
        ("peers", "one trace over one link by Timeous, UDP, TCP, SRT, RIST, SCTP, QUIC, WebRTC"),
    ] {
        println!("{name:<16}{:<16}{what}", "real");
    }
    for about in experiments {
        let forms: Vec<_> =
            [(false, "virtual"), (true, "real")].into_iter().filter(|f| about.forms.include(f.0)).collect();
        let forms = forms.into_iter().map(|(_, name)| name).collect::<Vec<_>>().join(", ");
        println!("{:<16}{forms:<16}{} ({})", about.name, about.title, about.source);
    }
}

fn one(experiment: &Experiment, args: &RunArgs) -> u8 {
    let progress = Progress::new();
    // In the form of its sabotages only.
    let known = if args.real == experiment.is_only_real() { experiment.sabotages } else { &[] };
    let wanted = |name: &String| known.iter().find(|sabotage| sabotage.name == name).copied();
    let sabotage = args.sabotage.as_ref().map(|name| wanted(name).ok_or_else(|| name.clone())).transpose();
    let sabotage = match sabotage {
        Ok(sabotage) => sabotage,
        Err(wanted) => {
            let error = LabError::NoSabotage { name: experiment.name, wanted };
            return failed(&error, error.exit_code());
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
        (false, true) => Err(LabError::OnlyVirtual { name: experiment.name }),
        (false, false) => Err(LabError::OnlyReal { name: experiment.name }),
    };
    let findings = match found {
        Ok(findings) => findings,
        Err(error) => return failed(&error, error.exit_code()),
    };
    if args.json {
        print!("{}", whole::pretty(&experiment::record(experiment, &run, &findings)));
    } else {
        print!("{}", experiment::text(experiment, &run, &findings));
    }
    if args.strict {
        let surprises = experiment::surprises(experiment.name, args.real, &findings.claims);
        surprises.iter().for_each(|line| eprintln!("{line}"));
        return u8::from(!surprises.is_empty());
    }
    let broken: Vec<String> = whole::broken(&findings).collect();
    broken.iter().for_each(|claim| eprintln!("does not hold: {claim}"));
    u8::from(!broken.is_empty())
}
