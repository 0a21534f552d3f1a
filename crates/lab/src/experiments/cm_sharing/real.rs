//! The experiment with an unmodified HTTP server and client over the emulated link: the server's
//! kernel remembers the path.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use serde_json::json;
use timeous::core::{Duration, Rate};
use timeous_engine::clock;
use timeous_net::LinkConfig;
use timeous_net::emulator::Namespace;
use timeous_net::link::Limit;
use timeous_testbed::machine::{machine, sleep};
use timeous_testbed::network::{Links, TestNetwork};
use timeous_testbed::process::ChildProcess;
use timeous_testbed::programs::start;

use super::super::managed::Managed;
use crate::experiment::{Chart, Choice, Claim, Findings, Rows, Run, RunError, cross, mean, setup, values};

/// Bytes of the file.
const LEN: usize = 128 << 10;
const FETCHES: usize = 9;
/// Number of fetches after which the server process restarts.
const RESTART_AFTER: usize = 5;
const PAUSE: Duration = Duration::from_millis(500);
const DELAY: Duration = Duration::from_micros(37_500);
const RATE: Rate = Rate::from_kbps(100_000);
/// Queue of the bottleneck, in packets: about one round trip's worth.
const QUEUE: usize = 640;
/// Address of the server.
const SERVER: &str = "10.77.0.1:8000";
/// Longest wait for a server to accept its first connection.
const PATIENCE: Duration = Duration::from_secs(20);

/// Explanation of the durations, from captures at both ends.
const NOTES: [&str; 3] = [
    "The client's kernel opens each connection with a window of 64 kB, whatever the server's kernel knows of the path: 128 kB \
     take three round trips at the least, 225 ms. Plain TCP with ten packets takes five, so that 40 % less leaves 3 ms for all \
     else, the 11 ms for which the file occupies the link among it; with two packets it takes seven.",
    "A capture of an undisturbed later fetch with an initial window of ten packets (235 ms) has: the server's program answers \
     after 1 ms; ten packets leave at once and 34 at two in 0.67 ms, which is twice the window in a round trip, Linux's own \
     pace of slow start; the client's window fills after 11 ms. It then grows to 79 kB only, so that the last bytes wait for \
     the acknowledgement of byte 50 000, which left 9 ms after the first. Acknowledgements are not delayed. So about 9 of the \
     10 ms above three round trips are the pace, and half of these the link would take for itself.",
    "The last row of the table is what no pace at all would give: plain TCP that begins with a hundred packets at once. It is \
     there for comparison; nobody should send like that over a path.",
];

values! {
    /// Initial window of the kernel's connections.
    enum InitialWindow {
        /// Two packets, as in the paper.
        Then = "two packets",
        /// Ten packets, as today.
        Today = "ten packets",
        /// More than the client's window, sent at once.
        Burst = "a hundred packets, not paced",
    }
}

impl InitialWindow {
    /// Initial windows with which the Congestion Manager is compared.
    const COMPARED: [Self; 2] = [Self::Then, Self::Today];

    /// Returns the `initcwnd` of the route, if it sets one.
    fn packets(self) -> Option<u32> {
        match self {
            Self::Then => Some(2),
            Self::Today => None,
            Self::Burst => Some(100),
        }
    }
}

/// Durations of the fetches of one run.
#[derive(serde::Serialize)]
struct Outcome {
    initial: InitialWindow,
    is_managed: bool,
    seconds: Vec<f64>,
}

impl Outcome {
    fn name(&self) -> String {
        let who = if self.is_managed { "TCP/CM" } else { "TCP" };
        format!("{who}, initial window {}", self.initial.name())
    }

    /// Returns the mean of all fetches but the first.
    fn later(&self) -> f64 {
        mean(self.seconds[1..].iter().copied())
    }
}

/// Runs the experiment.
///
/// # Errors
/// Missing features of the machine, such as `python3` and `curl`.
pub(super) fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let directory = tempfile::tempdir().map_err(RunError::system("make a directory"))?;
    fs::write(directory.path().join("file"), vec![7; LEN]).map_err(RunError::system("write a file"))?;
    // Checked first: without the module there is nothing to compare.
    drop(Managed::load()?);
    let trials = InitialWindow::COMPARED.into_iter().flat_map(|initial| [(initial, false), (initial, true)]);
    let trials: Vec<_> = trials.chain([(InitialWindow::Burst, false)]).collect();
    let task = run.progress.task("fetches", (trials.len() * FETCHES) as u64);
    let mut outcomes = Vec::new();
    for (initial, is_managed) in trials {
        let managed = if is_managed { Some(Managed::load()?) } else { None };
        let links = links();
        let network = TestNetwork::make(&format!("share{}", outcomes.len()), &links, run.seed, None)?;
        let seconds = fetches(&network, managed.as_ref(), initial, directory.path(), || task.step())?;
        outcomes.push(Outcome { initial, is_managed, seconds });
        network.end()?;
    }
    findings(&outcomes)
}

fn links() -> Links {
    let link = LinkConfig::with_delay(DELAY).with_rate(RATE, Limit::Packets(QUEUE));
    Links { forward: link.clone(), back: link }
}

/// Returns the duration of each fetch in seconds, from the call to the last byte.
fn fetches(
    network: &TestNetwork,
    managed: Option<&Managed>,
    initial: InitialWindow,
    directory: &Path,
    step: impl Fn(),
) -> Result<Vec<f64>, RunError> {
    if let Some(managed) = managed {
        network.left.set_sysctl("net/ipv4/tcp_congestion_control", managed.name()).map_err(machine)?;
    }
    if let Some(packets) = initial.packets() {
        let route = "route change 10.77.0.0/24 dev timeous0 proto kernel scope link src 10.77.0.1 initcwnd";
        let packets = packets.to_string();
        network.left.ip(&route.split_whitespace().chain([&*packets]).collect::<Vec<_>>()).map_err(machine)?;
    }
    let mut server = serve(&network.left, directory)?;
    let mut seconds = Vec::new();
    for number in 0..FETCHES {
        if number == RESTART_AFTER {
            drop(server);
            server = serve(&network.left, directory)?;
        }
        seconds.push(fetch(&network.right)?);
        step();
        sleep(PAUSE);
    }
    Ok(seconds)
}

