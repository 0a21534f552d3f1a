//! The experiment on this machine's kernel: its TCP in a macroflow, alone and with a UDP program, beside Reno of another host.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use serde_json::json;
use timeous::core::{Duration, Rate};
use timeous_engine::clock;
use timeous_net::LinkConfig;
use timeous_net::emulator::Namespace;
use timeous_net::link::Limit;
use timeous_testbed::machine::{Call, drain, machine, send_until, sleep};
use timeous_testbed::network::{Links, TestNetwork};
use timeous_testbed::process::tool;

use super::super::daemon::false_feedback::FalseFeedback;
use super::super::daemon::feedback_receiver::FeedbackReceiver;
use super::super::daemon::host::{ClientProcess, DaemonHost};
use super::super::daemon::messages::Work;
use super::super::managed::Managed;
use crate::experiment::{Bound, Choice, Claim, Findings, Rows, Run, RunError, jain, mean, setup, values};

/// Link, warm-up, and its queue in packets, one round trip's worth; in virtual time, too.
pub(super) const RATE: Rate = Rate::from_bps(10_000_000);
pub(super) const RTT: Duration = Duration::from_millis(60);
pub(super) const QUEUE: usize = 50;
pub(super) const WARM_UP: Duration = Duration::from_secs(20);
/// Measured time after the warm-up.
const TIME: Duration = Duration::from_secs(60);
/// Links per case, run at the same time.
const COPIES: usize = 3;
/// Share of a side that is as aggressive as one flow.
pub(super) const EVEN: Bound = Bound::Within(0.4, 0.6);
/// Jain's index inside a macroflow.
pub(super) const JAIN: Bound = Bound::AtLeast(0.98);
/// Addresses of the far end, and of a second host there.
const RIGHT: [[u8; 4]; 2] = [[10, 77, 0, 2], [10, 77, 0, 3]];
/// User of the UDP program, and its packet size in bytes.
const USER: u32 = 61_001;
const LEN: u64 = 1_400;
values! {
    /// Flows at the bottleneck.
    enum Case {
            One = "four connections in one macroflow, one Reno of another host",
            Two = "four connections in a macroflow, two in another",
            Mixed = "three connections and a UDP program in one macroflow, one Reno of another host",
            Apart = "four Reno that share nothing, one Reno of another host",
    }
}

impl Case {
    /// Returns the number of connections on either side.
    fn sides(self) -> [usize; 2] {
        match self {
            Self::Two => [4, 2],
            Self::Mixed => [3, 1],
            Self::One | Self::Apart => [4, 1],
        }
    }
}

/// Mean rates of the connections on either side, in kbit/s.
#[derive(serde::Serialize)]
struct Outcome {
    case: Case,
    sides: [Vec<f64>; 2],
    reductions: u64,
}

impl Outcome {
    fn share(&self) -> f64 {
        let [ensemble, other] = self.sides.each_ref().map(|side| side.iter().sum::<f64>());
        ensemble / (ensemble + other)
    }

    /// Returns Jain's index of the first side.
    fn jain(&self) -> f64 {
        jain(&self.sides[0])
    }
}

/// Runs the experiment.
///
/// # Errors
/// Missing features of the machine.
pub(super) fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    // Checked first: all links run before one of them starts the daemon.
    tool()?;
    let trials: Vec<Case> = Case::ALL.into_iter().flat_map(|case| [case; COPIES]).collect();
    let lasts = (WARM_UP + TIME).as_secs_f64();
    let task = run.progress.task(&format!("{} links at once, for {lasts:.0} s", trials.len()), trials.len() as u64);
    let seed = run.seed;
    let one = |number: usize, case: Case| {
        let outcome = trial(number, case, seed);
        task.step();
        outcome
    };
    let outcomes: Result<Vec<Outcome>, RunError> = thread::scope(|scope| {
        let one = &one;
        let started = trials.iter().enumerate().map(|(number, &case)| scope.spawn(move || one(number, case)));
        let started: Vec<_> = started.collect();
        started.into_iter().map(|trial| trial.join().expect("a trial does not panic")).collect()
    });
    Ok(findings(&outcomes?))
}

fn links() -> Links {
    let delay = RTT / 2;
    let back = LinkConfig::with_delay(delay);
    let forward = back.clone().with_rate(RATE, Limit::Packets(QUEUE));
    Links { forward, back }
}

