//! tl-fairness: fairness of uTLTCP beside a TCP (McQuistin §4.1, figures 7 and 12).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde_json::json;
use timeous::core::{Duration, Instant, Rate, Rng};
use timeous_choice::{Chain, Deadlines, Dependencies};
use timeous_cm::Kind;
use timeous_host::sources::Bulk;
use timeous_host::{Feed, Handle, Machine, Socket, Stream, Tcp};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss};
use timeous_net::sim::{Network, NodeId};
use timeous_tcp::{Config, Receiving, Sending};

use super::tcp::shared::jain;
use super::tl::measure::mean;
use super::tl::offers::Greedy;
use super::tl::{LOSSES, RTT};
use crate::experiment::{About, Bound, Choice, Claim, Experiment, Figure, Findings, Forms, LabError, Run, Table};
use crate::report::plot::{Lines, Series};

const WARM_UP: Duration = Duration::from_secs(10);
const TIME: Duration = Duration::from_secs(60);
/// Payload of a datagram: its record fills a segment.
const DATAGRAM: usize = 1_428;
/// Useful life of a datagram.
const LATENCY: Duration = Duration::from_millis(300);

pub(crate) struct TlFairness;

/// Flow beside the TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlowKind {
    /// Another TCP, as the baseline.
    Tcp,
    Datagrams,
    Timelines,
    Dependencies,
}

