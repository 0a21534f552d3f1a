//! short-beside: a live stream beside queue-filling flows: its share, its frames, and its cost to
//! the other flows. Bounds were set before the first measurement.

use std::net::SocketAddr;

use timeous::Options;
use timeous::core::{AduMeta, DropReason, Duration, Fate, FrameId, Instant, Priority, Rate, Rng};
use timeous_cm::Kind;
use timeous_dccp::{Ccid, Config as DccpConfig, Parity};
use timeous_host::sources::{Bulk, Cbr, Frames, OnFull};
use timeous_host::{Dccp, DccpSettings, Feed, Handle, Machine, Sink, Socket, Stream, Tcp};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Jitter, Limit, QueueKind};
use timeous_net::sim::{Dumbbell, Network, NodeId};
use timeous_tcp::Config as TcpConfig;

use super::machines::{Machines, address};
use crate::experiment::{
    Choice, Claim, Experiment, Extent, Findings, Forms, Grid, Metric, Rows, Run, RunError, Sabotage, Sorted, Table,
    cross, metric, sabotages, setup,
};
use crate::experiments::bloat::stream::{ReferencePattern, stream};
use crate::experiments::bloat::trial::outcome_by;
use crate::experiments::fault::{self, Fault};

/// Controllers; with a single seed the first one only.
const KINDS: [Kind; 7] = [Kind::Live, Kind::Bbr, Kind::Aimd, Kind::NewReno, Kind::Cubic, Kind::Tfrc, Kind::Copa];
const FLOWS: [u8; 2] = [1, 4];
/// Least rate of the other flows, relative to an even share.
const OTHERS: f64 = 0.5;
/// Least share of frames decodable in time: where a full queue leaves time for them, and where it
/// takes nearly all of it.
const SHORT: f64 = 0.5;
const FULL: f64 = 0.25;

/// Metrics of a greedy and of a live stream.
const GREEDY: [Metric<Measured>; 5] = [
    metric("its share, of an even one", 2, |one| one.share),
    metric("each other's, of an even one", 2, |one| one.others),
    metric("link used, %", 0, |one| 100.0 * one.used),
    metric("in queue, ms: median", 0, |one| one.queued[0]),
    metric("95 %", 0, |one| one.queued[1]),
];
const LIVE: [Metric<Measured>; 8] = [
    metric("decodable in time, %", 1, |one| 100.0 * one.decodable),
    GREEDY[0],
    GREEDY[1],
    GREEDY[3],
    GREEDY[4],
    metric("given up as too late", 0, |one| one.given_up[0] as f64),
    metric("as the reference was gone", 0, |one| one.given_up[1] as f64),
    metric("left late", 0, |one| one.late as f64),
];

/// Results by flow, queue and number of CUBIC flows.
type Flows = Grid<Cell, Measured>;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "short-beside",
    title: "A live stream beside one and four CUBIC flows, by controller",
    source: "Arun & Balakrishnan (Copa) §2.2, §4; the grid is ours",
    paper: "Copa in its competitive mode has about the share of a TCP flow",
    forms: Forms::Virtual,
    seeds: 3,
    takes: "2 min",
    sabotages: &[FIXED, IDLE, PATIENT],
    run,
};

