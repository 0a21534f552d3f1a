//! tl-fairness: fairness of uTLTCP beside a TCP (McQuistin §4.1, figures 7 and 12).

use std::net::SocketAddr;

use timeous::core::{DropReason, Duration, Fate, Instant, Rate, Rng};
use timeous_choice::{Chain, Deadlines, Dependencies};
use timeous_cm::Kind;
use timeous_host::sources::Bulk;
use timeous_host::{AduRecord, Feed, Handle, Machine, Socket, Stream, Tcp};
use timeous_net::LinkConfig;
use timeous_net::link::{Limit, Loss};
use timeous_net::sim::{Network, NodeId};
use timeous_tcp::{Config, Receiving, Sending};

use super::fault::{self, Fault};
use super::machines::{Machines, address};
use super::tl::offers::Greedy;
use super::tl::{LOSSES, RTT};
use crate::experiment::{
    At, Chart, Choice, Claim, Experiment, Extent, Findings, Forms, Grid, Run, RunError, cross, jain, least, sabotages,
    setup, values,
};

const WARM_UP: Duration = Duration::from_secs(10);
const TIME: Duration = Duration::from_secs(60);
/// Payload of a datagram: its record fills a segment.
const DATAGRAM: usize = 1_428;
/// Useful life of a datagram.
const LATENCY: Duration = Duration::from_millis(300);

values! {
    /// Flow beside the TCP.
    enum FlowKind {
        /// Another TCP, as the baseline.
        Tcp = "another TCP",
        Datagrams = "uTLTCP, datagrams",
        Timelines = "uTLTCP, timelines",
        Dependencies = "uTLTCP, timelines and dependencies",
    }
}

impl FlowKind {
    fn feed(self, knows_dependencies: bool) -> Feed {
        let stream = |latency| Stream::new(Greedy::new(DATAGRAM, latency)).slots(256);
        match self {
            Self::Tcp => Socket::new(Bulk::endless(1_448)).into(),
            Self::Datagrams => stream(None).into(),
            Self::Dependencies if !knows_dependencies => Self::Timelines.feed(true),
            Self::Timelines => stream(Some(LATENCY)).choice(Box::new(Deadlines)).into(),
            Self::Dependencies => {
                let choice = Chain::default().then(Deadlines).then(Dependencies::default());
                stream(Some(LATENCY)).choice(Box::new(choice)).into()
            }
        }
    }

    fn sending(self) -> Sending {
        match self {
            Self::Tcp => Sending::Stream,
            Self::Datagrams => Sending::Records,
            _ => Sending::LateChoice,
        }
    }
}

/// Acknowledged bytes per second of the measured flow, and of the TCP beside it.
#[derive(Clone, Copy, Debug, serde::Serialize)]
struct Measured {
    rates: [f64; 2],
    replaced: u64,
    /// Datagrams that the measured flow gave up for a lost reference.
    given_up: u64,
}

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tl-fairness",
    title: "uTLTCP beside a TCP",
    source: "McQuistin §4.1, figures 7 and 12",
    paper: "Jain's index is about 1 with datagrams, with timelines and with dependencies",
    forms: Forms::Virtual,
    seeds: 10,
    takes: "1 min",
    sabotages: &[DOUBLED, NO_DEPENDENCIES],
    run,
};

