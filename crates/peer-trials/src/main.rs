//! The binary `timeous-peer-trials`: comparison with other protocols' implementations with the same trace over the same links and one evaluation for all.

mod capture;
mod datagram;
mod judge;
mod links;
mod member;
mod peer;
mod receiver;
mod sender;
mod summary;
mod trace;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use links::{LinkName, Setting};
use peer::Peer;
use summary::{LinkRuns, Row, Summary};
use timeous::core::Duration;
use timeous::core::units::parse_duration;
use timeous_testbed::{Progress, RunError};
use trace::Trace;
use trial::{Outcome, Plan};

/// Sends one trace over one link by each of Timeous and its peers, and counts the frames that are decodable in time
///
/// Peers are other people's programs: `scripts/peers.sh` installs them, and one that is missing is told of in its row. Exit
/// code 1: Timeous is not ahead everywhere, or sent something after its deadline. Needs root and `iproute2`.
#[derive(Debug, Parser)]
#[command(
    name = "timeous-peer-trials",
    version,
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = true
)]
struct Trials {
    #[command(subcommand)]
    task: Option<Task>,
    #[command(flatten)]
    args: TrialsArgs,
}

#[derive(Debug, Subcommand)]
enum Task {
    #[command(name = member::COMMAND, hide = true)]
    Member(Box<member::MemberArgs>),
}

/// Options of the comparison.
#[derive(Args, Clone, Debug)]
struct TrialsArgs {
    /// Where the page, the captures and the journeys go
    #[arg(long, value_name = "DIR", default_value = "peers-out")]
    out: PathBuf,
    /// The video whose frames are sent, as raw H.264
    #[arg(long, value_name = "FILE", default_value = "assets/clip.h264")]
    clip: PathBuf,
    /// Duration of each run, in seconds
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Which links, such as bloat,room; all unless given
    #[arg(long, value_name = "LINKS", value_delimiter = ',', value_enum)]
    links: Vec<LinkName>,
    /// Which peers, such as timeous,udp,srt; all unless given
    #[arg(long, value_name = "PEERS", value_delimiter = ',')]
    peers: Vec<String>,
    /// One more Timeous, by keys of its URI, such as eager:policy=deadline&repair=off; may be given again
    #[arg(long, value_name = "NAME:KEYS", value_parser = parse_own)]
    timeous: Vec<(String, String)>,
    /// First seed of the links' randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of consecutive seeds
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// From handing over to playout
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = parse_duration)]
    deadline: Duration,
    /// The links' round trip, without queues
    #[arg(long, value_name = "TIME", default_value = "60ms", value_parser = parse_duration)]
    rtt: Duration,
    /// Number of parallel runs, each in namespaces of its own
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=200))]
    at_once: u16,
    /// Where `scripts/peers.sh` puts what it builds; `peers` beside this program's directory unless given
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,
}

fn parse_own(text: &str) -> Result<(String, String), String> {
    let (name, keys) = text.split_once(':').ok_or("a name, a colon and keys such as eager:policy=deadline")?;
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Err("a name of letters, digits and hyphens before the colon".to_owned());
    }
    // Errors in the keys are reported before anything runs.
    format!("timeous://:1?{keys}").parse::<timeous::Uri>().map_err(|error| error.to_string())?;
    Ok((name.to_owned(), keys.to_owned()))
}

fn main() -> ExitCode {
    let Trials { task, args } = Trials::parse();
    let held = match task {
        None => run(&args, &Progress::default()),
        Some(Task::Member(args)) => member::run(&args).map(|()| true),
    };
    ExitCode::from(held.map_or_else(
        |error| {
            eprintln!("timeous-peer-trials: {error}");
            error.exit_code()
        },
        |held| u8::from(!held),
    ))
}

