//! tfrc-fair: TFRC flows beside an equal number of TCP flows: long-run share, and variation of
//! their rates (RFC 5348 §1).

use serde_json::json;
use timeous::core::{Duration, Instant, Rate};
use timeous_net::link::Capacity;
use timeous_testbed::report::plot::Series;

use super::dbat::setup as narrow;
use super::tfrc::{Bottleneck, Flow, FlowMeans, JITTER, PairResult, SIZE, Topology, Variation};
use crate::experiment::{
    Bound, Chart, Choice, Claim, Experiment, Extent, Figure, Findings, Forms, Grid, Metric, Rows, Run, RunError,
    Sabotage, Table, cross, mean, metric, sabotages, setup,
};

/// Pairs of a TFRC flow and a TCP flow, and measured time in seconds: more flows need less time.
const PAIRS: [(usize, u64); 3] = [(1, 120), (4, 60), (16, 40)];
/// Round-trip times in milliseconds.
const RTTS: [u64; 3] = [20, 60, 200];
/// Round-trip times at which one pair is examined in detail.
const CLOSER: [u64; 2] = [RTTS[0], RTTS[2]];
/// Fair share of a flow.
const SHARE: Rate = Rate::from_kbps(640);
/// Queue of the bottleneck, in time.
const QUEUE: Duration = Duration::from_millis(100);
const WARM_UP: Duration = Duration::from_secs(15);
/// Accepted ratio of TFRC's to TCP's long-run rate.
const PASS: Bound = Bound::Within(0.5, 2.0);

/// Bottleneck that the flows share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum Shared {
    /// Capacity of [`SHARE`] per flow, and a queue of [`QUEUE`].
    Share,
    /// Bottleneck of Hasan et al. (§4): 1 Mbit/s for all, and a queue of twice the bandwidth-delay
    /// product.
    Narrow,
}

/// Parameters of a run at one bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
struct Cell {
    shared: Shared,
    pairs: usize,
    seconds: u64,
    rtt: u64,
}

/// Rates in each second of each TFRC flow and each TCP flow, in kbit/s.
struct Outcome {
    tfrc: Vec<Vec<f64>>,
    tcp: Vec<Vec<f64>>,
    /// Path conditions of the TFRC flows and of the TCP flows.
    means: [FlowMeans; 2],
}

/// Rates and their variation from second to second.
const RATES: [Metric<Outcome>; 6] = [
    metric("TFRC, kbit/s", 0, |one| rate(&one.tfrc)),
    metric("TCP, kbit/s", 0, |one| rate(&one.tcp)),
    metric("TFRC / TCP", 2, |one| rate(&one.tfrc) / rate(&one.tcp)),
    metric("variation of TFRC", 2, |one| variation(&one.tfrc)),
    metric("variation of TCP", 2, |one| variation(&one.tcp)),
    metric("TFRC / TCP", 2, |one| variation(&one.tfrc) / variation(&one.tcp)),
];

/// Results of single pairs.
const PAIR: [Metric<PairResult>; 8] = [
    metric("TFRC / TCP", 2, PairResult::share),
    metric("dropped, % of TFRC's", 2, |pair| pair.dropped[0]),
    metric("of TCP's", 2, |pair| pair.dropped[1]),
    metric("loss events a second, TFRC", 2, |pair| pair.events[0]),
    metric("TCP", 2, |pair| pair.events[1]),
    metric("full queue met by TFRC alone", 2, |pair| pair.alone[0]),
    metric("by TCP alone", 2, |pair| pair.alone[1]),
    metric("by both", 2, |pair| pair.both),
];

type Outcomes = Grid<Cell, Outcome>;
/// Results of pairs by round-trip time and single change.
type Pairs = Grid<(u64, Variation), PairResult>;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tfrc-fair",
    title: "TFRC flows beside as many TCP flows",
    source: "RFC 5348 §1",
    paper: "TFRC is \"reasonably fair when competing for bandwidth with TCP flows\", where that is within a factor of \
            two, \"but has a much lower variation of throughput over time\"",
    forms: Forms::Virtual,
    seeds: 5,
    takes: "30 s",
    sabotages: &[UNANSWERED, EXCHANGED],
    run,
};

