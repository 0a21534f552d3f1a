//! cm-ensemble: aggressiveness of a macroflow's flows together, like one TCP flow's, and fairness
//! among them.

mod real;

use real::{EVEN, JAIN, QUEUE, RATE, RTT, WARM_UP};

use std::net::SocketAddr;

use timeous::core::{Duration, Instant, Rng};
use timeous_cm::Kind;
use timeous_host::sources::Bulk;
use timeous_host::{Feed, Handle, Machine, ManagerId, Socket, Tcp};
use timeous_net::LinkConfig;
use timeous_net::link::{Jitter, Limit};
use timeous_net::sim::{Dumbbell, Network, NodeId};
use timeous_tcp::Config;
use timeous_testbed::report::plot::Series;

use super::cm::{AckPolicy, Greedy, HEADER, Receiver, Sender};
use super::fault::{self, Fault};
use super::machines::{Machines, address};
use crate::experiment::{
    Chart, Choice, Claim, Experiment, Extent, Figure, Findings, Forms, Grid, Rows, Run, RunError, Sabotage, Stats,
    jain, sabotages, setup, values,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "cm-ensemble",
    title: "The flows of a macroflow beside one TCP flow",
    source: "Andersen et al. §1, §2; RFC 3124 §2",
    paper: "An ensemble of concurrent flows is no more aggressive than one TCP flow would be, and its flows do not compete",
    forms: Forms::Both,
    seeds: 8,
    takes: "10 s; real 90 s, as root, built with the feature bpf",
    sabotages: &[APART, DOUBLED, IDLE],
    run,
};

