//! short-queues: queue length, link utilisation and recovery time with each congestion controller.

use std::net::SocketAddr;

use serde_json::json;
use timeous::core::{AduMeta, Duration, FrameId, Instant, Rate, Rng};
use timeous_choice::{Chain, Deadlines, Dependencies, Frames, QueueLimit};
use timeous_cm::Kind;
use timeous_host::sources::{Cbr, OnFull};
use timeous_host::{Dccp, DccpSettings, Sink, Stream};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss, RateTrace};
use timeous_net::sim::Network;

use super::machines::Machines;
use crate::experiment::{
    Choice, Claim, Experiment, Extent, Findings, Forms, Grid, Rows, Run, RunError, Sabotage, Sorted, Table, least,
    mean, most, sabotages, setup,
};

/// Bounds for the live-stream controller: least link utilisation, and largest 95th percentile of
/// the queueing delay in ms.
const USED: f64 = 0.85;
const QUEUED: f64 = 100.0;
/// Longest time until returned capacity is used, in seconds.
const UNTIL_USED: f64 = 2.0;
/// Controllers; with one seed the first four.
const KINDS: [Kind; 7] = [Kind::Live, Kind::Scream, Kind::Aimd, Kind::Bbr, Kind::Cubic, Kind::Tfrc, Kind::Copa];
const RATES: [Rate; 3] = [Rate::from_kbps(300), Rate::from_kbps(1_000), Rate::from_kbps(5_000)];
const RTTS: [u64; 3] = [20, 80, 200];
/// Queue lengths, in deadlines.
const QUEUES: [f64; 3] = [0.25, 1.0, 4.0];
const LOSSES: [f64; 3] = [0.0, 0.01, 0.05];
/// With one seed: indices of a link's rate, round trip, queue and loss, so that each value but the
/// fastest rate meets most of the others (from Taguchi's L9).
const FEW: [[usize; 4]; 6] = [[0, 0, 0, 0], [0, 1, 1, 1], [0, 2, 2, 2], [1, 0, 1, 2], [1, 1, 2, 0], [1, 2, 0, 1]];

/// Results by controller and link.
type Flows = Grid<Cell, Measured>;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "short-queues",
    title: "Queues, use of the link and returned capacity, by controller",
    source: "Arun & Balakrishnan (Copa); RFC 8298 and its successor; the grid is ours",
    paper: "Copa keeps two packets or so in a queue and the link full; SCReAM stays below 60 ms of queue",
    forms: Forms::Virtual,
    seeds: 3,
    takes: "2 min",
    sabotages: &[FILLING, IDLE, GONE],
    run,
};