sabotages! {
    FIXED = "fixed", "the window stays at 50 packets, whatever the queue"
        => ["what each other has then, of an even share, beside 1 CUBIC, 0.25 deadlines"];
    IDLE = "idle", "the greedy stream takes an eighth of the link"
        => ["share of the controller for live streams, of an even one, beside 1 CUBIC, 0.25 deadlines"];
    PATIENT = "patient", "the live stream knows no deadlines and makes no late choice"
        => ["packets that left after their deadline", "share of frames decodable in time, beside 1 CUBIC, 0.25"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let kinds = if run.seeds > 1 { &KINDS[..] } else { &KINDS[..1] };
    let streams = kinds.iter().flat_map(|&kind| [MeasuredFlow::Live(kind), MeasuredFlow::Greedy(kind)]);
    let is_least = run.extent == Extent::Least;
    // Behind the second a stream without deadlines is late, behind the first only by chance.
    let queues = if is_least { &BottleneckQueue::ALL[..2] } else { &BottleneckQueue::ALL };
    let numbers = if is_least { &FLOWS[..1] } else { &FLOWS };
    let places = cross(queues.iter().copied(), numbers.iter().copied()).collect::<Vec<_>>();
    let cells = cross(streams.chain([MeasuredFlow::Tcp]), places);
    let cells = cells.map(|(who, (queue, flows))| Cell { who, flows, queue });
    let flows = run.grid("bottlenecks", cells, |cell, seed| trial(cell, seed, run.sabotage));
    let greedy = kinds.iter().map(|&kind| MeasuredFlow::Greedy(kind)).chain([MeasuredFlow::Tcp]);
    let live = kinds.iter().map(|&kind| MeasuredFlow::Live(kind));
    Ok(Findings {
        setup: choices(),
        tables: vec![
            table(&flows, "With always something to send", greedy.collect(), &GREEDY),
            table(&flows, "A live stream", live.collect(), &LIVE),
        ],
        claims: claims(&flows),
        notes: vec![
            "Where the queue holds four deadlines and others fill it, nothing can be in time whatever is sent."
                .to_owned(),
        ],
        data: flows.numbers(&LIVE),
        ..Findings::default()
    })
}

pub(super) fn choices() -> Vec<Choice> {
    setup! {
        ours "link": "as many times 1.5 Mbit/s as there are flows, the stream included; 60 ms"
            => "an even share is what the stream needs";
        ours "queue": "drop-tail of 0.25, 1 and 4 deadlines of 300 ms; CoDel (RFC 8289) with room for 4"
            => "CUBIC fills each of them";
        ours "beside": "1 and 4 CUBIC flows that last, begun within the first second"
            => "the stream begins at 3 s, so that it finds the queue full";
        ours "live stream": "25 frames/s in groups of 30, 1.5 Mbit/s; the default policy, repair and parity"
            => "what a sender has by default";
        ours "greedy stream": "packets of 1100 bytes without deadlines, 1.5 times the link"
            => "the controller's share, whatever a policy gives up";
        ours "time": "60 s, measured from 10 s on" => "CUBIC has found its window";
        ours "with one seed": "the controller for live streams alone" => "a test has to be short";
    }
}

/// Returns the numbers of CUBIC flows and the queues that were run, in the order of the tables.
fn places(measured: &Flows) -> impl Iterator<Item = (u8, BottleneckQueue)> {
    cross(FLOWS, BottleneckQueue::ALL).filter(|place| measured.has_run(|cell| (cell.flows, cell.queue) == *place))
}

fn table(measured: &Flows, title: &str, who: Vec<MeasuredFlow>, metrics: &[Metric<Measured>]) -> Table {
    let cell = |((flows, queue), who)| Cell { who, flows, queue };
    let mean = |cell: &Cell, metric: &Metric<Measured>| {
        let mean = measured.mean(cell, metric.value);
        if mean.is_nan() { "—".to_owned() } else { format!("{mean:.*}", metric.digits) }
    };
    Rows::of(cross(places(measured), who).map(cell))
        .column("beside", |cell| format!("{} CUBIC", cell.flows))
        .column("queue", |cell| cell.queue.name())
        .column("controller", |cell| cell.who.controller())
        .each(metrics, |metric| metric.head.to_owned(), |cell, metric| mean(cell, metric))
        .table(title)
}

fn claims(measured: &Flows) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (flows, queue) in places(measured) {
        let place = format!("beside {flows} CUBIC, {}", queue.name());
        let own = Cell { who: MeasuredFlow::Greedy(Kind::Live), flows, queue };
        let share = measured.mean(&own, |one| one.share);
        // "Generally within a factor of two of the sending rate of a TCP flow" (RFC 5348 §1).
        let claim = Claim::number(
            format!("share of the controller for live streams, of an even one, {place}"),
            "about 1",
            2,
            share,
        );
        claims.push(claim.pass(0.5..=2.0));
        let others = measured.mean(&own, |one| one.others);
        let alone = measured.mean(&Cell { who: MeasuredFlow::Tcp, ..own }, |one| one.others);
        let what = format!("what each other has then, of an even share, {place}");
        let said = format!("{others:.2}; beside one CUBIC flow more: {alone:.2}");
        claims.push(Claim::new(what, "—", said, others).pass(OTHERS..));
    }
    for (flows, queue) in places(measured) {
        let (least, aim) = match queue {
            BottleneckQueue::Tail(deadlines) if deadlines > 1.0 => continue,
            BottleneckQueue::Tail(1.0) => (FULL, 0.5),
            BottleneckQueue::Tail(_) | BottleneckQueue::Codel => (SHORT, 0.8),
        };
        let own = Cell { who: MeasuredFlow::Live(Kind::Live), flows, queue };
        let what = format!("share of frames decodable in time, beside {flows} CUBIC, {}", queue.name());
        let claim = Claim::number(what, "—", 2, measured.mean(&own, |one| one.decodable));
        claims.push(claim.pass(least..).aim(aim..));
    }
    let late = measured.outcomes().map(|one| one.late as u64).sum();
    let sent = measured.outcomes().map(|one| one.sent).sum();
    claims.push(Claim::count("packets that left after their deadline", "0", late).among(sent).pass(..=0.0));
    claims
}

