//! The binary `timeous-lab`: demonstrations, and the experiments of the papers.

mod bound;
mod camera;
mod demo;
mod experiment;
mod experiments;
mod peers;
mod report;
mod soak;
mod tun;
mod whole;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};

use experiment::{Experiment, Extent, LabError, Progress, Run};
use experiments::cm_api::daemon;
use experiments::cm_host;
use experiments::sending::processes;

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
    Peers(peers::PeersArgs),
    #[command(name = peers::COMMAND, hide = true)]
    PeersMember(Box<peers::MemberArgs>),
    #[command(name = processes::COMMAND, hide = true)]
    CrowdMember(processes::MemberArgs),
    #[command(name = cm_host::COMMAND, hide = true)]
    CmHostClient(cm_host::ClientArgs),
    #[command(name = daemon::COMMAND, hide = true)]
    DaemonMember(daemon::DaemonArgs),
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
    /// Print what was found as JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let experiments = experiments::all();
    let add = |lab: Command, experiment: &&dyn Experiment| {
        let about = experiment.about();
        lab.subcommand(RunArgs::augment_args(Command::new(about.name).about(about.title)))
    };
    let lab = experiments.iter().fold(Lab::command(), add);
    let matches = lab.get_matches();
    let (name, own) = matches.subcommand().expect("clap asks for a subcommand");
    let experiment = experiments.iter().find(|experiment| experiment.about().name == name);
    let outcome = match experiment {
        Some(experiment) => one(*experiment, &arguments(own)),
        None => task(arguments::<Lab>(&matches).task, &experiments),
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

fn task(task: Task, experiments: &[&dyn Experiment]) -> u8 {
    match task {
        Task::List => {
            list(experiments);
            0
        }
        Task::Demo(args) => match demo::run(&args) {
            Ok(held) => u8::from(!held),
            Err(error) => failed(&error, error.exit_code()),
        },
        Task::Adapt(args) => match demo::adapt::run(&args) {
            Ok(held) => u8::from(!held),
            Err(error) => failed(&error, error.exit_code()),
        },
        Task::Camera(args) => match camera::run(&args, &Progress::new()) {
            Ok(held) => u8::from(!held),
            Err(error) => failed(&error, error.exit_code()),
        },
        Task::Soak(args) => match soak::run(&args) {
            Ok(held) => u8::from(!held),
            Err(error) => failed(&error, error.exit_code()),
        },
        Task::Peers(args) => match peers::run(&args, &Progress::new()) {
            Ok(held) => u8::from(!held),
            Err(error) => failed(&error, error.exit_code()),
        },
        Task::PeersMember(args) => match peers::member(&args) {
            Ok(()) => 0,
            Err(error) => failed(&error, error.exit_code()),
        },
        Task::CrowdMember(args) => match processes::member(&args) {
            Ok(()) => 0,
            Err(error) => failed(&error, error.exit_code()),
        },
        Task::DaemonMember(args) => match daemon::serve(&args) {
            Ok(()) => 0,
            Err(error) => failed(&error, error.exit_code()),
        },
        Task::CmHostClient(args) => match cm_host::client(&args) {
            Ok(()) => 0,
            Err(error) => failed(&error, error.exit_code()),
        },
        Task::All(args) => {
            let outcome = whole::run(experiments, args.seed, args.real, &args.out, &Progress::new());
            outcome.unwrap_or_else(|error| failed(&error, error.exit_code()))
        }
    }
}

fn list(experiments: &[&dyn Experiment]) {
    println!(
        "{:<16}{:<16}a live video over a link of half its rate: plain UDP, a plain queue, Timeous",
        "demo", "real"
    );
    println!("{:<16}{:<16}a live encoder over a link whose rate falls to a third and comes back", "adapt", "real");
    println!(
        "{:<16}{:<16}a live camera by Timeous and by SRT over seven links: frames and their delay",
        "camera", "real"
    );
    println!("{:<16}{:<16}kernel TCP through loss and reordering, every byte checked", "soak", "real");
    println!(
        "{:<16}{:<16}one trace over one link by Timeous, UDP, TCP, SRT, RIST, SCTP, QUIC, WebRTC",
        "peers", "real"
    );
    for about in experiments.iter().map(|experiment| experiment.about()) {
        let forms: Vec<_> =
            [(false, "virtual"), (true, "real")].into_iter().filter(|f| about.forms.include(f.0)).collect();
        let forms = forms.into_iter().map(|(_, name)| name).collect::<Vec<_>>().join(", ");
        println!("{:<16}{forms:<16}{} ({})", about.name, about.title, about.source);
    }
}

fn one(experiment: &dyn Experiment, args: &RunArgs) -> u8 {
    let about = experiment.about();
    let progress = Progress::new();
    let run = Run {
        seed: args.seed,
        seeds: args.seeds.unwrap_or(about.seeds_of(args.real)),
        real: args.real,
        extent: args.extent,
        progress: &progress,
    };
    let found = match (about.forms.include(args.real), args.real) {
        (true, _) => experiment.run(&run),
        (false, true) => Err(LabError::OnlyVirtual { name: about.name }),
        (false, false) => Err(LabError::OnlyReal { name: about.name }),
    };
    let findings = match found {
        Ok(findings) => findings,
        Err(error) => return failed(&error, error.exit_code()),
    };
    if args.json {
        print!("{}", whole::pretty(&experiment::record(&about, &run, &findings)));
    } else {
        print!("{}", experiment::text(&about, &run, &findings));
    }
    let broken: Vec<String> = whole::broken(&findings).collect();
    broken.iter().for_each(|claim| eprintln!("does not hold: {claim}"));
    u8::from(!broken.is_empty())
}
