//! tfrc-fair: TFRC flows beside an equal number of TCP flows: long-run share, and variation of
//! their rates (RFC 5348 §1).

use std::cell::RefCell;

use serde_json::json;
use timeous::core::{Duration, Instant, Rate};
use timeous_net::link::Capacity;

use super::dbat::Spread;
use super::dbat::setup as narrow;
use super::tfrc::pair::{PairResult, Variation};
use super::tfrc::path_means::FlowMeans;
use super::tfrc::topology::{Bottleneck, Flow, JITTER, SIZE, Topology};
use crate::experiment::{About, Bound, Choice, Claim, Experiment, Figure, Findings, Forms, LabError, Run, Table};
use crate::report::plot::{Lines, Series};

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

pub(crate) struct TfrcFair;

/// Bottleneck that the flows share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shared {
    /// Capacity of [`SHARE`] per flow, and a queue of [`QUEUE`].
    Share,
    /// Bottleneck of Hasan et al. (§4): 1 Mbit/s for all, and a queue of twice the bandwidth-delay
    /// product.
    Narrow,
}

/// Parameters of a run at one bottleneck.
#[derive(Clone, Copy, Debug)]
struct Cell {
    shared: Shared,
    pairs: usize,
    seconds: u64,
    rtt: u64,
    seed: u64,
}

/// Rates in each second of each TFRC flow and each TCP flow, in kbit/s.
struct Outcome {
    cell: Cell,
    tfrc: Vec<Vec<f64>>,
    tcp: Vec<Vec<f64>>,
    /// Path conditions of the TFRC flows and of the TCP flows.
    means: [FlowMeans; 2],
}

