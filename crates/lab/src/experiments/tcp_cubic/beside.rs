//! CUBIC beside Reno at a bottleneck with a small bandwidth-delay product (RFC 9438 §5.1).

use timeous::core::Duration;
use timeous_cm::Kind;

use super::super::fault::Fault;
use super::super::tcp::shared::{Bottleneck, Shared, segment};
use crate::experiment::{Bound, Choice, Claim, Rows, Run, Table, mean, setup};

/// Two flows of each controller.
const FLOWS: [Kind; 4] = [Kind::NewReno, Kind::Cubic, Kind::NewReno, Kind::Cubic];
/// Bottleneck with a bandwidth-delay product of 40 packets, ten for each flow.
const BOTTLENECK: Bottleneck = Bottleneck { packets: 1_000, rtt: Duration::from_millis(40), queue: 40 };
const WARM_UP: Duration = Duration::from_secs(10);
const TIME: Duration = Duration::from_secs(60);
/// Accepted ratio: "reasonably fair" is a rate "generally within a factor of two" (RFC 5348 §1).
const PASS: Bound = Bound::Within(0.5, 2.0);
const AIM: Bound = Bound::Within(0.8, 1.25);

/// Results at one bottleneck: rate of each flow in packets per second.
#[derive(serde::Serialize)]
pub(super) struct Outcome {
    seed: u64,
    rates: Vec<f64>,
}

impl Outcome {
    fn of(&self, kind: Kind) -> f64 {
        FLOWS.iter().zip(&self.rates).filter(|(other, _)| **other == kind).map(|(_, rate)| rate).sum()
    }

    fn ratio(&self) -> f64 {
        self.of(Kind::Cubic) / self.of(Kind::NewReno)
    }
}

pub(super) fn run(run: &Run<'_>, fault: Option<Fault>) -> Vec<Outcome> {
    let seeds: Vec<u64> = run.seeds().collect();
    run.each("both together", &seeds, |&seed| {
        let flows = FLOWS.map(|kind| (kind, fault.filter(|_| kind == Kind::Cubic)));
        let rates = Shared::new(seed, BOTTLENECK, &flows).rates(WARM_UP, TIME, 1);
        Outcome { seed, rates: rates.iter().map(|rates| rates[0] / f64::from(segment())).collect() }
    })
}

pub(super) fn table(outcomes: &[Outcome]) -> Table {
    Rows::of(outcomes)
        .column("seed", |outcome| outcome.seed)
        .number("two with NewReno, packets/s", 0, |outcome| outcome.of(Kind::NewReno))
        .number("two with CUBIC, packets/s", 0, |outcome| outcome.of(Kind::Cubic))
        .number("CUBIC / NewReno", 2, |outcome| outcome.ratio())
        .table("Rates beside each other at one bottleneck")
}

pub(super) fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    let ratio = mean(outcomes.iter().map(Outcome::ratio));
    let paper = "\"acceptable levels of rate fairness between CUBIC and Reno flows\" (§4.3)";
    vec![Claim::number("rate of CUBIC over NewReno's at one bottleneck", paper, 3, ratio).pass(PASS).aim(AIM)]
}

pub(super) fn choices() -> Vec<Choice> {
    setup! {
        ours "bottleneck, both together": "1000 packets/s, 40 ms, drop-tail, queue of 40 packets; two flows of each"
            => "a small bandwidth-delay product, where \"Reno performs well\" (§5.1)";
    }
}