sabotages! {
    UNANSWERED = "unanswered", "in TFRC's place a flow sends at twice its fair share, whatever is lost"
        => ["1 of each, 60 ms: TFRC's rate over TCP's", "4 of each, 60 ms: TFRC's rate over TCP's"];
    EXCHANGED = "exchanged", "TCP is measured as TFRC, and TFRC as TCP"
        => ["1 of each, 60 ms: TFRC's rate varies", "4 of each, 60 ms: TFRC's rate varies"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let is_least = run.extent == Extent::Least;
    let (pairs, rtts) = if is_least { (&PAIRS[..2], &RTTS[1..2]) } else { (&PAIRS[..], &RTTS[..]) };
    let [outcomes, narrow] = [Shared::Share, Shared::Narrow].map(|shared| {
        let cells = cross(pairs.iter().copied(), rtts.iter().copied());
        let cells = cells.map(|((pairs, seconds), rtt)| Cell { shared, pairs, seconds, rtt });
        let cells = cells.filter(|_| !is_least || shared == Shared::Share);
        run.grid("bottlenecks", cells, |cell, seed| cell.run(seed, run.sabotage))
    });
    let (alone, seconds) = PAIRS[0];
    let closer = if is_least { &[][..] } else { &CLOSER };
    let closer = cross(closer.iter().copied(), Variation::ALL);
    let pairs = run.grid("pairs with one thing otherwise", closer, |&(rtt, otherwise), seed| {
        PairResult::run(seed, &Shared::Share.bottleneck(alone, rtt), otherwise, WARM_UP, seconds)
    });
    let rates = |outcomes: &Outcomes, title| {
        let rows = outcomes.rows().axis("flows of each", |cell| cell.pairs).axis("round trip, ms", |cell| cell.rtt);
        rows.spreads(&RATES).table(title)
    };
    let narrowly = "The same over Hasan et al.'s link: 1 Mbit/s for all, a queue of twice the bandwidth-delay product";
    let single = pairs.rows().axis("round trip, ms", |at| at.0).axis("one pair", |at| at.1.name()).means(&PAIR);
    Ok(Findings {
        setup: choices(),
        tables: vec![
            rates(&outcomes, "Rates and their variation from second to second: mean of the seeds, least and most"),
            means("What the flows met, and what the equation gives for it: means of the seeds", &outcomes),
            single.table("One pair, with one thing otherwise: means of the seeds"),
            rates(&narrow, narrowly),
            means("What they met there", &narrow),
        ],
        figures: vec![figure(&outcomes)?],
        claims: claims(&outcomes),
        notes: if pairs.has_run(|_| true) { notes(&pairs) } else { Vec::new() },
        data: json!({ "bottlenecks": outcomes.numbers(&RATES), "narrow": narrow.numbers(&RATES) }),
    })
}

impl Shared {
    /// Returns the bottleneck for this number of pairs.
    fn bottleneck(self, pairs: usize, rtt: u64) -> Bottleneck {
        let (rate, queue) = match self {
            Self::Share => {
                let rate = Rate::from_bps(2 * pairs as u64 * SHARE.as_bps());
                (rate, (rate.bytes_in(QUEUE) / SIZE as u64) as usize)
            }
            Self::Narrow => (narrow::RATE, narrow::queue(rtt)),
        };
        Bottleneck::plain(Capacity::Fixed(rate), Duration::from_millis(rtt), queue)
    }
}

impl Cell {
    fn run(&self, seed: u64, sabotage: Option<Sabotage>) -> Outcome {
        let bottleneck = self.shared.bottleneck(self.pairs, self.rtt);
        let [first, second] = match sabotage {
            Some(UNANSWERED) => [Flow::SenderTfrc, Flow::Tcp],
            Some(EXCHANGED) => [Flow::Tcp, Flow::Tfrc],
            _ => [Flow::Tfrc, Flow::Tcp],
        };
        let flows = [vec![first; self.pairs], vec![second; self.pairs]].concat();
        let mut topology = Topology::new(seed, &bottleneck, &flows);
        topology.network.run_until(Instant::ZERO + WARM_UP);
        if sabotage == Some(UNANSWERED) {
            topology.steer(Rate::from_bps(2 * SHARE.as_bps()));
        }
        let (mut tfrc, looks) = topology.rates_and_means(self.seconds);
        let tcp = tfrc.split_off(self.pairs);
        let means = [0..self.pairs, self.pairs..2 * self.pairs].map(|flows| FlowMeans::of(&looks, flows));
        Outcome { tfrc, tcp, means }
    }
}

/// Returns the mean rate over flows.
fn rate(flows: &[Vec<f64>]) -> f64 {
    mean(flows.iter().map(|rates| mean(rates.iter().copied())))
}

/// Returns the coefficient of variation of a flow's rate from second to second, averaged over the
/// flows.
fn variation(flows: &[Vec<f64>]) -> f64 {
    let of = |rates: &Vec<f64>| {
        let middle = mean(rates.iter().copied());
        let squares = rates.iter().map(|rate| (rate - middle) * (rate - middle));
        // It is undefined for a flow that received nothing.
        (middle > 0.0).then(|| mean(squares).sqrt() / middle)
    };
    mean(flows.iter().filter_map(of))
}

/// Builds a table of the path conditions that determine the rates.
fn means(title: &str, outcomes: &Outcomes) -> Table {
    let points = outcomes.points();
    let flows = cross(points.iter().collect::<Vec<_>>(), ["TFRC", "TCP"].into_iter().enumerate());
    Rows::of(flows)
        .column("flows of each", |(at, _)| at.point.pairs)
        .column("round trip, ms", |(at, _)| at.point.rtt)
        .column("flow", |(_, (_, name))| *name)
        .number("smoothed round trip, ms", 0, |&(at, (flow, _))| at.mean(|one| one.means[flow].rtt))
        .number("loss events, %", 2, |&(at, (flow, _))| at.mean(|one| 100.0 * one.means[flow].p))
        .number("equation, kbit/s", 0, |&(at, (flow, _))| at.mean(|one| one.means[flow].by_equation[0]))
        .number("the same for b = 2", 0, |&(at, (flow, _))| at.mean(|one| one.means[flow].by_equation[1]))
        .number("rate, kbit/s", 0, |&(at, (flow, _))| at.mean(RATES[flow].value))
        .number("timeouts", 1, |&(at, (flow, _))| at.mean(|one| one.means[flow].timeouts))
        .table(title)
}

/// Returns notes that explain the tables.
fn notes(pairs: &Pairs) -> Vec<String> {
    let at = |otherwise, value: &dyn Fn(&PairResult) -> f64, digits: usize| {
        let each = CLOSER.map(|rtt| format!("{:.digits$}", pairs.mean(&(rtt, otherwise), value)));
        each.join(", ")
    };
    let share = |otherwise| at(otherwise, &PairResult::share, 2);
    let odds = |otherwise| at(otherwise, &|single: &PairResult| single.dropped[1] / single.dropped[0], 1);
    let often = |otherwise| at(otherwise, &|single: &PairResult| single.events[1] / single.events[0], 2);
    let lost = |flow: usize| at(Variation::Nothing, &|single: &PairResult| single.drops_an_event[flow], 1);
    let (plain, paced) = (Variation::Nothing, Variation::PacedTcp);
    let each = CLOSER.map(|rtt| rtt.to_string()).join(" and ");
    let plainly = || pairs.of(|at| at.1 == plain);
    let (more, all) = plainly().fold((0, 0), |sum, single| {
        let (more, all) = single.more_than_three;
        (sum.0 + more, sum.1 + all)
    });
    let at_once = plainly().map(|single| single.at_once).max().unwrap_or(0);
    vec![
        format!(
            "Why TCP meets more loss events a packet than TFRC where each has one flow (round trips of {each} ms, in this order). A \
             packet of TCP finds the drop-tail queue full {} times as often as one of TFRC. TCP's packets come in clusters, as \
             acknowledgements and its own growth send them, TFRC's evenly: where TCP is paced it is {} times, and TFRC has {} times \
             TCP's rate instead of {}; with RED, which drops by chance, it is {} times, and TFRC has {}.",
            odds(plain),
            odds(paced),
            share(paced),
            share(plain),
            odds(Variation::Red),
            share(Variation::Red),
        ),
        format!(
            "The rest amplifies it. Of the times at which the queue is full, both flows meet {}: events come by time, and TCP has {} times as \
             many a second as TFRC. A packet of the slower flow has more of them, for which the equation gives it less, so that it is \
             slower still (Rhee & Xu 2005, \"Limitations of equation-based congestion control\": different sending rates make competing \
             flows meet different loss event rates, which greatly amplifies the first difference).",
            at(plain, &|single: &PairResult| single.both, 2),
            often(plain),
        ),
        format!(
            "Delayed acknowledgements, which have TCP send in pairs, are a part of it at most: with each packet acknowledged TFRC has {} \
             times TCP's rate. Nor does the grouping of losses by round trips hide much: an event of TFRC's is {} packets dropped, of \
             TCP's {}. With jitter before the queue it is {} times, with a longer queue {}.",
            share(Variation::QuickTcp),
            lost(0),
            lost(1),
            share(Variation::Jitter),
            share(Variation::LongQueue),
        ),
        format!(
            "Its clusters are no fault of this TCP's. By the journeys of its packets one to three leave at once, {at_once} at most, and more than \
             three {more} times of {all}: the two that an acknowledgement of two lets go, and one by which the window grows, which is the one that \
             finds the queue full most often. Nor does a burst follow a recovery."
        ),
        format!(
            "That packets come evenly is worth that much by itself: a paced TCP in TFRC's place has {} times the other TCP's rate, one that is \
             not paced {}. Nor is it how this TCP finds losses: by RFC 6675 in place of RACK's clock TFRC has {}. How much it is depends on \
             the phases of the flows: without any jitter {}.",
            share(Variation::OnePacedTcp),
            share(Variation::Tcps),
            share(Variation::ClassicTcp),
            share(Variation::NoJitter),
        ),
        "Over Hasan et al.'s link the queue holds 5, 14 and 48 packets. With four pairs a fair share at 20 ms is about a packet a round \
         trip, and with sixteen less: TFRC starves there, as the equation gives that little for what it meets. No bound is set for these."
            .to_owned(),
        "RFC 5348 names no setup: \"a factor of two of the sending rate of a TCP flow under the same conditions\". A drop-tail queue of 16 \
         packets with one pair is no such thing: who sends evenly meets other conditions in it than who does not. More flows, RED or pacing bring them \
         nearer. The setup and the bound stay as they are."
            .to_owned(),
    ]
}

fn claims(outcomes: &Outcomes) -> Vec<Claim> {
    let claims = outcomes.points().into_iter().flat_map(|at| {
        let of = format!("{} of each, {} ms", at.point.pairs, at.point.rtt);
        let share = Claim::mean(format!("{of}: TFRC's rate over TCP's"), "0.5 to 2", 2, at.stats(RATES[2].value));
        let (ours, theirs) = (at.mean(RATES[3].value), at.mean(RATES[4].value));
        let (what, said) = (format!("{of}: TFRC's rate varies less than TCP's"), format!("{ours:.2}, TCP {theirs:.2}"));
        [share.pass(PASS), Claim::order(what, "\"much lower\"", said, ours < theirs)]
    });
    claims.collect()
}

/// Plots one pair of the first seed.
fn figure(outcomes: &Outcomes) -> Result<Figure, RunError> {
    let shown = outcomes.first(|cell| cell.pairs == 1 && cell.rtt == RTTS[1]);
    let line = |name: &str, rates: &[f64]| {
        let points = rates.iter().enumerate().map(|(second, &rate)| (second as f64 + 0.5, rate)).collect();
        Series::new(name, points)
    };
    let title = format!("One TFRC beside one TCP, {} ms", RTTS[1]);
    let caption = "A second at a time, the first seed. A fair share is 640 kbit/s.";
    Chart { title: &title, x: "time, s", y: "kbit/s", caption }
        .draw(shown.into_iter().flat_map(|one| [line("TFRC", &one.tfrc[0]), line("TCP", &one.tcp[0])]))
}

fn choices() -> Vec<Choice> {
    setup! {
        ours "topology": "dumbbell, a pair of machines for each flow" => "no two flows share a Congestion Manager";
        ours "bottleneck": "{} kbit/s for each flow, drop-tail, a queue of {} ms",
            SHARE.as_bps() / 1_000, QUEUE.as_millis()
            => "windows of ten to twenty packets at each round trip, however many flows there are";
        paper "the narrow bottleneck": "1 Mbit/s for all, drop-tail, a queue of twice the bandwidth-delay product"
            => "Hasan et al. §4, reported beside: that paper has no flow of TFRC beside one of TCP alone";
        ours "flows": "1, 4 and 16 of TFRC, and as many of TCP: 2 to 32; each with as much to send as it may"
            => "from two on a link to many";
        ours "jitter": "± {} ms on each host's link", JITTER.as_millis()
            => "without it the same flow meets the full queue each time";
        ours "beginning": "each flow at random within the first second" => "nobody is the first each time";
        ours "packets": "{SIZE} bytes of data" => "the same for both";
        ours "TFRC": "DCCP's CCID 3" => "loss events are found at the receiver, as the RFC has it";
        ours "TCP": "NewReno with SACK" => "what the equation is a model of";
        ours "counted": "after {} s: 120 s of one pair, 60 of four, 40 of sixteen; variation from second to second",
            WARM_UP.as_secs_f64() => "many flows tell as much in less time";
    }
}