sabotages! {
    APART = "apart", "each flow has a manager of its own"
        => ["four TCP in one macroflow, one TCP: the share", "four TCP in a macroflow, two in another: the share"];
    DOUBLED = "doubled", "the window of the first side's manager is twice that of its controller"
        => ["four TCP in one macroflow, one TCP: the share"];
    IDLE = "idle", "the first flow of each side with several begins in the middle"
        => ["four TCP in one macroflow, one TCP: Jain", "four TCP in a macroflow, two in another: Jain"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    if run.real {
        return real::run(run);
    }
    let cases = if run.extent == Extent::Least { &[Case::One, Case::Two][..] } else { &Case::ALL };
    let outcomes = run.grid("bottlenecks", cases.iter().copied(), |case, seed| trial(case, seed, run.sabotage));
    let table = Rows::of(outcomes.runs())
        .column("flows", |run| run.0.name())
        .column("seed", |run| run.1)
        .number("first side, kbit/s", 0, |run| run.2.total(0))
        .number("other, kbit/s", 0, |run| run.2.total(1))
        .number("share of the first", 3, |run| run.2.share())
        .number("Jain's index inside", 4, |run| run.2.fairness(0))
        .column("inside the other", |run| {
            if run.2.sides[1].len() > 1 { format!("{:.4}", run.2.fairness(1)) } else { String::new() }
        })
        .number("used, %", 1, |run| 100.0 * (run.2.total(0) + run.2.total(1)) * 1e3 / RATE.as_bps() as f64)
        .table("How the bottleneck is shared");
    let figures = [Case::One, Case::Apart].into_iter().filter(|case| cases.contains(case));
    let figures = figures.map(|case| figure(&outcomes, case));
    Ok(Findings {
        setup: choices(),
        tables: vec![table],
        figures: figures.collect::<Result<_, _>>()?,
        claims: claims(&outcomes),
        notes: Vec::new(),
        data: outcomes.data(),
    })
}

impl Outcome {
    /// Returns the mean rate of each flow of a side.
    fn means(&self, side: usize) -> Vec<f64> {
        self.sides[side].iter().map(|rates| Stats::of(rates.iter().copied()).mean).collect()
    }

    fn total(&self, side: usize) -> f64 {
        self.means(side).iter().sum()
    }

    /// Returns the first side's share.
    fn share(&self) -> f64 {
        self.total(0) / (self.total(0) + self.total(1))
    }

    fn fairness(&self, side: usize) -> f64 {
        jain(&self.means(side))
    }
}

fn claims(outcomes: &Grid<Case, Outcome>) -> Vec<Claim> {
    let share = |case: Case| {
        let what = format!("{}: the share of the first, mean of the seeds", case.name());
        Claim::mean(what, "one half", 3, outcomes.stats(&case, Outcome::share))
    };
    let fair = |case: Case, side: usize, name: &str| {
        let least = outcomes.stats(&case, |outcome| outcome.fairness(side)).least;
        let what = format!("{}: Jain's index inside {name}, the least of the seeds", case.name());
        Claim::number(what, "1: they do not compete", 4, least).pass(JAIN)
    };
    let even = |case| share(case).pass(EVEN);
    let of = |case| match case {
        Case::One | Case::Mixed => vec![even(case), fair(case, 0, "the macroflow")],
        Case::Two => vec![even(case), fair(case, 0, "the first macroflow"), fair(case, 1, "the other")],
        Case::Apart => vec![share(case)],
    };
    Case::ALL.into_iter().filter(|case| outcomes.has_run(|of| of == case)).flat_map(of).collect()
}

/// Plots every flow of the first seed.
fn figure(outcomes: &Grid<Case, Outcome>, case: Case) -> Result<Figure, RunError> {
    let shown = outcomes.first(|of| *of == case).expect("each case was run");
    let slice = TIME.as_secs_f64() / SLICES as f64;
    let line = |name: &str, rates: &[f64]| {
        Series::new(name, rates.iter().enumerate().map(|(n, rate)| ((n as f64 + 0.5) * slice, rate / 1e3)).collect())
    };
    let sum: Vec<f64> = (0..SLICES as usize).map(|n| shown.sides[0].iter().map(|rates| rates[n]).sum()).collect();
    let sums = [line("the four together", &sum), line("the TCP beside them", &shown.sides[1][0])];
    let flows = shown.sides[0].iter().enumerate().map(|(n, rates)| line(&format!("flow {}", n + 1), rates));
    let (title, caption) = (format!("Rates: {}", case.name()), "Two seconds at a time, the first seed.");
    Chart { title: &title, x: "time, s", y: "rate, Mbit/s", caption }.draw(sums.into_iter().chain(flows))
}

fn choices() -> Vec<Choice> {
    setup! {
        ours "bottleneck": "{} Mbit/s, {} ms round trip, {QUEUE} packets drop-tail",
            RATE.as_bps() / 1_000_000, RTT.as_millis() => "the path of cm-loss; a queue of a round trip";
        ours "controllers": "the manager's own (AIMD) for macroflows, NewReno for the TCP of another host"
            => "one flow of what hosts do that have no manager";
        ours "applications by request and callback": "send a packet at each grant, over UDP with acknowledgements of \
            their own" => "the most that they may";
        ours "jitter": "± half a packet's time at the bottleneck, on each host's link"
            => "without it the same flow meets the full queue each time (Floyd & Jacobson 1992)";
        ours "begin": "within the first second, at random by seed"
            => "flows that begin together stay together for long";
        ours "counted": "{} s after {} s", TIME.as_secs_f64(), WARM_UP.as_secs_f64()
            => "shares of two flows wander over tens of seconds";
    }
}

/// Time within which flows start.
const BEGINNING: Duration = Duration::from_secs(1);
const TIME: Duration = Duration::from_secs(60);
/// Time slices of the figure.
const SLICES: u64 = 30;
/// Bytes of data per segment or datagram.
const SIZE: usize = 1_400;

values! {
    /// Flows at the bottleneck.
    enum Case {
        /// Four TCP connections in one macroflow, beside one TCP of another host.
        One = "four TCP in one macroflow, one TCP",
        /// Two TCP connections and two request-and-callback applications in one macroflow, beside one
        /// TCP.
        Mixed = "two TCP and two ALF in one macroflow, one TCP",
        /// Four TCP connections to one host and two to another: two macroflows of one manager.
        Two = "four TCP in a macroflow, two in another",
        /// Four independent TCP connections, beside one TCP.
        Apart = "four TCP that share nothing, one TCP",
    }
}

/// Kind of flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlowKind {
    Tcp,
    Alf,
}

impl Case {
    /// Returns the flows on either side.
    fn sides(self) -> [&'static [FlowKind]; 2] {
        use FlowKind::{Alf, Tcp};
        match self {
            Self::One | Self::Apart => [&[Tcp; 4], &[Tcp]],
            Self::Mixed => [&[Tcp, Alf, Tcp, Alf], &[Tcp]],
            Self::Two => [&[Tcp; 4], &[Tcp; 2]],
        }
    }
}

/// Outcome of a trial: the rate of each flow on either side in each time slice, in kbit/s of data.
#[derive(serde::Serialize)]
struct Outcome {
    sides: [Vec<Vec<f64>>; 2],
}

/// Receiving end of a flow.
#[derive(Clone, Copy)]
enum FlowReceiver {
    Tcp(NodeId, Handle<Tcp>),
    Alf(NodeId, Handle<Receiver>),
}

/// Network with the flows on either side.
struct Topology {
    network: Network<Machine>,
    net: Dumbbell,
    rng: Rng,
    sides: [Vec<FlowReceiver>; 2],
}