/// Runs all peers; returns whether Timeous is ahead on every link and sent nothing late.
fn run(args: &TrialsArgs, progress: &Progress) -> Result<bool, RunError> {
    let trace = Trace::of_clip(&args.clip, Duration::from_secs(args.seconds))?;
    let asked = Setting { rate: trace.rate(), length: trace.length(), deadline: args.deadline, rtt: args.rtt };
    let courses = courses(args, &asked, &trace)?;
    let raw = args.out.join("raw");
    fs::create_dir_all(&raw).map_err(RunError::file(&raw))?;
    let seeds = (0..args.seeds).map(|i| args.seed.wrapping_add(i));
    let wishes = courses.iter().flat_map(|course| seeds.clone().map(move |seed| (course, seed)));
    let wishes = wishes.flat_map(|(course, seed)| course.peers.iter().map(move |peer| (course, seed, peer)));
    let wishes: Vec<_> = wishes.collect();
    let what = format!("{} runs, {} at once", wishes.len(), args.at_once);
    let rows = progress.all(&what, &wishes, args.at_once.into(), |index, &(course, seed, peer)| {
        let LinkRuns { link, setting, .. } = course;
        let plan = Plan { setting, trace: &trace, link: *link, seed, out: &raw };
        let outcome = plan.run(&format!("peer{index}"), peer)?;
        if let Outcome::Ran(ran) = &outcome {
            let path = plan.file(peer, ".csv");
            fs::write(&path, summary::journeys(&trace, ran)).map_err(RunError::file(&path))?;
        }
        Ok::<_, RunError>(Row::new(*link, seed, peer, &trace, &outcome, setting))
    })?;
    let (seeds, frames) = (args.seeds, trace.frames.len());
    let summary = Summary { asked, seeds, courses: &courses, rows: &rows, frames };
    let page = args.out.join("index.html");
    fs::write(&page, summary.page()?).map_err(RunError::file(&page))?;
    let json = summary.json();
    for (name, content) in [("peers.json", &json), ("peers.md", &summary.markdown())] {
        let path = args.out.join(name);
        fs::write(&path, content).map_err(RunError::file(&path))?;
    }
    if args.json {
        print!("{json}");
    } else {
        print!("{}\nThe page: {}\n", summary.text(), page.display());
    }
    let broken = summary.broken();
    broken.iter().for_each(|what| eprintln!("does not hold: {what}"));
    Ok(broken.is_empty())
}

fn courses(args: &TrialsArgs, asked: &Setting, trace: &Trace) -> Result<Vec<LinkRuns>, RunError> {
    let links = if args.links.is_empty() { LinkName::ALL.as_slice() } else { &args.links };
    let course = |&link: &LinkName| {
        let setting = link.setting(asked);
        let peers = peers(args, &setting)?;
        Ok(LinkRuns { link, setting, peers, bound: link.bound(&setting, trace) })
    };
    links.iter().map(course).collect()
}

fn peers(args: &TrialsArgs, setting: &Setting) -> Result<Vec<Peer>, RunError> {
    let program = std::env::current_exe().map_err(RunError::file(Path::new("timeous-peer-trials")))?;
    let built = program.parent().and_then(Path::parent).map(|target| target.join("peers")).unwrap_or_default();
    let programs = args.programs.as_ref().unwrap_or(&built);
    let known = peer::all(setting, &program, programs, &args.timeous);
    let names = || known.iter().map(|peer| peer.name.as_str()).collect::<Vec<_>>().join(", ");
    if let Some(unknown) = args.peers.iter().find(|name| known.iter().all(|peer| peer.name != **name)) {
        return Err(RunError::Machine(format!("there is no peer {unknown}: known are {}", names())));
    }
    // A peer requested by keys is always included.
    let own = |peer: &Peer| args.timeous.iter().any(|(name, _)| peer.name == format!("timeous-{name}"));
    let wanted = |peer: &Peer| args.peers.is_empty() || args.peers.contains(&peer.name) || own(peer);
    Ok(known.iter().filter(|peer| wanted(peer)).cloned().collect())
}
