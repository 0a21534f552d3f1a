//! tfrc-step: reaction time of TFRC to a step of the available rate down and up, beside AIMD and
//! TCP.

use serde_json::json;
use timeous::core::{Duration, Rate};
use timeous_net::link::{Capacity, RateTrace};

use super::dbat::Spread;
use super::tfrc::topology::{Bottleneck, Flow, JITTER, SIZE, Topology};
use crate::experiment::{About, Choice, Claim, Experiment, Figure, Findings, Forms, LabError, Run, Table};
use crate::report::plot::{Lines, Series};

/// Link rate at first and after the second step, and link rate in between.
const HIGH: Rate = Rate::from_kbps(2_000);
const LOW: Rate = Rate::from_kbps(700);
/// Times of the step down, the step up, and the end, in seconds.
const STEPS: [u64; 3] = [60, 120, 180];
const RTT: Duration = Duration::from_millis(100);
/// Queue in packets: one bandwidth-delay product.
const QUEUE: usize = 25;
/// Length of a time slice for rates.
const SLICE: Duration = Duration::from_millis(500);
/// Sending rate, relative to the link's, at which a sender has followed a step down.
const DOWN: f64 = 1.1;
/// Received rate, relative to the link's, at which it has followed a step up.
const UP: f64 = 0.9;

const FLOWS: [Flow; 4] = [Flow::Tfrc, Flow::SenderTfrc, Flow::Aimd, Flow::Tcp];

pub(crate) struct TfrcStep;

/// Parameters of a run with one flow alone.
#[derive(Clone, Copy, Debug)]
struct Trial {
    flow: Flow,
    seed: u64,
}

/// Sent and received rate in each slice, in kbit/s.
struct Outcome {
    flow: Flow,
    sent: Vec<f64>,
    received: Vec<f64>,
}

impl Experiment for TfrcStep {
    fn about(&self) -> About {
        About {
            name: "tfrc-step",
            title: "How soon TFRC follows a step in the available rate",
            source: "RFC 5348 §1, §4.3",
            paper: "TFRC \"responds slower than TCP to changes in available bandwidth\"",
            forms: Forms::Virtual,
            seeds: 5,
            takes: "2 s",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        let trials: Vec<Trial> =
            FLOWS.iter().flat_map(|&flow| run.seeds().map(move |seed| Trial { flow, seed })).collect();
        let outcomes = run.each("steps", &trials, Trial::run);
        Ok(Findings {
            setup: choices(),
            tables: vec![table(&outcomes)],
            figures: vec![figure(&outcomes)?],
            claims: claims(&outcomes),
            notes: Vec::new(),
            data: data(&outcomes),
        })
    }
}

impl Trial {
    fn run(&self) -> Outcome {
        let trace = RateTrace::new(vec![
            (Duration::ZERO, HIGH),
            (Duration::from_secs(STEPS[0]), LOW),
            (Duration::from_secs(STEPS[1]), HIGH),
        ]);
        let capacity = Capacity::Trace(trace.expect("steps in their order"));
        let bottleneck = Bottleneck::plain(capacity, RTT, QUEUE);
        let time = Duration::from_secs(STEPS[2]);
        let slices = time.as_nanos() / SLICE.as_nanos();
        let both = |topology: &Topology| [topology.sent(), topology.received()].concat();
        let mut topology = Topology::new(self.seed, &bottleneck, &[self.flow]);
        let mut rates = topology.rates(time, slices, both).into_iter();
        let mut next = || rates.next().expect("one flow was sent and received");
        Outcome { flow: self.flow, sent: next(), received: next() }
    }
}

/// Returns the data rate that the link carries, in kbit/s.
fn carried(rate: Rate) -> f64 {
    rate.as_bps() as f64 / 1e3 * SIZE as f64 / (SIZE + 52) as f64
}

/// Returns the start of the first two consecutive slices between second `from` and second `to` that
/// satisfy `is`, in seconds from `from`; all of the time if there are none.
fn first(rates: &[f64], from: u64, to: u64, is: impl Fn(f64) -> bool) -> f64 {
    let slices = |seconds: u64| (seconds * 1_000 / SLICE.as_millis()) as usize;
    let part = &rates[slices(from)..slices(to)];
    let found = part.windows(2).position(|pair| pair.iter().all(|&rate| is(rate)));
    found.map_or((to - from) as f64, |slice| slice as f64 * SLICE.as_secs_f64())
}

impl Outcome {
    /// Returns the seconds until the sender follows the step down.
    fn down(&self) -> f64 {
        first(&self.sent, STEPS[0], STEPS[1], |rate| rate <= DOWN * carried(LOW))
    }

