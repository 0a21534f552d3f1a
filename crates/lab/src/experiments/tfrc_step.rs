//! tfrc-step: reaction time of TFRC to a step of the available rate down and up, beside AIMD and
//! TCP.

use timeous::core::{Duration, Rate};
use timeous_net::link::{Capacity, RateTrace};
use timeous_testbed::report::plot::Series;

use super::tfrc::{Bottleneck, Flow, JITTER, SIZE, Topology};
use crate::experiment::{
    Chart, Choice, Claim, Experiment, Extent, Figure, Findings, Forms, Grid, Metric, Run, RunError, Sabotage, mean,
    metric, sabotages, setup,
};

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
/// Time by which a connection is open.
const OPEN: Duration = Duration::from_secs(2);
/// Sending rate, relative to the link's, at which a sender has followed a step down.
const DOWN: f64 = 1.1;
/// Received rate, relative to the link's, at which it has followed a step up.
const UP: f64 = 0.9;

const FLOWS: [Flow; 4] = [Flow::Tfrc, Flow::SenderTfrc, Flow::Aimd, Flow::Tcp];

/// Sent and received rate in each slice, in kbit/s.
struct Outcome {
    sent: Vec<f64>,
    received: Vec<f64>,
}

const METRICS: [Metric<Outcome>; 5] = [
    metric("down, s", 1, Outcome::down),
    metric("up, s", 1, Outcome::up),
    metric("used before, %", 0, |outcome| outcome.used(0, STEPS[0], HIGH)),
    metric("used in the narrow time, %", 0, |outcome| outcome.used(STEPS[0], STEPS[1], LOW)),
    metric("used after, %", 0, |outcome| outcome.used(STEPS[1], STEPS[2], HIGH)),
];

/// Outcomes of each flow alone.
type Outcomes = Grid<Flow, Outcome>;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tfrc-step",
    title: "How soon TFRC follows a step in the available rate",
    source: "RFC 5348 §1, §4.3",
    paper: "TFRC \"responds slower than TCP to changes in available bandwidth\"",
    forms: Forms::Virtual,
    seeds: 5,
    takes: "2 s",
    sabotages: &[FAST, SLOW],
    run,
};

sabotages! {
    FAST = "fast", "in TFRC's place a flow sends at the link's first rate, whatever is lost" => [DOWN_AFTER];
    SLOW = "slow", "in TFRC's place a flow sends at the link's lower rate, whatever arrives" => [UP_AFTER];
}

const DOWN_AFTER: &str = "seconds until TFRC sends no more than the link carries";
const UP_AFTER: &str = "seconds until the link is full again";

/// Most seconds until a step is followed: a tenth of the time until the next. RFC 5348 names no number.
const FOLLOWED: f64 = 6.0;

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let flows = if run.extent == Extent::Least { &[Flow::Tfrc, Flow::Aimd][..] } else { &FLOWS };
    let outcomes = run.grid("steps", flows.iter().copied(), |flow, seed| trial(*flow, seed, run.sabotage));
    let rows = outcomes.rows().axis("flow", |flow| flow.name()).spreads(&METRICS);
    let claim = |what: &str, metric: Metric<Outcome>| {
        let [tfrc, aimd] = [Flow::Tfrc, Flow::Aimd].map(|flow| outcomes.stats(&flow, metric.value));
        Claim::new(what, "slower than TCP", format!("{tfrc:.1}, AIMD {aimd:.1}"), tfrc.mean).pass(..=FOLLOWED)
    };
    Ok(Findings {
        setup: choices(),
        tables: vec![rows.table("Time to follow: mean of the seeds, least and most")],
        figures: vec![figure(&outcomes)?],
        claims: vec![claim(DOWN_AFTER, METRICS[0]), claim(UP_AFTER, METRICS[1])],
        notes: Vec::new(),
        data: outcomes.numbers(&METRICS),
    })
}