/// Rate of the stream in kbit/s, equal to the even share of each flow.
const KBPS: u64 = 1_500;
/// Time from the hand-over of a frame to its deadline.
const DEADLINE: Duration = Duration::from_millis(300);
/// Round-trip time without queueing.
const RTT: Duration = Duration::from_millis(60);
/// Bytes of a packet of the stream.
const PACKET: usize = 1_100;
/// Start of the stream, start of the measurement, and end.
const BEGIN: Duration = Duration::from_secs(3);
const MEASURED_FROM: Duration = Duration::from_secs(10);
const END: Duration = Duration::from_secs(60);

/// Measured flow beside the CUBIC flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MeasuredFlow {
    /// Stream of frames with deadlines.
    Live(Kind),
    /// Greedy flow of packets without deadlines.
    Greedy(Kind),
    /// Further CUBIC flow.
    Tcp,
}

impl MeasuredFlow {
    /// Returns the controller's name for output.
    fn controller(self) -> String {
        match self {
            Self::Live(kind) | Self::Greedy(kind) => kind.to_string(),
            Self::Tcp => "one CUBIC flow more".to_owned(),
        }
    }

    fn is_live(self) -> bool {
        matches!(self, Self::Live(_))
    }
}

impl serde::Serialize for MeasuredFlow {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(&format_args!("{}{}", if self.is_live() { "live, " } else { "greedy, " }, self.controller()))
    }
}

/// Queue of the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
enum BottleneckQueue {
    /// Drop-tail, with this length in deadlines.
    Tail(f64),
    /// CoDel, with room for four deadlines.
    Codel,
}

impl BottleneckQueue {
    const ALL: [Self; 4] = [Self::Tail(0.25), Self::Tail(1.0), Self::Tail(4.0), Self::Codel];

    fn name(self) -> String {
        match self {
            Self::Tail(deadlines) => format!("{deadlines} deadlines"),
            Self::Codel => "CoDel".to_owned(),
        }
    }
}

/// Parameters of a trial.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
struct Cell {
    who: MeasuredFlow,
    /// Number of CUBIC flows.
    flows: u8,
    queue: BottleneckQueue,
}

/// Results of a trial.
#[derive(Clone, Debug)]
struct Measured {
    /// Received bytes of the measured flow, relative to an even share of all received bytes.
    share: f64,
    /// Received bytes of all flows, relative to the link's capacity without headers.
    used: f64,
    /// Received bytes of the mean CUBIC flow beside it, relative to an even share of the link.
    others: f64,
    /// Queueing delay of a stream: median and 95th percentile, in ms.
    queued: [f64; 2],
    /// Share of a live stream's frames that were decodable in time.
    decodable: f64,
    /// Packets of a live stream dropped by the sender: too late for their deadline, and with a lost
    /// reference.
    given_up: [usize; 2],
    /// Packets that left after their deadline.
    late: usize,
    /// Packets of a live stream that left.
    sent: usize,
}

fn at(time: Duration) -> Instant {
    Instant::ZERO + time
}

fn link_rate(flows: u8) -> Rate {
    Rate::from_kbps(KBPS * (u64::from(flows) + 1))
}