impl Experiment for TfrcFair {
    fn about(&self) -> About {
        About {
            name: "tfrc-fair",
            title: "TFRC flows beside as many TCP flows",
            source: "RFC 5348 §1",
            paper: "TFRC is \"reasonably fair when competing for bandwidth with TCP flows\", where that is within a factor of \
                    two, \"but has a much lower variation of throughput over time\"",
            forms: Forms::Virtual,
            seeds: 5,
            takes: "30 s",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        let [outcomes, narrow] = [Shared::Share, Shared::Narrow].map(|shared| {
            let mut cells = Vec::new();
            for (pairs, seconds) in PAIRS {
                for rtt in RTTS {
                    cells.extend(run.seeds().map(|seed| Cell { shared, pairs, seconds, rtt, seed }));
                }
            }
            run.each("bottlenecks", &cells, Cell::run)
        });
        let (alone, seconds) = PAIRS[0];
        let mut others = Vec::new();
        for rtt in CLOSER {
            let plain = Shared::Share.bottleneck(alone, rtt);
            let each = |otherwise| run.seeds().map(move |seed| (otherwise, seed));
            others.extend(
                Variation::ALL
                    .into_iter()
                    .flat_map(each)
                    .map(|(otherwise, seed)| (rtt, plain.clone(), otherwise, seed)),
            );
        }
        let singles = run.each("pairs with one thing otherwise", &others, |(rtt, plain, otherwise, seed)| {
            (*rtt, *otherwise, PairResult::run(*seed, plain, *otherwise, WARM_UP, seconds))
        });
        Ok(Findings {
            setup: choices(),
            tables: vec![
                table(RATES, &outcomes),
                means("What the flows met, and what the equation gives for it: means of the seeds", &outcomes),
                otherwise(&singles),
                table(
                    "The same over Hasan et al.'s link: 1 Mbit/s for all, a queue of twice the bandwidth-delay product",
                    &narrow,
                ),
                means("What they met there", &narrow),
            ],
            figures: vec![figure(&outcomes)?],
            claims: claims(&outcomes),
            notes: notes(&singles),
            data: json!({ "bottlenecks": data(&outcomes), "narrow": data(&narrow) }),
        })
    }
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
    fn run(&self) -> Outcome {
        let bottleneck = self.shared.bottleneck(self.pairs, self.rtt);
        let flows = [vec![Flow::Tfrc; self.pairs], vec![Flow::Tcp; self.pairs]].concat();
        let mut topology = Topology::new(self.seed, &bottleneck, &flows);
        topology.network.run_until(Instant::ZERO + WARM_UP);
        let looks = RefCell::new(Vec::new());
        let count = |topology: &Topology| {
            looks.borrow_mut().push(topology.means());
            topology.received()
        };
        let mut tfrc = topology.rates(Duration::from_secs(self.seconds), self.seconds, count);
        let (tcp, looks) = (tfrc.split_off(self.pairs), looks.into_inner());
        let means = [0..self.pairs, self.pairs..2 * self.pairs].map(|flows| FlowMeans::of(&looks, flows));
        Outcome { cell: *self, tfrc, tcp, means }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the mean rate over flows.
fn rate(flows: &[Vec<f64>]) -> f64 {
    mean(&flows.iter().map(|rates| mean(rates)).collect::<Vec<_>>())
}

/// Returns the coefficient of variation of a flow's rate from second to second, averaged over the
/// flows.
fn variation(flows: &[Vec<f64>]) -> f64 {
    let of = |rates: &Vec<f64>| {
        let middle = mean(rates);
        let squares: Vec<f64> = rates.iter().map(|rate| (rate - middle) * (rate - middle)).collect();
        // It is undefined for a flow that received nothing.
        (middle > 0.0).then(|| mean(&squares).sqrt() / middle)
    };
    mean(&flows.iter().filter_map(of).collect::<Vec<_>>())
}

impl Outcome {
    fn share(&self) -> f64 {
        rate(&self.tfrc) / rate(&self.tcp)
    }

    fn smoothness(&self) -> f64 {
        variation(&self.tfrc) / variation(&self.tcp)
    }
}

fn over(outcomes: &[Outcome], pairs: usize, rtt: u64, value: impl Fn(&Outcome) -> f64) -> Spread {
    Spread::of(outcomes.iter().filter(|o| o.cell.pairs == pairs && o.cell.rtt == rtt).map(value))
}

const RATES: &str = "Rates and their variation from second to second: mean of the seeds, least and most";

fn table(title: &str, outcomes: &[Outcome]) -> Table {
    let head = [
        "flows of each",
        "round trip, ms",
        "TFRC, kbit/s",
        "TCP, kbit/s",
        "TFRC / TCP",
        "variation of TFRC",
        "variation of TCP",
        "TFRC / TCP",
    ];
    let mut table = Table::new(title, &head);
    for (pairs, _) in PAIRS {
        for rtt in RTTS {
            let spread = |value: fn(&Outcome) -> f64| over(outcomes, pairs, rtt, value);
            table.row([
                pairs.to_string(),
                rtt.to_string(),
                format!("{:.0}", spread(|o| rate(&o.tfrc))),
                format!("{:.0}", spread(|o| rate(&o.tcp))),
                format!("{:.2}", spread(Outcome::share)),
                format!("{:.2}", spread(|o| variation(&o.tfrc))),
                format!("{:.2}", spread(|o| variation(&o.tcp))),
                format!("{:.2}", spread(Outcome::smoothness)),
            ]);
        }
    }
    table
}

/// Builds a table of the path conditions that determine the rates.
fn means(title: &str, outcomes: &[Outcome]) -> Table {
    let head = [
        "flows of each",
        "round trip, ms",
        "flow",
        "smoothed round trip, ms",
        "loss events, %",
        "equation, kbit/s",
        "the same for b = 2",
        "rate, kbit/s",
        "timeouts",
    ];
    let mut table = Table::new(title, &head);
    for (pairs, _) in PAIRS {
        for rtt in RTTS {
            for (flow, name) in ["TFRC", "TCP"].into_iter().enumerate() {
                let of = |value: &dyn Fn(&Outcome) -> f64| over(outcomes, pairs, rtt, value).mean;
                table.row([
                    pairs.to_string(),
                    rtt.to_string(),
                    name.to_owned(),
                    format!("{:.0}", of(&|o| o.means[flow].rtt)),
                    format!("{:.2}", of(&|o| 100.0 * o.means[flow].p)),
                    format!("{:.0}", of(&|o| o.means[flow].by_equation[0])),
                    format!("{:.0}", of(&|o| o.means[flow].by_equation[1])),
                    format!("{:.0}", of(&|o| rate(if flow == 0 { &o.tfrc } else { &o.tcp }))),
                    format!("{:.1}", of(&|o| o.means[flow].timeouts)),
                ]);
            }
        }
    }
    table
}

/// Results of a pair, with round-trip time and single change.
type VariationResult = (u64, Variation, PairResult);

/// Returns the mean over the seeds.
fn of_singles(singles: &[VariationResult], rtt: u64, otherwise: Variation, value: impl Fn(&PairResult) -> f64) -> f64 {
    let of = singles.iter().filter(|(at, other, _)| *at == rtt && *other == otherwise);
    Spread::of(of.map(|(.., single)| value(single))).mean
}

/// Builds a table that explains TCP's higher number of loss events.
fn otherwise(singles: &[VariationResult]) -> Table {
    let head = [
        "round trip, ms",
        "one pair",
        "TFRC / TCP",
        "dropped, % of TFRC's",
        "of TCP's",
        "loss events a second, TFRC",
        "TCP",
        "full queue met by TFRC alone",
        "by TCP alone",
        "by both",
    ];
    let mut table = Table::new("One pair, with one thing otherwise: means of the seeds", &head);
    for rtt in CLOSER {
        for otherwise in Variation::ALL {
            let of = |value: &dyn Fn(&PairResult) -> f64| of_singles(singles, rtt, otherwise, value);
            table.row([
                rtt.to_string(),
                otherwise.name().to_owned(),
                format!("{:.2}", of(&PairResult::share)),
                format!("{:.2}", of(&|single| single.dropped[0])),
                format!("{:.2}", of(&|single| single.dropped[1])),
                format!("{:.2}", of(&|single| single.events[0])),
                format!("{:.2}", of(&|single| single.events[1])),
                format!("{:.2}", of(&|single| single.alone[0])),
                format!("{:.2}", of(&|single| single.alone[1])),
                format!("{:.2}", of(&|single| single.both)),
            ]);
        }
    }
    table
}

/// Returns notes that explain the tables.
fn notes(singles: &[VariationResult]) -> Vec<String> {
    let at = |otherwise, value: &dyn Fn(&PairResult) -> f64, digits: usize| {
        let each = CLOSER.map(|rtt| format!("{:.digits$}", of_singles(singles, rtt, otherwise, value)));
        each.join(", ")
    };
    let share = |otherwise| at(otherwise, &PairResult::share, 2);
    let odds = |otherwise| at(otherwise, &|single: &PairResult| single.dropped[1] / single.dropped[0], 1);
    let often = |otherwise| at(otherwise, &|single: &PairResult| single.events[1] / single.events[0], 2);
    let lost = |flow: usize| at(Variation::Nothing, &|single: &PairResult| single.drops_an_event[flow], 1);
    let (plain, paced) = (Variation::Nothing, Variation::PacedTcp);
    let each = CLOSER.map(|rtt| rtt.to_string()).join(" and ");
    let plainly = || singles.iter().filter(|(_, other, _)| *other == plain).map(|(.., single)| single);
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

fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (pairs, _) in PAIRS {
        for rtt in RTTS {
            let share = over(outcomes, pairs, rtt, Outcome::share);
            let what = format!("{pairs} of each, {rtt} ms: TFRC's rate over TCP's");
            claims.push(Claim::new(&what, "0.5 to 2", format!("{share:.2}"), share.mean).pass(PASS));
            let (ours, theirs) = (
                over(outcomes, pairs, rtt, |o| variation(&o.tfrc)).mean,
                over(outcomes, pairs, rtt, |o| variation(&o.tcp)).mean,
            );
            let what = format!("{pairs} of each, {rtt} ms: TFRC's rate varies less than TCP's");
            claims.push(Claim::order(&what, "\"much lower\"", format!("{ours:.2}, TCP {theirs:.2}"), ours < theirs));
        }
    }
    claims
}

/// Plots one pair of the first seed.
fn figure(outcomes: &[Outcome]) -> Result<Figure, LabError> {
    let shown = outcomes.iter().find(|o| o.cell.pairs == 1 && o.cell.rtt == RTTS[1]);
    let line = |name: &str, rates: &[f64]| {
        let points = rates.iter().enumerate().map(|(second, &rate)| (second as f64 + 0.5, rate)).collect();
        Series::new(name, points)
    };
    let series = shown.map(|o| vec![line("TFRC", &o.tfrc[0]), line("TCP", &o.tcp[0])]).unwrap_or_default();
    let title = format!("One TFRC beside one TCP, {} ms", RTTS[1]);
    let lines = Lines { title: &title, x: "time, s", y: "kbit/s", series };
    Ok(Figure::new(lines.draw()?, "A second at a time, the first seed. A fair share is 640 kbit/s."))
}

fn data(outcomes: &[Outcome]) -> serde_json::Value {
    let cell = |o: &Outcome| {
        json!({
            "pairs": o.cell.pairs,
            "rtt_ms": o.cell.rtt,
            "seed": o.cell.seed,
            "tfrc_kbps": rate(&o.tfrc),
            "tcp_kbps": rate(&o.tcp),
            "tfrc_variation": variation(&o.tfrc),
            "tcp_variation": variation(&o.tcp),
        })
    };
    outcomes.iter().map(cell).collect()
}

fn choices() -> Vec<Choice> {
    vec![
        Choice::ours(
            "topology",
            "dumbbell, a pair of machines for each flow",
            "no two flows share a Congestion Manager",
        ),
        Choice::ours(
            "bottleneck",
            format!("{} kbit/s for each flow, drop-tail, a queue of {} ms", SHARE.as_bps() / 1_000, QUEUE.as_millis()),
            "windows of ten to twenty packets at each round trip, however many flows there are",
        ),
        Choice::paper(
            "the narrow bottleneck",
            "1 Mbit/s for all, drop-tail, a queue of twice the bandwidth-delay product",
            "Hasan et al. §4, reported beside: that paper has no flow of TFRC beside one of TCP alone",
        ),
        Choice::ours(
            "flows",
            "1, 4 and 16 of TFRC, and as many of TCP: 2 to 32; each with as much to send as it may",
            "from two on a link to many",
        ),
        Choice::ours(
            "jitter",
            format!("± {} ms on each host's link", JITTER.as_millis()),
            "without it the same flow meets the full queue each time",
        ),
        Choice::ours("beginning", "each flow at random within the first second", "nobody is the first each time"),
        Choice::ours("packets", format!("{SIZE} bytes of data"), "the same for both"),
        Choice::ours("TFRC", "DCCP's CCID 3", "loss events are found at the receiver, as the RFC has it"),
        Choice::ours("TCP", "NewReno with SACK", "what the equation is a model of"),
        Choice::ours(
            "counted",
            format!(
                "after {} s: 120 s of one pair, 60 of four, 40 of sixteen; variation from second to second",
                WARM_UP.as_secs_f64()
            ),
            "many flows tell as much in less time",
        ),
    ]
}