    /// Returns the seconds until the received rate follows the step up.
    fn up(&self) -> f64 {
        first(&self.received, STEPS[1], STEPS[2], |rate| rate >= UP * carried(HIGH))
    }

    /// Returns the link utilisation from ten seconds after a step to the next.
    fn used(&self, from: u64, to: u64, of: Rate) -> f64 {
        let slices = |seconds: u64| (seconds * 1_000 / SLICE.as_millis()) as usize;
        let part = &self.received[slices(from + 10)..slices(to)];
        part.iter().sum::<f64>() / part.len() as f64 / carried(of)
    }
}

fn over(outcomes: &[Outcome], flow: Flow, value: impl Fn(&Outcome) -> f64) -> Spread {
    Spread::of(outcomes.iter().filter(|outcome| outcome.flow == flow).map(value))
}

fn table(outcomes: &[Outcome]) -> Table {
    let head = ["flow", "down, s", "up, s", "used before, %", "used in the narrow time, %", "used after, %"];
    let mut table = Table::new("Time to follow: mean of the seeds, least and most", &head);
    for flow in FLOWS {
        let used =
            |from, to, rate| format!("{:.0}", over(outcomes, flow, |outcome| 100.0 * outcome.used(from, to, rate)));
        table.row([
            flow.name().to_owned(),
            format!("{:.1}", over(outcomes, flow, Outcome::down)),
            format!("{:.1}", over(outcomes, flow, Outcome::up)),
            used(0, STEPS[0], HIGH),
            used(STEPS[0], STEPS[1], LOW),
            used(STEPS[1], STEPS[2], HIGH),
        ]);
    }
    table
}

fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    let claim = |what: &str, paper: &str, value: fn(&Outcome) -> f64| {
        let [tfrc, aimd] = [Flow::Tfrc, Flow::Aimd].map(|flow| over(outcomes, flow, value));
        Claim::new(what, paper, format!("{tfrc:.1}, AIMD {aimd:.1}"), tfrc.mean)
    };
    vec![
        claim("seconds until TFRC sends no more than the link carries", "slower than TCP", Outcome::down),
        claim("seconds until the link is full again", "slower than TCP", Outcome::up),
    ]
}

fn figure(outcomes: &[Outcome]) -> Result<Figure, LabError> {
    let seconds = |slice: usize| (slice as f64 + 0.5) * SLICE.as_secs_f64();
    let line = |flow: Flow| {
        let shown = outcomes.iter().find(|outcome| outcome.flow == flow);
        let sent = shown.map(|outcome| outcome.sent.as_slice()).unwrap_or_default();
        Series::new(flow.name(), sent.iter().enumerate().map(|(slice, &rate)| (seconds(slice), rate)).collect())
    };
    let [low, high] = [LOW, HIGH].map(carried);
    let [down, up, end] = STEPS.map(|second| second as f64);
    let link = vec![(0.0, high), (down, high), (down, low), (up, low), (up, high), (end, high)];
    let mut series = FLOWS.map(line).to_vec();
    series.push(Series::new("what the link carries", link));
    let lines = Lines { title: "A step down and up again", x: "time, s", y: "sent, kbit/s", series };
    Ok(Figure::new(lines.draw()?, "Each flow alone, half a second at a time, the first seed."))
}

fn data(outcomes: &[Outcome]) -> serde_json::Value {
    let run = |outcome: &Outcome| json!({ "flow": outcome.flow, "down_s": outcome.down(), "up_s": outcome.up() });
    json!({ "runs": outcomes.iter().map(run).collect::<Vec<_>>() })
}

fn choices() -> Vec<Choice> {
    vec![
        Choice::ours(
            "link",
            format!(
                "{} kbit/s, {} from {} to {} s, and as before until {} s; round trip {} ms, {QUEUE} packets drop-tail",
                HIGH.as_bps() / 1_000,
                LOW.as_bps() / 1_000,
                STEPS[0],
                STEPS[1],
                STEPS[2],
                RTT.as_millis()
            ),
            "to about a third, and back; the queue is the product of the higher rate and the round trip",
        ),
        Choice::ours("flows", "each alone, with as much to send as it may", "nothing else changes what is available"),
        Choice::ours(
            "followed down",
            format!("two half seconds in a row with no more than {DOWN} of what the link carries sent"),
            "losses end when no more is sent than fits",
        ),
        Choice::ours(
            "followed up",
            format!("two half seconds in a row in which {UP} of what the link carries arrives"),
            "from then on nothing is left unused",
        ),
        Choice::ours(
            "AIMD",
            "DCCP with the Congestion Manager's own controller, paced",
            "what TFRC takes the place of",
        ),
        Choice::ours("jitter", format!("± {} ms on each host's link", JITTER.as_millis()), "what makes seeds differ"),
    ]
}