impl FlowKind {
    const ALL: [Self; 4] = [Self::Tcp, Self::Datagrams, Self::Timelines, Self::Dependencies];

    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "another TCP",
            Self::Datagrams => "uTLTCP, datagrams",
            Self::Timelines => "uTLTCP, timelines",
            Self::Dependencies => "uTLTCP, timelines and dependencies",
        }
    }

    fn feed(self) -> Feed {
        let stream = |latency| Stream::new(Greedy::new(DATAGRAM, latency)).slots(256);
        match self {
            Self::Tcp => Socket::new(Bulk::endless(1_448)).into(),
            Self::Datagrams => stream(None).into(),
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

/// Parameters of a run at one bottleneck.
#[derive(Clone, Copy, Debug)]
struct Cell {
    form: FlowKind,
    loss: f64,
    seed: u64,
}

/// Acknowledged bytes per second of the measured flow, and of the TCP beside it.
#[derive(Clone, Copy, Debug)]
struct Measured {
    cell: Cell,
    rates: [f64; 2],
    replaced: u64,
}

impl Experiment for TlFairness {
    fn about(&self) -> About {
        About {
            name: "tl-fairness",
            title: "uTLTCP beside a TCP",
            source: "McQuistin §4.1, figures 7 and 12",
            paper: "Jain's index is about 1 with datagrams, with timelines and with dependencies",
            forms: Forms::Virtual,
            seeds: 10,
            takes: "1 min",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        let mut cells = Vec::new();
        for form in FlowKind::ALL {
            for loss in LOSSES {
                cells.extend(run.seeds().map(|seed| Cell { form, loss, seed }));
            }
        }
        let measured = run.each("bottlenecks", &cells, |&cell| measure(cell));
        findings(&measured)
    }
}

fn address(side: u8, n: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, side, n).into()
}

fn measure(cell: Cell) -> Measured {
    let mut rng = Rng::from_seed(cell.seed);
    let mut network: Network<Machine> = Network::new(rng.next_u64());
    let forward = LinkConfig {
        capacity: Capacity::Fixed(Rate::from_kbps(4_000)),
        queue: Limit::Packets(30),
        delay: RTT / 2,
        loss: Loss::Bernoulli { p: cell.loss },
        ..LinkConfig::default()
    };
    let back = LinkConfig { loss: Loss::None, ..forward.clone() };
    let host = |side| move |n| (address(side, n), Machine::new(address(side, n)));
    let access = LinkConfig::default();
    let dumbbell = network.dumbbell([1, 2].map(host(1)), [1, 2].map(host(2)), &access, forward, back);
    let forms = [cell.form, FlowKind::Tcp];
    let mut callers = Vec::new();
    for ((form, n), (&left, &right)) in forms.into_iter().zip([1, 2]).zip(dumbbell.left.iter().zip(&dumbbell.right)) {
        let receiving = if form == FlowKind::Tcp { Receiving::Stream } else { Receiving::Unordered };
        let config = Config { sending: form.sending(), ..Config::default() };
        let receiver = Config { receiving, ..Config::default() };
        let (seed, start) = (rng.next_u64(), Instant::ZERO + Duration::from_millis(rng.below(1_000)));
        network.with_host(right, |_, host| {
            let own = host.add_manager(Kind::NewReno);
            host.add(6_000, own, Tcp::listener(Feed::none, receiver, Rng::from_seed(seed)))
        });
        let remote = SocketAddr::new(address(2, n), 6_000);
        let caller = network.with_host(left, |_, host| {
            let own = host.add_manager(Kind::NewReno);
            host.add(9_000, own, Tcp::caller(remote, start, form.feed(), config, Rng::from_seed(!seed)))
        });
        callers.push((left, caller));
    }
    let acked = |network: &Network<Machine>| [0, 1].map(|n| statistics(network, callers[n]).bytes_acked);
    network.run_until(Instant::ZERO + WARM_UP);
    let before = acked(&network);
    network.run_until(Instant::ZERO + WARM_UP + TIME);
    let after = acked(&network);
    let rates = [0, 1].map(|n| (after[n] - before[n]) as f64 / TIME.as_secs_f64());
    Measured { cell, rates, replaced: statistics(&network, callers[0]).replaced }
}

fn statistics(network: &Network<Machine>, (node, caller): (NodeId, Handle<Tcp>)) -> timeous_tcp::Statistics {
    let session = network.host(node).agent(caller).session();
    session.map(|session| *session.statistics()).unwrap_or_default()
}

/// Results over the seeds: mean rates, and Jain's index of those.
struct Point {
    rates: [f64; 2],
    index: f64,
    /// Mean of Jain's index of the single seeds.
    single: f64,
    replaced: f64,
}

fn point(measured: &[Measured], form: FlowKind, loss: f64) -> Point {
    let these: Vec<_> = measured.iter().filter(|one| one.cell.form == form && one.cell.loss == loss).collect();
    let rates = [0, 1].map(|n| mean(&these.iter().map(|one| one.rates[n]).collect::<Vec<_>>()));
    Point {
        rates,
        index: jain(&rates),
        single: mean(&these.iter().map(|one| jain(&one.rates)).collect::<Vec<_>>()),
        replaced: mean(&these.iter().map(|one| one.replaced as f64).collect::<Vec<_>>()),
    }
}

fn findings(measured: &[Measured]) -> Result<Findings, LabError> {
    let head = [
        "flow",
        "loss, %",
        "kbit/s",
        "TCP beside it, kbit/s",
        "Jain's index of the means",
        "mean of the seeds' indices",
        "segments replaced",
    ];
    let mut table = Table::new("Two flows over one link, the mean over the seeds", &head);
    for form in FlowKind::ALL {
        for loss in LOSSES {
            let point = point(measured, form, loss);
            table.row([
                form.name().to_owned(),
                format!("{}", loss * 100.0),
                format!("{:.0}", point.rates[0] * 8.0 / 1e3),
                format!("{:.0}", point.rates[1] * 8.0 / 1e3),
                format!("{:.4}", point.index),
                format!("{:.4}", point.single),
                format!("{:.0}", point.replaced),
            ]);
        }
    }
    let line = |form| LOSSES.map(|loss| (loss * 100.0, point(measured, form, loss).single)).to_vec();
    let series = FlowKind::ALL.map(|form| Series::new(form.name(), line(form))).to_vec();
    let lines = Lines { title: "Fairness (figure 12)", x: "loss, %", y: "Jain's index", series };
    let mut claims = Vec::new();
    for form in FlowKind::ALL.into_iter().filter(|&form| form != FlowKind::Tcp) {
        for loss in LOSSES {
            let index = point(measured, form, loss).single;
            let what = format!("{} at {} % loss: Jain's index, the mean of the seeds", form.name(), loss * 100.0);
            let tcp = point(measured, FlowKind::Tcp, loss).single;
            let said = format!("{index:.4}; two TCPs: {tcp:.4}");
            let claim = Claim::new(&what, "about 1", said, index);
            claims.push(claim.pass(Bound::AtLeast(0.95)).aim(Bound::AtLeast(0.99)));
        }
    }
    let data: Vec<_> = measured
        .iter()
        .map(|one| {
            json!({ "flow": one.cell.form.name(), "loss": one.cell.loss, "seed": one.cell.seed, "rates": one.rates,
                    "replaced": one.replaced })
        })
        .collect();
    Ok(Findings {
        setup: setup(),
        tables: vec![table],
        figures: vec![Figure::new(lines.draw()?, "The mean of the seeds.")],
        claims,
        notes: vec![
            "With timelines the rates are those of datagrams alone, to the byte: what is sent again has another content and the same \
             header."
                .to_owned(),
        ],
        data: json!({ "bottlenecks": data }),
    })
}

fn setup() -> Vec<Choice> {
    vec![
        Choice::paper("flows", "two that last, begun together", "§4.1, figure 7"),
        Choice::ours("begun together", "within a second", "exactly together they would be in step"),
        Choice::ours(
            "link",
            "4 Mbit/s, 30 packets, 40 ms there and back",
            "three bandwidth-delay products of the shares",
        ),
        Choice::ours("loss", "on the way there, beside what the queue drops", "as in the other experiments"),
        Choice::ours(
            "congestion control",
            "NewReno, a Congestion Manager for each flow",
            "the paper's flows are different hosts'",
        ),
        Choice::ours(
            "datagrams",
            "1428 bytes, always more than can leave; useful for 300 ms",
            "so that retransmissions are replaced",
        ),
        Choice::ours(
            "measured",
            "60 s after 10 s: bytes acknowledged, framing and padding among them",
            "what the network carried",
        ),
    ]
}
