//! tcp-sharing: fairness among equal flows at a bottleneck.

use timeous::core::Duration;
use timeous_cm::Kind;
use timeous_testbed::report::plot::Series;

use super::fault::Fault;
use super::tcp::shared::{Bottleneck, Shared, segment};
use crate::experiment::{
    Chart, Choice, Claim, Experiment, Extent, Figure, Findings, Forms, Grid, Rows, Run, RunError, cross, jain, least,
    mean, most, sabotages, setup,
};

const KINDS: [Kind; 2] = [Kind::NewReno, Kind::Cubic];
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

/// Outcome: rate of each flow in each time slice, in bytes per second.
#[derive(serde::Serialize)]
struct Outcome {
    rates: Vec<Vec<f64>>,
}

/// Outcomes by controller and number of flows.
type Outcomes = Grid<(&'static str, usize), Outcome>;

impl Outcome {
    /// Returns the mean rate of each flow.
    fn means(&self) -> Vec<f64> {
        self.rates.iter().map(|rates| mean(rates.iter().copied())).collect()
    }

    fn fairness(&self) -> f64 {
        jain(&self.means())
    }

    /// Returns the link utilisation.
    fn used(&self) -> f64 {
        let capacity = SHARE * self.rates.len() as u64 * u64::from(segment());
        self.means().iter().sum::<f64>() / capacity as f64
    }
}

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tcp-sharing",
    title: "Equal TCP flows share a bottleneck",
    source: "RFC 5681 §3; RFC 9438 §5.6; Jain, Chiu & Hawe 1984",
    paper: "CUBIC \"ensures convergence of competing CUBIC flows with the same RTT in the same bottleneck links to an equal \
            throughput\"; so does Reno",
    forms: Forms::Virtual,
    seeds: 2,
    takes: "3 s",
    sabotages: &[DOUBLED],
    run,
};

sabotages! {
    DOUBLED = "doubled", "the windows of every second flow are twice those of their controllers"
        => ["2 flows with", "4 flows with"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let numbers = if run.extent == Extent::Least { &FLOWS[..2] } else { &FLOWS };
    let outcomes: Outcomes =
        run.grid("bottlenecks", cross(KINDS.map(Kind::name), numbers.iter().copied()), |&(name, flows), seed| {
            let kind = KINDS.into_iter().find(|kind| kind.name() == name).expect("one of them");
            // The same capacity per flow for any number of flows.
            let packets = SHARE * flows as u64;
            let queue = (packets * RTT.as_millis() / 1_000) as usize;
            let fault = |number: usize| (run.breaks(DOUBLED) && number % 2 == 1).then_some(Fault::Doubled);
            let controllers: Vec<_> = (0..flows).map(|number| (kind, fault(number))).collect();
            let mut shared = Shared::new(seed, Bottleneck { packets, rtt: RTT, queue }, &controllers);
            Outcome { rates: shared.rates(WARM_UP, TIME, SLICES) }
        });
    let packets = |rate: f64| rate / f64::from(segment());
    let table = Rows::of(outcomes.runs())
        .column("controller", |run| run.0.0)
        .column("flows", |run| run.0.1)
        .column("seed", |run| run.1)
        .number("Jain's index", 4, |run| run.2.fairness())
        .number("slowest, packets/s", 1, |run| packets(least(run.2.means())))
        .number("fastest, packets/s", 1, |run| packets(most(run.2.means())))
        .number("used, %", 1, |run| 100.0 * run.2.used())
        .table("How flows share");
    let claims = outcomes.points().into_iter().map(|at| {
        let (kind, flows) = at.point;
        let least = at.stats(Outcome::fairness).least;
        let what = format!("{flows} flows with {kind}: Jain's index, the least of the seeds");
        Claim::number(what, "1: an equal throughput", 4, least).pass(PASS..).aim(AIM..)
    });
    Ok(Findings {
        setup: choices(),
        claims: claims.collect(),
        tables: vec![table],
        figures: KINDS.map(|kind| figure(&outcomes, kind.name())).into_iter().collect::<Result<_, _>>()?,
        notes: Vec::new(),
        data: outcomes.data(),
    })
}

/// Plots four flows of the first seed.
fn figure(outcomes: &Outcomes, kind: &str) -> Result<Figure, RunError> {
    let slice = TIME.as_secs_f64() / SLICES as f64;
    let line = |(number, rates): (usize, &Vec<f64>)| {
        let points = rates.iter().enumerate();
        let points = points.map(|(i, rate)| ((i as f64 + 0.5) * slice, rate / f64::from(segment()))).collect();
        Series::new(&format!("flow {}", number + 1), points)
    };
    let caption = "The rate of each flow, two seconds at a time. A fair share is 100 packets a second.";
    let shown = outcomes.first(|at| *at == (kind, 4)).map(|outcome| outcome.rates.as_slice()).unwrap_or_default();
    Chart { title: &format!("Four flows with {kind}"), x: "time, s", y: "rate, packets/s", caption }
        .draw(shown.iter().enumerate().map(line))
}

fn choices() -> Vec<Choice> {
    setup! {
        ours "topology": "dumbbell, a pair of hosts for each flow" => "no two flows share a Congestion Manager";
        ours "bottleneck": "{SHARE} packets/s for each flow, drop-tail, queue of one round trip"
            => "a fair share is a window of 10 to 20 packets, however many flows there are";
        ours "round trip": "100 ms" => "the same for all: equal flows";
        ours "jitter": "± half a packet's time at the bottleneck, on each host's link"
            => "without it the same flow meets the full queue each time: phase effects of a simulation (Floyd & \
            Jacobson 1992)";
        ours "segments": "{} bytes", segment() => "windows and queues count packets";
        ours "acknowledgements": "of every segment, at once" => "the same for all";
        ours "begin": "within the first second, at random" => "flows that begin together stay together for long";
        ours "counted": "60 s after 20 s" => "the flows have to find their shares first";
    }
}
