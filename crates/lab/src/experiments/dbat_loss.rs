//! dbat-loss: packet losses of a live stream, and lengths of loss bursts (Hasan et al. §4.3,
//! figures 13 to 15).

use super::dbat::setup::RTT;
use super::dbat::{Cell, Outcome, Ranking, SetupDifference, StreamTransport, Streams, WITHOUT_DBAT};
use crate::experiment::{Chart, Claim, Experiment, Findings, Forms, Metric, Run, RunError, metric, sabotages};

const ORDER: Ranking =
    Ranking { what: "lost packets", digits: 0, rises: false, value: |outcome| outcome.lost().all() as f64 };
const RUNS: Ranking =
    Ranking { what: "runs of ten and more", digits: 1, rises: false, value: |outcome| outcome.lost().bursts as f64 };
const LENGTHS: Ranking = Ranking {
    what: "mean run of losses, packets",
    digits: 2,
    rises: false,
    value: |outcome| outcome.lost().mean_run(),
};
const LONGEST: Ranking = Ranking {
    what: "longest run of losses, packets",
    digits: 1,
    rises: false,
    value: |outcome| outcome.lost().longest as f64,
};
const METRICS: [Metric<Outcome>; 9] = [
    metric("made", 0, |outcome| outcome.made.len() as f64),
    metric("lost", 0, ORDER.value),
    metric("of them: buffer full", 0, |outcome| outcome.lost().full as f64),
    metric("given up", 0, |outcome| outcome.lost().choice as f64),
    metric("under way", 0, |outcome| outcome.lost().network as f64),
    metric("mean run", 2, LENGTHS.value),
    metric("runs of ten or more", 0, RUNS.value),
    metric("longest run", 0, LONGEST.value),
    metric("marked, at the sender", 0, |outcome| outcome.lost().marked as f64),
];

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "dbat-loss",
    title: "What a live stream loses",
    source: "Hasan et al. §4.3, figures 13 to 15",
    paper: "With TCP a large number of packets is lost in bursts, with TFRC significantly fewer, with DBAT the fewest",
    forms: Forms::Virtual,
    seeds: 10,
    takes: "30 s",
    sabotages: &[NO_DBAT],
    run,
};

sabotages! {
    NO_DBAT = WITHOUT_DBAT[0], WITHOUT_DBAT[1] => ["marked packets"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let caption = "By when they were made, the first seed.";
    let chart = Chart { title: "Lost packets (figures 13 to 15)", x: "time, s", y: "packets in a second", caption };
    ORDER.findings(run, ("Lost packets", &METRICS), (chart, Outcome::lost_by_second), claims)
}

fn claims(streams: &Streams, today: &Streams) -> Vec<Claim> {
    let order = |order: Ranking, paper: &str| order.claim(paper, &order.spreads(streams, SetupDifference::PAPER, RTT));
    let dbat = Cell { apart: SetupDifference::PAPER, way: StreamTransport::Dbat, rtt: RTT };
    let bursts = "\"a large number of packets are lost in bursts\" with TCP";
    let marked = streams.stats(&dbat, METRICS[8].value);
    let what = "marked packets that DBAT's sender lost, the most of the seeds";
    let [longest, lengths] = [LONGEST, LENGTHS].map(|of| of.spreads(streams, SetupDifference::PAPER, RTT));
    let mut claims = vec![
        order(ORDER, "TCP > TFRC > DBAT"),
        order(RUNS, bursts),
        Claim::new(
            "mean runs of losses with TCP, TFRC, DBAT, packets",
            "",
            lengths.map(|one| format!("{:.2}", one.mean)).join(", "),
            lengths[0].mean,
        ),
        LONGEST.over(("TCP's", "TFRC's and DBAT's"), bursts, [&longest[..1], &longest[1..]]),
        Claim::new(what, "", format!("{marked:.1}"), marked.most).aim(..=0.0),
        ORDER.letter("TCP > TFRC > DBAT", streams, SetupDifference::PAPER, RTT),
    ];
    claims.extend(ORDER.today(today, RTT));
    claims
}