sabotages! {
    FILLING = "filling", "CUBIC, which fills queues, in the place of the controller for live streams" => ["ms in the queue"];
    IDLE = "idle", "the stream takes a third of the link"
        => ["share of the link that the controller for live streams uses", "s until returned capacity is used, mean"];
    GONE = "gone", "the link's rate does not come back" => ["s until returned capacity is used, mean"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let (links, kinds) = if run.seeds > 1 {
        ((0..81).map(|n| [n / 27, n / 9 % 3, n / 3 % 3, n % 3]).collect(), &KINDS[..])
    } else {
        (FEW.to_vec(), if run.extent == Extent::Least { &KINDS[..1] } else { &KINDS[..4] })
    };
    let cell = |&[rate, rtt, queue, loss]: &[usize; 4], kind| Cell {
        kind,
        rate: RATES[rate],
        rtt: Duration::from_millis(RTTS[rtt]),
        queue: Duration::from_secs_f64(DEADLINE.as_secs_f64() * QUEUES[queue]),
        loss: LOSSES[loss],
    };
    let cells = links.iter().flat_map(|link| kinds.iter().map(move |&kind| cell(link, kind)));
    let flows = run.grid("flows", cells, |cell, seed| trial(cell, seed, run.sabotage));
    let tables = vec![
        summary(&flows, kinds),
        by(&flows, kinds, "loss, %", |cell| (cell.loss * 100.0) as u64),
        by(&flows, kinds, "link, kbit/s", |cell| cell.rate.as_bps() / 1_000),
        by(&flows, kinds, "round trip, ms", |cell| cell.rtt.as_millis()),
        by(&flows, kinds, "queue, ms", |cell| cell.queue.as_millis()),
    ];
    Ok(Findings { setup: choices(), tables, claims: claims(&flows), data: flows.data(), ..Findings::default() })
}

pub(super) fn choices() -> Vec<Choice> {
    setup! {
        ours "links": "0.3, 1 and 5 Mbit/s; 20, 80 and 200 ms; drop-tail" => "from a poor mobile link to a good one";
        ours "queue": "0.25, 1 and 4 deadlines of 400 ms"
            => "where it holds more than the deadline, who fills it is late with everything";
        ours "loss": "0, 1 and 5 % of the packets, at random" => "what radio links lose whatever is sent";
        ours "combinations": "all 81; with one seed, six of the slower links and four controllers"
            => "a test has to be short";
        ours "stream": "packets of 1000 bytes, 1.5 times the link, each with its deadline; what cannot arrive is \
            given up; nothing is sent again" => "there is always something to send";
        ours "time": "30 s: from 5 s on queue and use are measured; at 20 s the link falls to a quarter; at 25 s it \
            is back" => "as a mobile link does";
        ours "delay in the queue": "from leaving the host to arrival, less the link's own time"
            => "of each packet that arrived";
    }
}

fn summary(flows: &Flows, kinds: &[Kind]) -> Table {
    let of = |&kind: &Kind, metric: fn(&Measured) -> f64| flows.of(move |cell| cell.kind == kind).map(metric);
    Rows::of(kinds.to_vec())
        .column("controller", Kind::to_string)
        .number("used, % (mean)", 1, |kind| mean(of(kind, |one| 100.0 * one.used)))
        .number("least", 1, |kind| least(of(kind, |one| 100.0 * one.used)))
        .number("median in queue, ms", 0, |kind| mean(of(kind, |one| one.queued[0])))
        .number("95 % (mean)", 0, |kind| mean(of(kind, |one| one.queued[1])))
        .number("99 % (mean)", 0, |kind| mean(of(kind, |one| one.queued[2])))
        .number("95 % (worst)", 0, |kind| most(of(kind, |one| one.queued[1])))
        .number("dropped by the queue, %", 1, |kind| mean(of(kind, |one| 100.0 * one.dropped)))
        .number("full again after, s (mean)", 2, |kind| mean(of(kind, |one| one.back)))
        .number("worst", 2, |kind| most(of(kind, |one| one.back)))
        .table("All links")
}

fn by(flows: &Flows, kinds: &[Kind], title: &str, of: fn(&Cell) -> u64) -> Table {
    let mut values: Vec<u64> = flows.points().iter().map(|at| of(at.point)).collect();
    values.sort_unstable();
    values.dedup();
    let cell = |&kind: &Kind, &value: &u64| {
        let those = || flows.of(move |cell| cell.kind == kind && of(cell) == value);
        let (used, queued) = (mean(those().map(|one| 100.0 * one.used)), mean(those().map(|one| one.queued[1])));
        format!("{used:.0} / {queued:.0}")
    };
    let rows = Rows::of(kinds.to_vec()).column("controller", Kind::to_string);
    rows.each(values, u64::to_string, cell).table(&format!("Used, % / 95 % in queue, ms: by {title}"))
}

fn claims(flows: &Flows) -> Vec<Claim> {
    let of = |metric: fn(&Measured) -> f64| flows.of(|cell| cell.kind == Kind::Live).map(metric);
    let used = mean(of(|one| one.used));
    let queued = mean(of(|one| one.queued[1]));
    let back = [mean(of(|one| one.back)), most(of(|one| one.back))];
    let what = "ms in the queue that 95 of 100 packets stay below, mean";
    vec![
        Claim::number("share of the link that the controller for live streams uses, mean", "full", 3, used)
            .pass(USED..)
            .aim(0.9..),
        Claim::number(what, "—", 0, queued).pass(..=QUEUED),
        Claim::number("s until returned capacity is used, mean", "—", 2, back[0]).pass(..=UNTIL_USED),
        Claim::number("s until returned capacity is used, worst", "—", 2, back[1]).pass(..=UNTIL_USED),
    ]
}

/// Time from the hand-over of a packet to its deadline.
const DEADLINE: Duration = Duration::from_millis(400);
/// Bytes of a packet.
const PAYLOAD: usize = 1_000;
/// Rate of the stream, relative to the link's.
const OFFERED: f64 = 1.5;
/// Start of the measurement, drop of the link's rate, its return, and the end.
const MEASURED_FROM: Duration = Duration::from_secs(5);
const SLOWER: Duration = Duration::from_secs(20);
const BACK: Duration = Duration::from_secs(25);
const END: Duration = Duration::from_secs(30);
/// Share of the link's rate, and the time for which the link must carry it to count as full again.
const FILLED: f64 = 0.85;
const FILLED_FOR: Duration = Duration::from_millis(500);

/// Parameters of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    kind: Kind,
    rate: Rate,
    rtt: Duration,
    queue: Duration,
    loss: f64,
}

impl serde::Serialize for Cell {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let Self { kind, rate, rtt, queue, loss } = self;
        let (rtt, queue) = (rtt.as_millis(), queue.as_millis());
        json!({ "controller": kind.name(), "kbps": rate.as_bps() / 1_000, "rtt_ms": rtt, "queue_ms": queue, "loss": loss })
            .serialize(out)
    }
}

/// Results of a trial.
#[derive(Clone, Debug, serde::Serialize)]
struct Measured {
    /// Share of the link's capacity used by packets that it did not lose.
    used: f64,
    /// Queueing delay in ms: median, 95th and 99th percentile.
    queued: [f64; 3],
    /// Share of packets dropped by the full queue.
    dropped: f64,
    /// Time until the link was full again, in s.
    back: f64,
}