fn trial(number: usize, case: Case, seed: u64) -> Result<Outcome, RunError> {
    let managed = Managed::load()?;
    let network = TestNetwork::make(&format!("ens{number}"), &links(), seed.wrapping_add(number as u64), None)?;
    let other = other_host(&network, number)?;
    let [first, second] = case.sides();
    let controls = match case {
        Case::One | Case::Mixed => [managed.name(), "reno"],
        Case::Two => [managed.name(); 2],
        Case::Apart => ["reno"; 2],
    };
    let connect = |side: usize| {
        let call = Call { congestion_control: controls[side], ..Call::default() };
        let [host, address] = match case {
            // Both macroflows belong to one host.
            Case::Two => [0, side],
            _ => [side, 0],
        };
        call.open([&network.left, &other][host], &network.right, SocketAddr::new(RIGHT[address].into(), 0))
    };
    let sides =
        [(0, first), (1, second)].map(|(side, count)| (0..count).map(|_| connect(side)).collect::<Result<Vec<_>, _>>());
    let [first, second] = sides;
    let sides = [first?, second?];
    let program = if case == Case::Mixed { Some(Program::start(&network, &managed)?) } else { None };
    let sides = measure(&sides, program.as_ref())?;
    program.map(Program::end).transpose()?;
    let reductions = managed.macroflows()?.iter().map(|macroflow| macroflow.losses).sum();
    network.end()?;
    Ok(Outcome { case, sides, reductions })
}

/// A UDP program of a user who shares with the host, and the daemon that controls it.
struct Program {
    _daemon: DaemonHost,
    far: FeedbackReceiver,
    process: ClientProcess,
}

impl Program {
    fn start(network: &TestNetwork, managed: &Managed) -> Result<Self, RunError> {
        let far = network.right.within(FeedbackReceiver::start).map_err(machine)??;
        let options = [&format!("--share-with-host={USER}"), "--kernel-tcp", managed.name()].map(str::to_owned);
        let to = SocketAddr::new(RIGHT[0].into(), far.port());
        let (daemon, process) = network
            .left
            .within(|| {
                let daemon = DaemonHost::start_with(&options)?;
                let work = Work {
                    daemon: Some(daemon.socket()),
                    uid: Some(USER),
                    first: 0,
                    to: vec![to],
                    len: LEN,
                    every_micros: None,
                    lie: FalseFeedback::None,
                };
                let mut process = ClientProcess::opened(&work)?;
                process.go()?;
                Ok::<_, RunError>((daemon, process))
            })
            .map_err(machine)??;
        Ok(Self { _daemon: daemon, far, process })
    }

    /// Returns the bytes that have arrived since the last call.
    fn take(&self) -> u64 {
        self.far.take().values().map(|seen| seen.bytes).sum()
    }

    fn end(self) -> Result<(), RunError> {
        self.process.end().map(drop)
    }
}

/// Builds another host behind the left one, whose packets take the same link.
fn other_host(network: &TestNetwork, number: usize) -> Result<Namespace, RunError> {
    let name = format!("timeous-ens{number}-{}o", std::process::id());
    let other = Namespace::open_or_make(&name).map_err(machine)?;
    let ip = |namespace: &Namespace, words: &str| {
        namespace.ip(&words.split_whitespace().collect::<Vec<_>>()).map_err(machine)
    };
    ip(&network.left, &format!("link add veth0 type veth peer name veth1 netns {name}"))?;
    ip(&network.left, "address add 10.78.0.1/24 dev veth0")?;
    ip(&network.left, "link set veth0 up")?;
    ip(&other, "address add 10.78.0.2/24 dev veth1")?;
    ip(&other, "link set veth1 up")?;
    ip(&other, "route add default via 10.78.0.1")?;
    other.set_sysctl("net/ipv4/tcp_no_metrics_save", "1").map_err(machine)?;
    network.left.set_sysctl("net/ipv4/ip_forward", "1").map_err(machine)?;
    ip(&network.right, "route add 10.78.0.0/24 via 10.77.0.1")?;
    ip(&network.right, "address add 10.77.0.3/24 dev timeous0")?;
    Ok(other)
}