fn trial(flow: Flow, seed: u64, sabotage: Option<Sabotage>) -> Outcome {
    let trace = RateTrace::new(vec![
        (Duration::ZERO, HIGH),
        (Duration::from_secs(STEPS[0]), LOW),
        (Duration::from_secs(STEPS[1]), HIGH),
    ]);
    let capacity = Capacity::Trace(trace.expect("steps in their order"));
    let bottleneck = Bottleneck::plain(capacity, RTT, QUEUE);
    let both = |topology: &Topology| [topology.sent(), topology.received()].concat();
    let steered = match sabotage {
        Some(FAST) if flow == Flow::Tfrc => Some(HIGH),
        Some(SLOW) if flow == Flow::Tfrc => Some(LOW),
        _ => None,
    };
    let flow = if steered.is_some() { Flow::SenderTfrc } else { flow };
    let mut topology = Topology::new(seed, &bottleneck, &[flow]);
    let slices = |time: Duration| time.as_nanos() / SLICE.as_nanos();
    let opening = topology.rates(OPEN, slices(OPEN), both);
    steered.into_iter().for_each(|rate| topology.steer(rate));
    let rest = Duration::from_secs(STEPS[2]).saturating_sub(OPEN);
    let rest = topology.rates(rest, slices(rest), both);
    let mut rates = opening.into_iter().zip(rest).map(|(opening, rest)| [opening, rest].concat());
    let mut next = || rates.next().expect("one flow was sent and received");
    Outcome { sent: next(), received: next() }
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

    /// Returns the link utilisation from ten seconds after a step to the next, in percent.
    fn used(&self, from: u64, to: u64, of: Rate) -> f64 {
        let slices = |seconds: u64| (seconds * 1_000 / SLICE.as_millis()) as usize;
        let part = &self.received[slices(from + 10)..slices(to)];
        100.0 * (mean(part.iter().copied()) / carried(of))
    }
}

fn figure(outcomes: &Outcomes) -> Result<Figure, RunError> {
    let seconds = |slice: usize| (slice as f64 + 0.5) * SLICE.as_secs_f64();
    let line = |flow: Flow| {
        let sent = outcomes.first(|of| *of == flow).map(|outcome| outcome.sent.as_slice()).unwrap_or_default();
        Series::new(flow.name(), sent.iter().enumerate().map(|(slice, &rate)| (seconds(slice), rate)).collect())
    };
    let [low, high] = [LOW, HIGH].map(carried);
    let [down, up, end] = STEPS.map(|second| second as f64);
    let link = vec![(0.0, high), (down, high), (down, low), (up, low), (up, high), (end, high)];
    let caption = "Each flow alone, half a second at a time, the first seed.";
    Chart { title: "A step down and up again", x: "time, s", y: "sent, kbit/s", caption }
        .draw(FLOWS.map(line).into_iter().chain([Series::new("what the link carries", link)]))
}

fn choices() -> Vec<Choice> {
    setup! {
        ours "link": "{} kbit/s, {} from {} to {} s, and as before until {} s; round trip {} ms, {QUEUE} packets \
            drop-tail", HIGH.as_bps() / 1_000, LOW.as_bps() / 1_000, STEPS[0], STEPS[1], STEPS[2], RTT.as_millis()
            => "to about a third, and back; the queue is the product of the higher rate and the round trip";
        ours "flows": "each alone, with as much to send as it may" => "nothing else changes what is available";
        ours "followed down": "two half seconds in a row with no more than {DOWN} of what the link carries sent"
            => "losses end when no more is sent than fits";
        ours "followed up": "two half seconds in a row in which {UP} of what the link carries arrives"
            => "from then on nothing is left unused";
        ours "AIMD": "DCCP with the Congestion Manager's own controller, paced" => "what TFRC takes the place of";
        ours "jitter": "± {} ms on each host's link", JITTER.as_millis() => "what makes seeds differ";
    }
}