sabotages! {
    DOUBLED = "doubled", "the window of the flow beside the TCP is twice that of its controller"
        => ["uTLTCP, datagrams at 2 % loss", "uTLTCP, timelines and dependencies at 2 % loss"];
    NO_DEPENDENCIES = "no-dependencies", "the sender knows no dependencies"
        => ["uTLTCP, timelines and dependencies: datagrams given up for a lost reference"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let losses = if run.extent == Extent::Least { &LOSSES[1..2] } else { &LOSSES };
    let forms = [FlowKind::Tcp, FlowKind::Datagrams, FlowKind::Dependencies];
    let forms = if run.extent == Extent::Least { &forms[..] } else { &FlowKind::ALL };
    let fault = run.breaks(DOUBLED).then_some(Fault::Doubled);
    let points = cross(forms.iter().copied(), losses.iter().copied());
    let knows = !run.breaks(NO_DEPENDENCIES);
    findings(&run.grid("bottlenecks", points, |&(form, loss), seed| measure(form, loss, seed, fault, knows)))
}

fn measure(form: FlowKind, loss: f64, seed: u64, fault: Option<Fault>, knows_dependencies: bool) -> Measured {
    let mut rng = Rng::from_seed(seed);
    let mut network: Network<Machine> = Network::new(rng.next_u64());
    let forward = LinkConfig::with_delay(RTT / 2)
        .with_rate(Rate::from_kbps(4_000), Limit::Packets(30))
        .with_loss(Loss::Bernoulli { p: loss });
    let back = forward.clone().with_loss(Loss::None);
    let dumbbell = network.pairs(2, &LinkConfig::default(), forward, back);
    let forms = [form, FlowKind::Tcp];
    let mut callers = Vec::new();
    for ((form, n), (&left, &right)) in forms.into_iter().zip([1, 2]).zip(dumbbell.left.iter().zip(&dumbbell.right)) {
        let receiving = if form == FlowKind::Tcp { Receiving::Stream } else { Receiving::Unordered };
        let config = Config { sending: form.sending(), ..Config::default() };
        let receiver = Config { receiving, ..Config::default() };
        let (seed, start) = (rng.next_u64(), Instant::ZERO + Duration::from_millis(rng.below(1_000)));
        let listener = Tcp::listener(Feed::none, receiver, Rng::from_seed(seed));
        network.place(right, 6_000, Kind::NewReno, listener);
        let remote = SocketAddr::new(address(2, n), 6_000);
        let manager = fault::manager(Kind::NewReno, fault.filter(|_| n == 1 && form != FlowKind::Tcp));
        let caller = Tcp::caller(remote, start, form.feed(knows_dependencies), config, Rng::from_seed(!seed));
        callers.push((left, network.place(left, 9_000, manager, caller)));
    }
    let acked = |network: &Network<Machine>| [0, 1].map(|n| statistics(network, callers[n]).bytes_acked);
    network.run_until(Instant::ZERO + WARM_UP);
    let before = acked(&network);
    network.run_until(Instant::ZERO + WARM_UP + TIME);
    let after = acked(&network);
    let rates = [0, 1].map(|n| (after[n] - before[n]) as f64 / TIME.as_secs_f64());
    let journal = network.host(callers[0].0).agent(callers[0].1).session().map(|session| session.journal());
    let is_given_up = |adu: &&AduRecord| adu.fate == Some(Fate::Dropped(DropReason::ReferenceLost));
    let given_up = journal.map_or(0, |journal| journal.adus().iter().filter(is_given_up).count() as u64);
    Measured { rates, replaced: statistics(&network, callers[0]).replaced, given_up }
}

fn statistics(network: &Network<Machine>, (node, caller): (NodeId, Handle<Tcp>)) -> timeous_tcp::Statistics {
    let session = network.host(node).agent(caller).session();
    session.map(|session| *session.statistics()).unwrap_or_default()
}

fn findings(measured: &Grid<(FlowKind, f64), Measured>) -> Result<Findings, RunError> {
    let rate = |at: &At<'_, _, Measured>, flow: usize| at.mean(|one| one.rates[flow]);
    let single = |at: &At<'_, _, Measured>| at.mean(|one| jain(&one.rates));
    let table = measured
        .rows()
        .axis("flow", |at| at.0.name())
        .axis("loss, %", |at| at.1 * 100.0)
        .number("kbit/s", 0, |at| rate(at, 0) * 8.0 / 1e3)
        .number("TCP beside it, kbit/s", 0, |at| rate(at, 1) * 8.0 / 1e3)
        .number("Jain's index of the means", 4, |at| jain(&[rate(at, 0), rate(at, 1)]))
        .number("mean of the seeds' indices", 4, single)
        .mean("segments replaced", 0, |one| one.replaced as f64)
        .mean("datagrams given up for a reference", 0, |one| one.given_up as f64)
        .table("Two flows over one link, the mean over the seeds");
    let chart =
        Chart { title: "Fairness (figure 12)", x: "loss, %", y: "Jain's index", caption: "The mean of the seeds." };
    let point = |at: &At<'_, (FlowKind, f64), Measured>| (at.point.1 * 100.0, single(at));
    let (tcps, others): (Vec<_>, Vec<_>) = measured.points().into_iter().partition(|at| at.point.0 == FlowKind::Tcp);
    let claims = others.iter().zip(tcps.iter().cycle()).map(|(at, tcps)| {
        let (form, loss) = at.point;
        let what = format!("{} at {} % loss: Jain's index, the mean of the seeds", form.name(), loss * 100.0);
        let said = format!("{:.4}; two TCPs: {:.4}", single(at), single(tcps));
        Claim::new(what, "about 1", said, single(at)).pass(0.95..).aim(0.99..)
    });
    let dependent = others.iter().filter(|at| at.point.0 == FlowKind::Dependencies);
    let given_up = least(dependent.map(|at| at.mean(|one| one.given_up as f64)));
    let what =
        "uTLTCP, timelines and dependencies: datagrams given up for a lost reference, the least of the loss rates";
    let given_up = Claim::number(what, "—", 0, given_up).pass(100.0..);
    Ok(Findings {
        setup: setup(),
        tables: vec![table],
        figures: vec![chart.of(measured.points(), |at| at.point.0.name().to_owned(), point)?],
        claims: claims.chain([given_up]).collect(),
        notes: vec![
            "With timelines the rates are those of datagrams alone, to the byte: what is sent again has another content and the same \
             header."
                .to_owned(),
        ],
        data: measured.data(),
    })
}

fn setup() -> Vec<Choice> {
    setup! {
        paper "flows": "two that last, begun together" => "§4.1, figure 7";
        ours "begun together": "within a second" => "exactly together they would be in step";
        ours "link": "4 Mbit/s, 30 packets, 40 ms there and back" => "three bandwidth-delay products of the shares";
        ours "loss": "on the way there, beside what the queue drops" => "as in the other experiments";
        ours "congestion control": "NewReno, a Congestion Manager for each flow"
            => "the paper's flows are different hosts'";
        ours "datagrams": "1428 bytes, always more than can leave; useful for 300 ms; each but the first of five refers to \
            the one before it" => "so that retransmissions are replaced, and datagrams given up for their reference";
        ours "measured": "60 s after 10 s: bytes acknowledged, framing and padding among them"
            => "what the network carried";
    }
}
