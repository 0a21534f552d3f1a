//! tcp-sharing: fairness among equal flows at a bottleneck.

use serde_json::json;
use timeous::core::Duration;
use timeous_cm::Kind;

use super::tcp::shared::{Bottleneck, Shared, jain, segment};
use crate::experiment::{About, Bound, Choice, Claim, Experiment, Figure, Findings, Forms, LabError, Run, Table};
use crate::report::plot::{Lines, Series};

/// Numbers of flows.
const FLOWS: [usize; 3] = [2, 4, 16];
/// Capacity per flow, in packets per second.
const SHARE: u64 = 100;
const RTT: Duration = Duration::from_millis(100);
const WARM_UP: Duration = Duration::from_secs(20);
const TIME: Duration = Duration::from_secs(60);
/// Time slices of the plot.
const SLICES: u64 = 30;
/// Least Jain's index.
const PASS: f64 = 0.95;
/// Target for Jain's index.
const AIM: f64 = 0.99;

pub(crate) struct TcpSharing;

/// Parameters of a run at one bottleneck.
#[derive(Clone, Copy, Debug)]
struct Cell {
    kind: Kind,
    flows: usize,
    seed: u64,
}

/// Outcome: rate of each flow in each time slice, in bytes per second.
struct Outcome {
    cell: Cell,
    rates: Vec<Vec<f64>>,
}

impl Outcome {
    /// Returns the mean rate of each flow.
    fn means(&self) -> Vec<f64> {
        self.rates.iter().map(|rates| rates.iter().sum::<f64>() / rates.len() as f64).collect()
    }

    fn fairness(&self) -> f64 {
        jain(&self.means())
    }

    /// Returns the link utilisation.
    fn used(&self) -> f64 {
        let capacity = SHARE * self.cell.flows as u64 * u64::from(segment());
        self.means().iter().sum::<f64>() / capacity as f64
    }
}

impl Experiment for TcpSharing {
    fn about(&self) -> About {
        About {
            name: "tcp-sharing",
            title: "Equal TCP flows share a bottleneck",
            source: "RFC 5681 §3; RFC 9438 §5.6; Jain, Chiu & Hawe 1984",
            paper: "CUBIC \"ensures convergence of competing CUBIC flows with the same RTT in the same bottleneck links to an equal \
                    throughput\"; so does Reno",
            forms: Forms::Virtual,
            seeds: 2,
            takes: "3 s",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        let mut cells = Vec::new();
        for kind in [Kind::NewReno, Kind::Cubic] {
            for flows in FLOWS {
                cells.extend(run.seeds().map(|seed| Cell { kind, flows, seed }));
            }
        }
        let outcomes = run.each("bottlenecks", &cells, |&cell| {
            let bottleneck = bottleneck(cell.flows);
            let mut shared = Shared::new(cell.seed, bottleneck, &vec![cell.kind; cell.flows]);
            Outcome { cell, rates: shared.rates(WARM_UP, TIME, SLICES) }
        });
        findings(&outcomes)
    }
}

/// Returns a bottleneck with the same capacity per flow for any number of flows.
fn bottleneck(flows: usize) -> Bottleneck {
    let packets = SHARE * flows as u64;
    Bottleneck { packets, rtt: RTT, queue: (packets * RTT.as_millis() / 1_000) as usize }
}

fn findings(outcomes: &[Outcome]) -> Result<Findings, LabError> {
    let head = ["controller", "flows", "seed", "Jain's index", "slowest, packets/s", "fastest, packets/s", "used, %"];
    let mut table = Table::new("How flows share", &head);
    for outcome in outcomes {
        let means = outcome.means();
        let packets = |rate: f64| format!("{:.1}", rate / f64::from(segment()));
        table.row([
            outcome.cell.kind.to_string(),
            outcome.cell.flows.to_string(),
            outcome.cell.seed.to_string(),
            format!("{:.4}", outcome.fairness()),
            packets(means.iter().copied().fold(f64::INFINITY, f64::min)),
            packets(means.iter().copied().fold(0.0, f64::max)),
            format!("{:.1}", 100.0 * outcome.used()),
        ]);
    }
    let data: Vec<_> = outcomes
        .iter()
        .map(|o| json!({ "controller": o.cell.kind.name(), "flows": o.cell.flows, "seed": o.cell.seed, "rates": o.means() }))
        .collect();
    Ok(Findings {
        setup: choices(),
        tables: vec![table],
        figures: vec![figure(outcomes, Kind::NewReno)?, figure(outcomes, Kind::Cubic)?],
        claims: claims(outcomes),
        notes: Vec::new(),
        data: json!({ "bottlenecks": data }),
    })
}

fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for kind in [Kind::NewReno, Kind::Cubic] {
        for flows in FLOWS {
            let of = outcomes.iter().filter(|o| o.cell.kind == kind && o.cell.flows == flows);
            let least = of.map(Outcome::fairness).fold(f64::INFINITY, f64::min);
            let what = format!("{flows} flows with {kind}: Jain's index, the least of the seeds");
            let claim = Claim::new(&what, "1: an equal throughput", format!("{least:.4}"), least);
            claims.push(claim.pass(Bound::AtLeast(PASS)).aim(Bound::AtLeast(AIM)));
        }
    }
    claims
}

/// Plots four flows of the first seed.
fn figure(outcomes: &[Outcome], kind: Kind) -> Result<Figure, LabError> {
    let shown = outcomes.iter().find(|o| o.cell.kind == kind && o.cell.flows == 4);
    let slice = TIME.as_secs_f64() / SLICES as f64;
    let rates = shown.map(|outcome| outcome.rates.as_slice()).unwrap_or_default();
    let line = |(number, rates): (usize, &Vec<f64>)| {
        let points = rates.iter().enumerate();
        let points = points.map(|(i, rate)| ((i as f64 + 0.5) * slice, rate / f64::from(segment()))).collect();
        Series::new(&format!("flow {}", number + 1), points)
    };
    let title = format!("Four flows with {kind}");
    let series = rates.iter().enumerate().map(line).collect();
    let lines = Lines { title: &title, x: "time, s", y: "rate, packets/s", series };
    Ok(Figure::new(
        lines.draw()?,
        "The rate of each flow, two seconds at a time. A fair share is 100 packets a second.",
    ))
}

fn choices() -> Vec<Choice> {
    vec![
        Choice::ours("topology", "dumbbell, a pair of hosts for each flow", "no two flows share a Congestion Manager"),
        Choice::ours(
            "bottleneck",
            format!("{SHARE} packets/s for each flow, drop-tail, queue of one round trip"),
            "a fair share is a window of 10 to 20 packets, however many flows there are",
        ),
        Choice::ours("round trip", "100 ms", "the same for all: equal flows"),
        Choice::ours(
            "jitter",
            "± half a packet's time at the bottleneck, on each host's link",
            "without it the same flow meets the full queue each time: phase effects of a simulation (Floyd & Jacobson 1992)",
        ),
        Choice::ours("segments", format!("{} bytes", segment()), "windows and queues count packets"),
        Choice::ours("acknowledgements", "of every segment, at once", "the same for all"),
        Choice::ours("begin", "within the first second, at random", "flows that begin together stay together for long"),
        Choice::ours("counted", "60 s after 20 s", "the flows have to find their shares first"),
    ]
}