fn at(time: Duration) -> Instant {
    Instant::ZERO + time
}

/// Runs a trial.
fn trial(cell: &Cell, seed: u64, sabotage: Option<Sabotage>) -> Measured {
    let &Cell { kind, rate, rtt, queue, loss } = cell;
    let kind = if sabotage == Some(FILLING) { Kind::Cubic } else { kind };
    let offered = if sabotage == Some(IDLE) { 1.0 / 3.0 } else { OFFERED };
    let mut rng =
        Rng::from_seed(seed ^ rate.as_bps() << 20 ^ rtt.as_nanos() ^ queue.as_nanos() << 8 ^ (loss * 1e3) as u64);
    let mut network = Network::new(rng.next_u64());
    let (here, there): (SocketAddr, SocketAddr) = (([10, 0, 0, 1], 5_004).into(), ([10, 0, 0, 2], 5_004).into());
    let (from, to) = (network.machine(here.ip()), network.machine(there.ip()));
    let quarter = Rate::from_bps(rate.as_bps() / 4);
    let trace = RateTrace::new(vec![
        (Duration::ZERO, rate),
        (SLOWER, quarter),
        (BACK, if sabotage == Some(GONE) { quarter } else { rate }),
    ]);
    let forward = LinkConfig {
        capacity: Capacity::Trace(trace.expect("times increase")),
        queue: Limit::Bytes(rate.bytes_in(queue)),
        delay: rtt / 2,
        loss: if loss > 0.0 { Loss::Bernoulli { p: loss } } else { Loss::None },
        ..LinkConfig::default()
    };
    let (way, _) = network.connect(from, to, forward, LinkConfig::with_delay(rtt / 2));

    let interval = Duration::from_secs_f64(rate.time_for(PAYLOAD as u64).as_secs_f64() / offered);
    let source = Cbr::new(interval, PAYLOAD, OnFull::Skip)
        .with_latency(DEADLINE)
        .describing(|n| AduMeta { frame: FrameId(n as u32 + 1), ..AduMeta::default() });
    let chain = Chain::default().then(Deadlines).then(Dependencies::default()).then(Frames::new(QueueLimit::Deadlines));
    let stream = Stream::new(source).choice(Box::new(chain));
    let caller = Dccp::caller(there, stream, DccpSettings::default(), rng.fork());
    let listener = Dccp::listener(|| Stream::new(Sink), DccpSettings::default(), rng.fork());
    let sender = network.place(from, 5_004, kind, caller);
    let receiver = network.place(to, 5_004, kind, listener);
    network.run_until(at(MEASURED_FROM));
    let before = *network.link(way).counters();
    network.run_until(at(SLOWER));
    let after = *network.link(way).counters();
    network.run_until(at(END));

    let opened = "a connection over a link that loses one packet in twenty opens";
    let journal = network.host(from).agent(sender).session().expect(opened).journal();
    let arrivals = network.host(to).agent(receiver).session().map(|session| session.arrivals());
    let came = arrivals.map(|arrivals| arrivals.first_by_seq(journal.adus().len())).unwrap_or_default();
    let capacity = rate.bytes_in(SLOWER - MEASURED_FROM) as f64;
    let packets = (after.packets_out - before.packets_out).max(1);
    let wire = (after.bytes_out - before.bytes_out) / packets;
    let own_time = rtt / 2 + rate.time_for(wire);
    let mut queued = Vec::new();
    let mut filled = Vec::new();
    for (adu, came) in journal.adus().iter().zip(came) {
        let (Some(left), Some(came)) = (adu.left.first(), came) else { continue };
        if (at(MEASURED_FROM)..at(SLOWER)).contains(left) {
            queued.push(came.saturating_since(*left).saturating_sub(own_time).as_secs_f64() * 1e3);
        }
        if came >= at(BACK) {
            filled.push(came);
        }
    }
    let queued: Sorted = queued.into_iter().collect();
    let share = |bytes: u64| bytes as f64 / capacity;
    Measured {
        used: share(after.bytes_out - before.bytes_out),
        queued: [50, 95, 99].map(|percent| queued.after(percent)),
        dropped: (after.queue_drops - before.queue_drops) as f64 / (after.packets_in - before.packets_in).max(1) as f64,
        back: until_filled(&filled, rate, wire),
    }
}

/// Returns the time from the link's return until it is full again; the rest of the run if never.
fn until_filled(came: &[Instant], rate: Rate, wire: u64) -> f64 {
    let wanted = (FILLED * rate.bytes_in(FILLED_FOR) as f64 / wire as f64) as usize;
    let full = came.windows(wanted.max(1)).find(|window| window[window.len() - 1] - window[0] <= FILLED_FOR);
    let until = full.map_or(at(END), |window| window[0]);
    until.saturating_since(at(BACK)).as_secs_f64()
}