fn middle(trial: &Cell) -> LinkConfig {
    let rate = link_rate(trial.flows);
    let (deadlines, kind) = match trial.queue {
        BottleneckQueue::Tail(deadlines) => (deadlines, QueueKind::DropTail),
        BottleneckQueue::Codel => (4.0, QueueKind::Codel(Default::default())),
    };
    LinkConfig {
        capacity: Capacity::Fixed(rate),
        queue: Limit::Bytes(rate.bytes_in(Duration::from_secs_f64(DEADLINE.as_secs_f64() * deadlines))),
        kind,
        delay: RTT / 2,
        ..LinkConfig::default()
    }
}

/// Returns the stream and its receiving end.
fn ends(kind: Kind, is_live: bool, sabotage: Option<Sabotage>, flows: u8, rng: &mut Rng) -> (Dccp, Dccp) {
    let is_patient = sabotage == Some(PATIENT);
    let offered = if sabotage == Some(IDLE) { 0.125 } else { 1.5 };
    let mps = PACKET + DccpConfig::HEADER_ROOM;
    let connection = DccpConfig { mps, ecn: false, ..DccpConfig::default() };
    let (parity, sending) = if is_live {
        let begun = |mut frame: timeous_host::sources::Frame| {
            frame.at += BEGIN;
            frame
        };
        let frames = stream(ReferencePattern::Gop(30), KBPS, END - BEGIN, &mut rng.fork()).into_iter().map(begun);
        let source = Frames::new(frames, PACKET);
        let source = if is_patient { source } else { source.with_latency(DEADLINE) };
        let mut options = Options::default();
        options.latency = DEADLINE;
        let stream = Stream::new(source).slots(4_096);
        (Parity::Auto, if is_patient { stream } else { stream.choice(options.choice()).repair(Priority(1)) })
    } else {
        let interval = Duration::from_secs_f64(link_rate(flows).time_for(PACKET as u64).as_secs_f64() / offered);
        let one = |n| AduMeta { frame: FrameId(n as u32 + 1), ..AduMeta::default() };
        let source = Cbr::new(interval, PACKET, OnFull::Skip).starting_at(at(BEGIN)).describing(one);
        (Parity::Off, Stream::new(source).slots(64))
    };
    let connection =
        DccpConfig { parity, ..connection }.with_ccids(&[if kind == Kind::Tfrc { Ccid::Ccid3 } else { Ccid::Ccid2 }]);
    let settings = DccpSettings { connection, ..DccpSettings::default() };
    let there = SocketAddr::new(address(2, 1), 5_004);
    let listener = Dccp::listener(|| Stream::new(Sink), settings.clone(), rng.fork());
    (Dccp::caller(there, sending, settings, rng.fork()), listener)
}

/// Ends of the measured flow.
enum FlowEnds {
    Stream(Handle<Dccp>, Handle<Dccp>),
    Tcp(Handle<Tcp>),
}