impl Topology {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::from_seed(seed);
        let mut network = Network::new(rng.next_u64());
        let jitter = Jitter { spread: RATE.time_for(SIZE as u64) / 2, ..Jitter::default() };
        let access = LinkConfig { jitter, ..LinkConfig::default() };
        let forward = LinkConfig::with_delay(RTT / 2).with_rate(RATE, Limit::Packets(QUEUE));
        let back = LinkConfig::with_delay(RTT / 2);
        let net = network.pairs(2, &access, forward, back);
        Self { network, net, rng, sides: [Vec::new(), Vec::new()] }
    }

    fn manager(&mut self, node: NodeId, kind: Kind) -> ManagerId {
        self.network.with_host(node, |_, machine| machine.add_manager(kind))
    }

    /// Adds a flow on a side, from a host on the left to the side's own host on the right; it begins up to a second after
    /// `late`.
    fn add(&mut self, side: usize, member: FlowKind, from: NodeId, manager: ManagerId, late: Duration) {
        let to = self.net.right[side];
        let port = 5_000 + (10 * side + self.sides[side].len()) as u16;
        let remote = SocketAddr::new(address(2, side as u8 + 1), port);
        let start = Instant::ZERO + late + Duration::from_nanos(self.rng.below(BEGINNING.as_nanos()));
        // The receiving end sends no data, so its controller does not matter.
        let any = Kind::NewReno;
        let end = match member {
            FlowKind::Tcp => {
                let config = Config { mss: SIZE as u16, timestamps: false, ..Config::default() };
                let listener = Tcp::listener(Feed::none, config.clone(), self.rng.fork());
                let source = Socket::new(Bulk::endless(SIZE));
                let caller = Tcp::caller(remote, start, source, config, self.rng.fork());
                self.network.with_host(from, |_, machine| machine.add(port, manager, caller));
                FlowReceiver::Tcp(to, self.network.place(to, port, any, listener))
            }
            FlowKind::Alf => {
                let len = SIZE + HEADER;
                let sender = Sender::new(remote, len, start, Duration::ZERO, Greedy { len });
                self.network.with_host(from, |_, machine| machine.add(port, manager, sender));
                let receiver = Receiver::new(AckPolicy::Soon);
                FlowReceiver::Alf(to, self.network.place(to, port, any, receiver))
            }
        };
        self.sides[side].push(end);
    }

    /// Returns the received bytes of data, by side and flow.
    fn received(&self) -> [Vec<u64>; 2] {
        let of = |end: &FlowReceiver| match *end {
            FlowReceiver::Tcp(node, handle) => {
                self.network.host(node).agent(handle).session().map_or(0, |session| session.arrivals().total())
            }
            FlowReceiver::Alf(node, handle) => {
                self.network.host(node).agent(handle).arrivals().len() as u64 * SIZE as u64
            }
        };
        self.sides.each_ref().map(|side| side.iter().map(of).collect())
    }
}

/// Runs a trial.
fn trial(case: &Case, seed: u64, sabotage: Option<Sabotage>) -> Outcome {
    let mut topology = topology(*case, seed, sabotage);
    let mut sides = topology.sides.each_ref().map(|side| vec![Vec::new(); side.len()]);
    topology.network.run_until(Instant::ZERO + WARM_UP);
    for slice in 1..=SLICES {
        let before = topology.received();
        topology.network.run_until(Instant::ZERO + WARM_UP + TIME / SLICES * slice);
        for ((rates, before), after) in sides.iter_mut().zip(before).zip(topology.received()) {
            for ((rates, before), after) in rates.iter_mut().zip(before).zip(after) {
                rates.push((8 * (after - before)) as f64 / 1e3 / (TIME / SLICES).as_secs_f64());
            }
        }
    }
    Outcome { sides }
}

fn topology(case: Case, seed: u64, sabotage: Option<Sabotage>) -> Topology {
    let mut topology = Topology::new(seed);
    let (first, second) = (topology.net.left[0], topology.net.left[1]);
    let [ones, others] = case.sides();
    let fault = (sabotage == Some(DOUBLED)).then_some(Fault::Doubled);
    let shared =
        topology.network.with_host(first, |_, machine| machine.add_manager_of(fault::manager(Kind::Aimd, fault)));
    let is_apart = case == Case::Apart || sabotage == Some(APART);
    let late = if sabotage == Some(IDLE) { WARM_UP + TIME / 2 } else { Duration::ZERO };
    let delay = |number: usize| if number == 0 { late } else { Duration::ZERO };
    for (number, &member) in ones.iter().enumerate() {
        let manager = if is_apart { topology.manager(first, Kind::Aimd) } else { shared };
        topology.add(0, member, first, manager, delay(number));
    }
    // Both macroflows of one manager start at one host; the single TCP starts at another.
    let (from, manager) =
        if case == Case::Two { (first, shared) } else { (second, topology.manager(second, Kind::NewReno)) };
    for (number, &member) in others.iter().enumerate() {
        let manager = if case == Case::Two && is_apart { topology.manager(from, Kind::Aimd) } else { manager };
        topology.add(1, member, from, manager, if others.len() > 1 { delay(number) } else { Duration::ZERO });
    }
    topology
}
