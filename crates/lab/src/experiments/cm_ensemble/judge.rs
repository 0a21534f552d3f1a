//! Bandwidth shares, and their fairness.

use serde_json::json;

use super::super::tcp::shared::jain;
use super::trial::{Case, Outcome, QUEUE, RATE, RTT, SLICES, TIME, WARM_UP};
use crate::experiment::{Bound, Choice, Claim, Figure, Findings, LabError, Table};
use crate::report::plot::{Lines, Series};

/// Accepted range of the first side's share.
const SHARE: (f64, f64) = (0.4, 0.6);
/// Least Jain's index inside a macroflow.
const FAIR: f64 = 0.98;

impl Outcome {
    /// Returns the mean rate of each flow of a side.
    fn means(&self, side: usize) -> Vec<f64> {
        self.sides[side].iter().map(|rates| rates.iter().sum::<f64>() / rates.len() as f64).collect()
    }

    fn total(&self, side: usize) -> f64 {
        self.means(side).iter().sum()
    }

    /// Returns the first side's share.
    fn share(&self) -> f64 {
        self.total(0) / (self.total(0) + self.total(1))
    }

    fn fairness(&self, side: usize) -> f64 {
        jain(&self.means(side))
    }
}

pub(super) fn findings(outcomes: &[Outcome]) -> Result<Findings, LabError> {
    let head = [
        "flows",
        "seed",
        "first side, kbit/s",
        "other, kbit/s",
        "share of the first",
        "Jain's index inside",
        "inside the other",
        "used, %",
    ];
    let mut table = Table::new("How the bottleneck is shared", &head);
    for outcome in outcomes {
        let (one, other) = (outcome.total(0), outcome.total(1));
        table.row([
            outcome.case.name().to_owned(),
            outcome.seed.to_string(),
            format!("{one:.0}"),
            format!("{other:.0}"),
            format!("{:.3}", outcome.share()),
            format!("{:.4}", outcome.fairness(0)),
            if outcome.sides[1].len() > 1 { format!("{:.4}", outcome.fairness(1)) } else { String::new() },
            format!("{:.1}", 100.0 * (one + other) * 1e3 / RATE.as_bps() as f64),
        ]);
    }
    let data = outcomes.iter().map(|o| json!({ "case": o.case, "seed": o.seed, "rates": [o.means(0), o.means(1)] }));
    Ok(Findings {
        setup: choices(),
        tables: vec![table],
        figures: vec![figure(outcomes, Case::One)?, figure(outcomes, Case::Apart)?],
        claims: claims(outcomes),
        notes: Vec::new(),
        data: json!({ "bottlenecks": data.collect::<Vec<_>>() }),
    })
}

/// Returns the mean over the seeds, and their range as text.
fn over_seeds(outcomes: &[Outcome], case: Case, of: impl Fn(&Outcome) -> f64) -> (f64, String) {
    let values: Vec<f64> = outcomes.iter().filter(|outcome| outcome.case == case).map(of).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let (least, most) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), &v| (a.min(v), b.max(v)));
    (mean, format!("{mean:.3} ({least:.3} to {most:.3})"))
}

fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    let share = |case: Case| {
        let (value, measured) = over_seeds(outcomes, case, Outcome::share);
        Claim::new(&format!("{}: the share of the first, mean of the seeds", case.name()), "one half", measured, value)
    };
    let fair = |case: Case, side: usize, name: &str| {
        let of = outcomes.iter().filter(|outcome| outcome.case == case);
        let least = of.map(|outcome| outcome.fairness(side)).fold(f64::INFINITY, f64::min);
        let what = format!("{}: Jain's index inside {name}, the least of the seeds", case.name());
        Claim::new(&what, "1: they do not compete", format!("{least:.4}"), least).pass(Bound::AtLeast(FAIR))
    };
    let within = Bound::Within(SHARE.0, SHARE.1);
    vec![
        share(Case::One).pass(within),
        fair(Case::One, 0, "the macroflow"),
        share(Case::Mixed).pass(within),
        fair(Case::Mixed, 0, "the macroflow"),
        share(Case::Two).pass(within),
        fair(Case::Two, 0, "the first macroflow"),
        fair(Case::Two, 1, "the other"),
        share(Case::Apart),
    ]
}

/// Plots every flow of the first seed.
fn figure(outcomes: &[Outcome], case: Case) -> Result<Figure, LabError> {
    let shown = outcomes.iter().find(|outcome| outcome.case == case).expect("each case was run");
    let slice = TIME.as_secs_f64() / SLICES as f64;
    let line = |name: &str, rates: &[f64]| {
        Series::new(name, rates.iter().enumerate().map(|(n, rate)| ((n as f64 + 0.5) * slice, rate / 1e3)).collect())
    };
    let sum: Vec<f64> = (0..SLICES as usize).map(|n| shown.sides[0].iter().map(|rates| rates[n]).sum()).collect();
    let mut series = vec![line("the four together", &sum), line("the TCP beside them", &shown.sides[1][0])];
    series.extend(shown.sides[0].iter().enumerate().map(|(n, rates)| line(&format!("flow {}", n + 1), rates)));
    let title = format!("Rates: {}", case.name());
    let lines = Lines { title: &title, x: "time, s", y: "rate, Mbit/s", series };
    Ok(Figure::new(lines.draw()?, "Two seconds at a time, the first seed."))
}

fn choices() -> Vec<Choice> {
    vec![
        Choice::ours(
            "bottleneck",
            format!(
                "{} Mbit/s, {} ms round trip, {QUEUE} packets drop-tail",
                RATE.as_bps() / 1_000_000,
                RTT.as_millis()
            ),
            "the path of cm-loss; a queue of a round trip",
        ),
        Choice::ours(
            "controllers",
            "the manager's own (AIMD) for macroflows, NewReno for the TCP of another host",
            "one flow of what hosts do that have no manager",
        ),
        Choice::ours(
            "applications by request and callback",
            "send a packet at each grant, over UDP with acknowledgements of their own",
            "the most that they may",
        ),
        Choice::ours(
            "jitter",
            "± half a packet's time at the bottleneck, on each host's link",
            "without it the same flow meets the full queue each time (Floyd & Jacobson 1992)",
        ),
        Choice::ours(
            "begin",
            "within the first second, at random by seed",
            "flows that begin together stay together for long",
        ),
        Choice::ours(
            "counted",
            format!("{} s after {} s", TIME.as_secs_f64(), WARM_UP.as_secs_f64()),
            "shares of two flows wander over tens of seconds",
        ),
    ]
}