/// Starts Python's unmodified HTTP server.
fn serve(namespace: &Namespace, directory: &Path) -> Result<ChildProcess, RunError> {
    let address: SocketAddr = SERVER.parse().expect("an address and a port");
    let (ip, port) = (address.ip(), address.port());
    let words = format!("python3 -m http.server --bind {ip} {port} --directory {}", directory.display());
    let server = start(namespace, (&[], &words))?;
    // Connects on the server's own host, so that the path to the client stays unused.
    namespace.ip(&["link", "set", "lo", "up"]).map_err(machine)?;
    let end = clock::now() + PATIENCE;
    while namespace.within(|| TcpStream::connect(address)).map_err(machine)?.is_err() {
        if clock::now() > end {
            return Err(machine("python3 -m http.server does not answer"));
        }
        sleep(Duration::from_millis(20));
    }
    Ok(server)
}

fn fetch(namespace: &Namespace) -> Result<f64, RunError> {
    let mut command = Command::new("curl");
    command.args(["-s", "-S", "-o", "/dev/null", "-w", "%{time_total} %{size_download}", "--max-time", "30"]);
    command.arg(format!("http://{SERVER}/file"));
    let output = namespace.within(|| command.output()).map_err(machine)?;
    let output = output.map_err(RunError::system("run curl (install it: scripts/tools.sh)"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut words = said.split_whitespace();
    let seconds = words.next().and_then(|word| word.parse().ok());
    match (seconds, words.next()) {
        (Some(seconds), Some(len)) if len == LEN.to_string() => Ok(seconds),
        _ => Err(RunError::Machine(format!("curl: {said} {}", String::from_utf8_lossy(&output.stderr)))),
    }
}

fn findings(outcomes: &[Outcome]) -> Result<Findings, RunError> {
    let table = Rows::of(outcomes)
        .column("who", |outcome| outcome.name())
        .each(0..FETCHES, |at| (at + 1).to_string(), |outcome, &at| format!("{:.0}", outcome.seconds[at] * 1e3))
        .table("Time of each fetch, ms");
    let caption = format!("The server is another process from fetch {} on.", RESTART_AFTER + 1);
    let chart = Chart {
        title: "Fetches of 128 kB from an HTTP server, one after another (figure 7)",
        x: "fetch",
        y: "time, ms",
        caption: &caption,
    };
    let fetches = cross(outcomes.iter().collect::<Vec<_>>(), 0..FETCHES);
    let point = |&(outcome, at): &(&Outcome, usize)| ((at + 1) as f64, outcome.seconds[at] * 1e3);
    Ok(Findings {
        setup: choices(),
        tables: vec![table],
        figures: vec![chart.of(fetches, |(outcome, _)| outcome.name(), point)?],
        claims: InitialWindow::COMPARED.into_iter().flat_map(|initial| claims(outcomes, initial)).collect(),
        notes: NOTES.map(str::to_owned).to_vec(),
        data: json!(outcomes),
    })
}

fn claims(outcomes: &[Outcome], initial: InitialWindow) -> [Claim; 3] {
    let of = |initial: InitialWindow, is_managed: bool| {
        let mut found = outcomes.iter().filter(|outcome| outcome.initial == initial);
        found.find(|outcome| outcome.is_managed == is_managed).expect("all were run")
    };
    let (plain, managed, burst) = (of(initial, false), of(initial, true), of(InitialWindow::Burst, false));
    let less = |seconds: f64| 100.0 * (1.0 - seconds / plain.later());
    let faster = less(managed.later());
    let measured = format!("{faster:.0} % ({:.0} ms, not {:.0})", managed.later() * 1e3, plain.later() * 1e3);
    let what = |what: &str| format!("{what}, initial window {}, %", initial.name());
    let restarted = managed.seconds[RESTART_AFTER];
    let after = less(restarted);
    let (most, burst) = (less(burst.later()), burst.later() * 1e3);
    let bounded = |claim: Claim| claim.pass(40.0..).aim(60.0..);
    [
        bounded(Claim::new(what("later fetches faster than plain TCP's"), "40", measured, faster)),
        bounded(Claim::new(
            what("the first fetch from a new server process"),
            "",
            format!("{after:.0} % ({:.0} ms)", restarted * 1e3),
            after,
        )),
        Claim::new(what("the same without any pace"), "", format!("{most:.0} % ({burst:.0} ms)"), most),
    ]
}

fn choices() -> Vec<Choice> {
    setup! {
        paper "fetches": "9 of 128 kB, 500 ms after one another" => "§4.3";
        paper "round trip": "75 ms" => "§4.3";
        ours "link": "{RATE} each way, {QUEUE} packets of queue" => "the paper's hosts stood on a fast network";
        ours "programs": "python3 -m http.server, curl; neither knows of the Congestion Manager"
            => "the server's namespace has TCP/CM as its default";
        ours "plain TCP": "this kernel's Reno, which remembers no metrics" => "the paper's Linux had a Reno";
        ours "time": "what curl calls time_total: from the call to the last byte" => "what a user waits for";
        paper "initial window, two packets": "by the route to the client" => "§4.3: Linux had 2 MTUs";
        ours "initial window, ten packets": "this kernel's default (RFC 6928)" => "what it is compared with today";
    }
}
