//! What the streams did, beside each other.

use serde_json::json;

use super::trial::{Api, BEGIN, LATE, Outcome, QUEUE, RTT, STEP, STEPS, WAVER, WAVER_EVERY};
use super::video::{BUFFER, DOWN, LAYERS, SIZE, UP};
use crate::experiment::{Bound, Choice, Claim, Figure, Findings, LabError, Table};
use crate::report::plot::{Lines, Series};

/// What one stream shows.
struct Shown<'a> {
    outcome: &'a Outcome,
    /// Changes of its layers a minute.
    changes: f64,
    /// By how much the reported rate differs from one report to the next, in the mean, as a share.
    jump: f64,
    /// What arrived, of what the path carried.
    used: f64,
    /// The layers sent, as a share of what the path carried.
    layered: f64,
    /// The longest time for which the layers took more than the manager reported.
    above_reported: f64,
    /// The longest times for which they took more than the path carried, and the round-trip time then.
    above_path: (f64, f64),
    /// The share of the time for which they did.
    above: f64,
}

fn need(layers: f64) -> f64 {
    LAYERS[layers as usize - 1] as f64
}

impl<'a> Shown<'a> {
    fn of(outcome: &'a Outcome) -> Self {
        let within = (BEGIN.as_secs_f64(), outcome.end);
        let lasted = within.1 - within.0;
        let reports: Vec<f64> = outcome.reported.since(within.0).map(|(_, rate)| rate).collect();
        let jumps: Vec<f64> = reports.windows(2).map(|pair| (pair[1] / pair[0]).ln().abs()).collect();
        let arrived: Vec<f64> =
            outcome.arrived.iter().filter(|(at, _)| *at >= within.0).map(|&(_, rate)| rate).collect();
        let lowest = LAYERS[0] as f64;
        let over = |layers: f64, rate: f64| need(layers) > rate && need(layers) > lowest;
        let longest = |stretches: &[(f64, f64)]| {
            stretches.iter().copied().fold((0.0, 0.0), |a: (f64, f64), b| if b.1 > a.1 { b } else { a })
        };
        let reported = outcome.layers.stretches(&outcome.reported, within, over);
        let path = outcome.layers.stretches(&outcome.available, within, over);
        let (at, length) = longest(&path);
        Self {
            changes: 60.0 * outcome.layers.since(within.0).count() as f64 / lasted,
            jump: jumps.iter().sum::<f64>() / jumps.len().max(1) as f64,
            used: arrived.iter().sum::<f64>() / arrived.len() as f64 / outcome.available.mean(within),
            layered: 0.0,
            above_reported: longest(&reported).1,
            above_path: (length, outcome.rtt.at(at + length).unwrap_or(0.0)),
            above: path.iter().map(|stretch| stretch.1).sum::<f64>() / lasted,
            outcome,
        }
    }
}

pub(super) fn findings(outcomes: &[Outcome]) -> Result<Findings, LabError> {
    let shown: Vec<Shown<'_>> = outcomes.iter().map(Shown::of).collect();
    let mut figures = Vec::new();
    for api in Api::ALL {
        let first = outcomes.iter().find(|outcome| outcome.api == api).expect("each was run");
        figures.push(figure(first)?);
    }
    Ok(Findings {
        setup: Vec::new(),
        tables: vec![table(&shown)],
        figures,
        claims: Vec::new(),
        notes: Vec::new(),
        data: json!({}),
    })
}

fn table(shown: &[Shown<'_>]) -> Table {
    let head = [
        "API",
        "seed",
        "changes a minute",
        "jump %",
        "used, %",
        "dropped, %",
        "above reported, ms",
        "above path, ms",
        "RTT then",
        "above, %",
    ];
    let mut table = Table::new("Streams", &head);
    for s in shown {
        table.row([
            s.outcome.api.name().to_owned(),
            s.outcome.seed.to_string(),
            format!("{:.1}", s.changes),
            format!("{:.1}", 100.0 * s.jump),
            format!("{:.1}", 100.0 * s.used),
            format!("{:.2}", 100.0 * s.outcome.dropped),
            format!("{:.0}", 1e3 * s.above_reported),
            format!("{:.0}", 1e3 * s.above_path.0),
            format!("{:.0}", 1e3 * s.above_path.1),
            format!("{:.2}", 100.0 * s.above),
        ]);
    }
    table
}

fn figure(outcome: &Outcome) -> Result<Figure, LabError> {
    let mega = |line: Vec<(f64, f64)>| line.into_iter().map(|(at, rate)| (at, rate / 1e6)).collect();
    let layers = outcome.layers.line(outcome.end).into_iter().map(|(at, layers)| (at, need(layers))).collect();
    let title = format!("Four layers by {}", outcome.api.name());
    let lines = Lines {
        title: &title,
        x: "time, s",
        y: "rate, Mbit/s",
        series: vec![
            Series::new("the path", mega(outcome.available.line(outcome.end))),
            Series::new("reported", mega(outcome.reported.line(outcome.end))),
            Series::new("layers", mega(layers)),
            Series::new("arrived", mega(outcome.arrived.clone())),
        ],
    };
    Ok(Figure::new(lines.draw()?, ""))
}
