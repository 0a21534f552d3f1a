//! dbat-latency: latency of a live stream's packets (Hasan et al. §4.2, figures 10 to 12).

use super::dbat::setup::RTT;
use super::dbat::{Cell, Outcome, Ranking, SetupDifference, StreamTransport, Streams, WITHOUT_DBAT};
use crate::experiment::{
    Chart, Claim, Experiment, Findings, Forms, Metric, Run, RunError, Sorted, metric, most, sabotages,
};

const ORDER: Ranking = Ranking { what: "p99 − p50, ms", digits: 0, rises: false, value: swing };
const LEAPS: Ranking =
    Ranking { what: "greatest leap from packet to packet, ms", digits: 0, rises: false, value: largest_step };
/// Accepted leap of TCP, in milliseconds: of the paper's size.
const LEAP: std::ops::RangeInclusive<f64> = 1_000.0..=3_000.0;
const METRICS: [Metric<Outcome>; 7] = [
    metric("packets", 0, |outcome| outcome.received.len() as f64),
    metric("p50, ms", 0, |outcome| below(outcome, 50.0)),
    metric("p95, ms", 0, |outcome| below(outcome, 95.0)),
    metric("p99, ms", 0, |outcome| below(outcome, 99.0)),
    metric("most, ms", 0, |outcome| below(outcome, 100.0)),
    metric("p99 − p50, ms", 0, swing),
    metric("greatest leap, ms", 0, largest_step),
];

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "dbat-latency",
    title: "How long a live stream's packets are under way",
    source: "Hasan et al. §4.2, figures 10 to 12",
    paper: "With TCP the latency \"sometimes varies almost by two seconds\"; with TFRC much less, and least with DBAT",
    forms: Forms::Virtual,
    seeds: 10,
    takes: "30 s",
    sabotages: &[NO_DBAT],
    run,
};

sabotages! {
    NO_DBAT = WITHOUT_DBAT[0], WITHOUT_DBAT[1] => ["p99 − p50, ms"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let caption = "The worst of each half second, the first seed.";
    let chart = Chart { title: "Latency (figures 10 to 12)", x: "time, s", y: "latency, ms", caption };
    ORDER.findings(run, ("From the hand-over to the player", &METRICS), (chart, worst), claims)
}

/// Returns the latency below which a share of the packets lies, in milliseconds.
fn below(outcome: &Outcome, percent: f64) -> f64 {
    outcome.latencies().into_iter().map(|(_, latency)| latency).collect::<Sorted>().nearest(percent)
}

/// Returns the 99th percentile minus the median, in milliseconds.
fn swing(outcome: &Outcome) -> f64 {
    below(outcome, 99.0) - below(outcome, 50.0)
}

/// Returns the largest latency difference between consecutive packets, in milliseconds.
fn largest_step(outcome: &Outcome) -> f64 {
    most(outcome.latencies().windows(2).map(|pair| (pair[1].1 - pair[0].1).abs()))
}

fn claims(streams: &Streams, today: &Streams) -> Vec<Claim> {
    let spreads = ORDER.spreads(streams, SetupDifference::PAPER, RTT);
    let [_, _, dbat] = spreads;
    let leaps =
        streams.stats(&Cell { apart: SetupDifference::PAPER, way: StreamTransport::Tcp, rtt: RTT }, largest_step);
    let leap = LEAPS.spreads(streams, SetupDifference::PAPER, RTT);
    let mut claims = vec![
        ORDER.claim("TCP > TFRC > DBAT", &spreads),
        Claim::mean("DBAT's p99 over its median, ms", "", 0, dbat).aim(..=RTT as f64),
        Claim::mean("TCP's greatest leap from packet to packet, ms", "almost 2000", 0, leaps).pass(LEAP),
        LEAPS.over(("TCP's", "TFRC's"), "\"much smaller\" with TFRC", [&leap[..1], &leap[1..2]]),
        ORDER.letter("TCP > TFRC > DBAT", streams, SetupDifference::PAPER, RTT),
    ];
    claims.extend(ORDER.today(today, RTT));
    claims
}

/// Returns the largest latency in each half second.
fn worst(outcome: &Outcome) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (at, latency) in outcome.latencies() {
        let slot = (at * 2.0).floor() / 2.0 + 0.25;
        match points.last_mut() {
            Some(last) if last.0 == slot => last.1 = last.1.max(latency),
            _ => points.push((slot, latency)),
        }
    }
    points
}