/// Runs a trial.
fn trial(cell: &Cell, seed: u64, sabotage: Option<Sabotage>) -> Measured {
    let Cell { who, flows, queue } = *cell;
    let place = BottleneckQueue::ALL.iter().position(|one| *one == queue).unwrap_or_default() as u64;
    let mut rng = Rng::from_seed(seed ^ u64::from(flows) << 20 ^ place << 40);
    let mut network: Network<Machine> = Network::new(rng.next_u64());
    let rate = link_rate(flows);
    let jitter = Jitter { spread: rate.time_for(1_500) / 2, ..Jitter::default() };
    let access = LinkConfig { jitter, ..LinkConfig::default() };
    let back = LinkConfig::with_delay(RTT / 2);
    let Dumbbell { left, right, .. } = network.pairs(flows + 1, &access, middle(cell), back);

    let mut callers = Vec::new();
    for n in 1..=usize::from(flows) {
        callers.push((left[n], tcp(&mut network, [left[n], right[n]], n as u8 + 1, &mut rng)));
    }
    let ends = match who {
        MeasuredFlow::Tcp => FlowEnds::Tcp(tcp(&mut network, [left[0], right[0]], 1, &mut rng)),
        MeasuredFlow::Live(kind) | MeasuredFlow::Greedy(kind) => {
            let fault = (sabotage == Some(FIXED)).then_some(Fault::Fixed);
            let (caller, listener) = ends(kind, who.is_live(), sabotage, flows, &mut rng);
            let manager = || fault::manager(kind, fault);
            let caller = network.place(left[0], 5_004, manager(), caller);
            FlowEnds::Stream(caller, network.place(right[0], 5_004, manager(), listener))
        }
    };
    let acked = |network: &Network<Machine>, node: NodeId, caller: Handle<Tcp>| {
        network.host(node).agent(caller).session().map_or(0, |session| session.statistics().bytes_acked)
    };
    let theirs =
        |network: &Network<Machine>| callers.iter().map(|&(node, caller)| acked(network, node, caller)).sum::<u64>();
    let own = |network: &Network<Machine>, from, to| match &ends {
        FlowEnds::Tcp(caller) => acked(network, left[0], *caller),
        FlowEnds::Stream(_, receiver) => {
            let session = network.host(right[0]).agent(*receiver).session();
            session.map_or(0, |session| session.arrivals().bytes_between(from, to))
        }
    };
    let (from, to) = (at(MEASURED_FROM), at(END));
    network.run_until(from);
    let before = (theirs(&network), own(&network, from, from));
    network.run_until(to);
    let (theirs, own) = (theirs(&network) - before.0, own(&network, from, to) - before.1);
    let even = rate.bytes_in(END - MEASURED_FROM) as f64 / f64::from(flows + 1);
    let mut measured = Measured {
        share: own as f64 * f64::from(flows + 1) / (own + theirs).max(1) as f64,
        used: (own + theirs) as f64 / even / f64::from(flows + 1),
        others: theirs as f64 / f64::from(flows) / even,
        queued: [f64::NAN; 2],
        decodable: f64::NAN,
        given_up: [0; 2],
        late: 0,
        sent: 0,
    };
    if let FlowEnds::Stream(sender, receiver) = ends {
        evaluate_stream(&network, (left[0], sender), (right[0], receiver), cell, &mut measured);
    }
    measured
}

fn tcp(network: &mut Network<Machine>, [left, right]: [NodeId; 2], n: u8, rng: &mut Rng) -> Handle<Tcp> {
    let (seed, start) = (rng.next_u64(), at(Duration::from_nanos(rng.below(1_000_000_000))));
    let listener = Tcp::listener(Feed::none, TcpConfig::default(), Rng::from_seed(seed));
    network.place(right, 6_000, Kind::Cubic, listener);
    let (remote, feed) = (SocketAddr::new(address(2, n), 6_000), Socket::new(Bulk::endless(1_448)));
    let caller = Tcp::caller(remote, start, feed, TcpConfig::default(), Rng::from_seed(!seed));
    network.place(left, 9_000, Kind::Cubic, caller)
}

/// Evaluates the stream's packets and frames.
fn evaluate_stream(
    network: &Network<Machine>,
    (here, sender): (NodeId, Handle<Dccp>),
    (there, receiver): (NodeId, Handle<Dccp>),
    cell: &Cell,
    measured: &mut Measured,
) {
    let sender = network.host(here).agent(sender).session();
    let receiver = network.host(there).agent(receiver).session();
    let (Some(sender), Some(receiver)) = (sender, receiver) else { return };
    let journal = sender.journal();
    let own_time = RTT / 2 + link_rate(cell.flows).time_for(PACKET as u64 + 40);
    let came = receiver.arrivals().first_by_seq(journal.adus().len());
    let mut queued: Vec<f64> = Vec::new();
    for (adu, came) in journal.adus().iter().zip(came) {
        let (Some(left), Some(came)) = (adu.left.first(), came) else { continue };
        if came >= at(MEASURED_FROM) {
            queued.push(came.saturating_since(*left).saturating_sub(own_time).as_secs_f64() * 1e3);
        }
    }
    let queued: Sorted = queued.into_iter().collect();
    measured.queued = [50, 95].map(|percent| queued.after(percent));
    let is_late = |meta: &AduMeta, at: Instant| cell.who.is_live() && at > meta.enqueued + DEADLINE;
    measured.late = journal.adus().iter().filter(|adu| adu.left.iter().any(|&left| is_late(&adu.meta, left))).count();
    if cell.who.is_live() {
        let outcome = outcome_by(journal, receiver.arrivals(), MEASURED_FROM - BEGIN, is_late);
        measured.decodable = outcome.decodable as f64 / outcome.frames as f64;
        measured.sent = journal.copies();
        measured.given_up =
            [DropReason::TooLate, DropReason::ReferenceLost].map(|reason| journal.count(Fate::Dropped(reason)));
    }
}