/// Sends greedily on all connections; returns the mean rates after the warm-up. The UDP program is the last flow of the first side.
fn measure(sides: &[Vec<(TcpStream, TcpStream)>; 2], program: Option<&Program>) -> Result<[Vec<f64>; 2], RunError> {
    let counts = sides.each_ref().map(|side| side.iter().map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for (side, counts) in sides.iter().zip(&counts) {
            for ((sending, receiving), count) in side.iter().zip(counts) {
                scope.spawn(|| drain(receiving, count));
                // Unsent data shows in the rate.
                scope.spawn(|| drop(send_until(sending, receiving, &stop)));
            }
        }
        let received =
            || counts.each_ref().map(|side| side.iter().map(|count| count.load(Ordering::Relaxed)).collect::<Vec<_>>());
        sleep(WARM_UP);
        let (before, begin) = (received(), clock::now());
        program.map(Program::take);
        sleep(TIME);
        let (after, lasted) = (received(), clock::now().saturating_since(begin));
        let datagrams = program.map(Program::take);
        stop.store(true, Ordering::Relaxed);
        let rate = |bytes: u64| bytes as f64 * 8e-3 / lasted.as_secs_f64();
        let rates = |side: usize| {
            let pairs = before[side].iter().zip(&after[side]);
            pairs.map(|(before, after)| rate(after - before)).collect::<Vec<_>>()
        };
        let mut first = rates(0);
        first.extend(datagrams.map(rate));
        Ok([first, rates(1)])
    })
}

fn findings(outcomes: &[Outcome]) -> Findings {
    let rates = |side: &[f64]| side.iter().map(|rate| format!("{rate:.0}")).collect::<Vec<_>>().join(" ");
    let table = Rows::of(outcomes)
        .column("who", |one| one.case.name())
        .column("first side", |one| rates(&one.sides[0]))
        .column("second side", |one| rates(&one.sides[1]))
        .number("share of the first", 3, |one| one.share())
        .number("Jain's index inside", 4, |one| one.jain())
        .column("reductions", |one| one.reductions)
        .table("Rates after the warm-up, kbit/s");
    let of = |case: Case, what: fn(&Outcome) -> f64| -> Vec<f64> {
        outcomes.iter().filter(|outcome| outcome.case == case).map(what).collect()
    };
    let share = |what: &str, paper: &str, case: Case| {
        let shares = of(case, Outcome::share);
        let listed = shares.iter().map(|share| format!("{share:.2}")).collect::<Vec<_>>().join(", ");
        let mean = mean(shares);
        Claim::new(what, paper, format!("{mean:.2} ({listed})"), mean)
    };
    let least =
        [Case::One, Case::Two, Case::Mixed].into_iter().flat_map(|case| of(case, Outcome::jain)).fold(1.0, f64::min);
    let four = "share of four connections in one macroflow beside one Reno";
    Findings {
        setup: choices(),
        tables: vec![table],
        claims: vec![
            share(four, "as one flow: 0.5", Case::One).pass(EVEN),
            share("share of a macroflow of four beside one of two", "as one flow each: 0.5", Case::Two).pass(EVEN),
            Claim::number("least of Jain's indexes inside a macroflow", "they do not compete", 4, least).pass(JAIN),
            share(
                "share of three connections and a UDP program in one macroflow beside one Reno",
                "as one flow: 0.5",
                Case::Mixed,
            )
            .pass(EVEN),
            share("for comparison: four that share nothing beside one", "0.8", Case::Apart),
        ],
        data: json!(outcomes),
        ..Findings::default()
    }
}

fn choices() -> Vec<Choice> {
    setup! {
        ours "hosts": "network namespaces: a sender, another behind it, and what they send to; the emulated link \
            between"
            => "macroflows of one host are known by their destinations, the other host knows nothing of them";
        ours "link": "{RATE}, {} ms round trip, {QUEUE} packets of queue", (RTT.as_secs_f64() * 1e3).round()
            => "as in virtual time";
        ours "connections": "this kernel's TCP, 1500-byte packets, all they can"
            => "programs that know nothing of it";
        ours "UDP program": "a client of `timeous daemon --share-with-host`, packets of {LEN} bytes, each acknowledged"
            => "a program of a user, whom the administrator trusts to share with the kernel's TCP";
        ours "time": "{} s after {} s of warm-up", TIME.as_secs_f64(), WARM_UP.as_secs_f64()
            => "some thirty reductions of each side";
        ours "links": "{COPIES} for each case, all at once" => "one alone says little of a mean";
    }
}
