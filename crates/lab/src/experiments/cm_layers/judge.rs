//! Comparison of the streams: tables, claims and figures.

use serde_json::json;

use super::trial::{Api, BEGIN, LATE, Outcome, QUEUE, RTT, STEP, STEPS, WAVER, WAVER_EVERY};
use super::video::{BUFFER, DOWN, GROUP, LAYERS, MOST_GROUPS, SIZE, UP};
use crate::experiment::{Bound, Choice, Claim, Figure, Findings, LabError, Table};
use crate::report::plot::{Lines, Series};

/// Statistics of one stream.
struct StreamStats<'a> {
    outcome: &'a Outcome,
    /// Layer changes per minute.
    changes: f64,
    /// Mean relative difference between consecutive reported rates.
    jump: f64,
    /// Received share of what the path carried.
    used: f64,
    /// Longest time for which the layers' rate exceeded the reported rate, and the round-trip time
    /// then.
    above_reported: (f64, f64),
    /// The same for the rate of the path.
    above_path: (f64, f64),
    /// Share of the time for which the layers' rate exceeded the path's.
    above: f64,
}

fn need(layers: f64) -> f64 {
    LAYERS[layers as usize - 1] as f64
}

impl<'a> StreamStats<'a> {
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
            let longer = |a: (f64, f64), b: (f64, f64)| if b.1 > a.1 { b } else { a };
            let (at, length) = stretches.iter().copied().fold((0.0, 0.0), longer);
            (length, outcome.rtt.at(at).unwrap_or(0.0))
        };
        let reported = outcome.layers.stretches(&outcome.reported, within, over);
        let path = outcome.layers.stretches(&outcome.available, within, over);
        Self {
            changes: 60.0 * outcome.layers.since(within.0).count() as f64 / lasted,
            jump: jumps.iter().sum::<f64>() / jumps.len().max(1) as f64,
            used: arrived.iter().sum::<f64>() / arrived.len() as f64 / outcome.available.mean(within),
            above_reported: longest(&reported),
            above_path: longest(&path),
            above: path.iter().map(|stretch| stretch.1).sum::<f64>() / lasted,
            outcome,
        }
    }
}

pub(super) fn findings(outcomes: &[Outcome]) -> Result<Findings, LabError> {
    let shown: Vec<StreamStats<'_>> = outcomes.iter().map(StreamStats::of).collect();
    let mut figures = Vec::new();
    for api in Api::ALL {
        let first = outcomes.iter().find(|outcome| outcome.api == api).expect("each was run");
        figures.push(figure(first)?);
    }
    let data = shown.iter().map(|s| {
        json!({
            "api": s.outcome.api,
            "seed": s.outcome.seed,
            "changes_a_minute": s.changes,
            "jump": s.jump,
            "used": s.used,
            "above_reported_s": s.above_reported.0,
            "above_path_s": s.above_path.0,
        })
    });
    Ok(Findings {
        setup: choices(),
        tables: vec![table(&shown)],
        figures,
        claims: claims(&shown),
        notes: notes(),
        data: json!({ "streams": data.collect::<Vec<_>>() }),
    })
}

fn table(shown: &[StreamStats<'_>]) -> Table {
    let head = [
        "API",
        "seed",
        "changes a minute",
        "reported rate from one report to the next, %",
        "used, %",
        "dropped by the path, %",
        "longest above what is reported, ms",
        "above what the path carries, ms",
        "round trip then, ms",
        "time above, %",
    ];
    let mut table = Table::new("Streams of four layers", &head);
    for s in shown {
        table.row([
            s.outcome.api.name().to_owned(),
            s.outcome.seed.to_string(),
            format!("{:.1}", s.changes),
            format!("{:.1}", 100.0 * s.jump),
            format!("{:.1}", 100.0 * s.used),
            format!("{:.2}", 100.0 * s.outcome.dropped),
            format!("{:.0}", 1e3 * s.above_reported.0),
            format!("{:.0}", 1e3 * s.above_path.0),
            format!("{:.0}", 1e3 * s.above_path.1),
            format!("{:.1}", 100.0 * s.above.abs()),
        ]);
    }
    table
}

fn claims(shown: &[StreamStats<'_>]) -> Vec<Claim> {
    let mean = |api: Api, of: fn(&StreamStats<'_>) -> f64| {
        let values: Vec<f64> = shown.iter().filter(|s| s.outcome.api == api).map(of).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    let changes = [Api::Alf, Api::Rate].map(|api| mean(api, |s| s.changes));
    let jumps = [Api::Late, Api::Rate].map(|api| mean(api, |s| s.jump));
    let used = [Api::Late, Api::Rate].map(|api| mean(api, |s| s.used));
    let prompt = || shown.iter().filter(|s| s.outcome.api != Api::Late);
    let most = |of: fn(&StreamStats<'_>) -> (f64, f64)| {
        prompt()
            .map(of)
            .map(|(time, rtt)| (time / rtt.max(1e-9), time))
            .fold((0.0, 0.0), |a: (f64, f64), b| if b.0 > a.0 { b } else { a })
    };
    let (reported, path) = (most(|s| s.above_reported), most(|s| s.above_path));
    vec![
        Claim::new(
            "changes of layers by ALF over those by rate callbacks",
            "ALF follows smaller changes, and oscillates more",
            format!("{:.1} ({:.0} and {:.0} a minute)", changes[0] / changes[1], changes[0], changes[1]),
            changes[0] / changes[1],
        )
        .pass(Bound::AtLeast(1.0)),
        Claim::new(
            "change of the reported rate from one report to the next: late feedback over prompt",
            "late feedback makes the reported rate bursty",
            format!("{:.0} ({:.1} % and {:.1} %)", jumps[0] / jumps[1], 100.0 * jumps[0], 100.0 * jumps[1]),
            jumps[0] / jumps[1],
        )
        .pass(Bound::AtLeast(1.0)),
        Claim::new(
            "what arrives with late feedback over what arrives with prompt feedback",
            "it works",
            format!("{:.2} ({:.0} % and {:.0} % of the path)", used[0] / used[1], 100.0 * used[0], 100.0 * used[1]),
            used[0] / used[1],
        )
        .pass(Bound::AtLeast(0.5)),
        Claim::new(
            "longest time with more layers than the manager reports room for, in round trips, beside the callback",
            "",
            format!("{:.2} ({:.0} ms)", reported.0, 1e3 * reported.1),
            reported.0,
        )
        .pass(Bound::AtMost(1.0)),
        Claim::new(
            "longest time with more layers than the path carries, in round trips",
            "",
            format!("{:.1} ({:.0} ms)", path.0, 1e3 * path.1),
            path.0,
        ),
    ]
}

/// Returns the caption of a figure, with the paper's counterpart.
fn caption(api: Api) -> &'static str {
    match api {
        Api::Alf => {
            "As figure 8: the layers are chosen at each grant, so that they follow small changes. It sends as fast as it may."
        }
        Api::Rate => {
            "As figure 9: the layers are chosen when a threshold is crossed, and sent by the stream's own clock."
        }
        Api::Late => {
            "As figure 10: feedback comes after 500 packets or 2 s. The reported rate is bursty, and the stream works."
        }
    }
}

fn figure(outcome: &Outcome) -> Result<Figure, LabError> {
    let mega = |line: Vec<(f64, f64)>| line.into_iter().map(|(at, rate)| (at, rate / 1e6)).collect();
    let layers = outcome.layers.line(outcome.end).into_iter().map(|(at, layers)| (at, need(layers))).collect();
    // Points are thinned to a visible number, and the slow start is omitted since it would compress
    // the rest.
    let shown = |steps: Vec<(f64, f64)>| {
        let step = (steps.len() / 1_500).max(1);
        steps.into_iter().filter(|(at, _)| *at >= BEGIN.as_secs_f64()).step_by(step).collect::<Vec<_>>()
    };
    let title = format!("Four layers by {}", outcome.api.name());
    let lines = Lines {
        title: &title,
        x: "time, s",
        y: "rate, Mbit/s",
        series: vec![
            Series::new("the path", mega(outcome.available.line(outcome.end))),
            Series::new("reported", mega(shown(outcome.reported.line(outcome.end)))),
            Series::new("layers", mega(layers)),
            Series::new("arrived", mega(outcome.arrived.clone())),
        ],
    };
    Ok(Figure::new(lines.draw()?, caption(outcome.api)))
}

fn choices() -> Vec<Choice> {
    let list = |rates: &mut dyn Iterator<Item = u64>| {
        rates.map(|rate| (rate as f64 / 1e6).to_string()).collect::<Vec<_>>().join(", ")
    };
    vec![
        Choice::paper(
            "layers",
            format!("four: {} Mbit/s on the link", list(&mut LAYERS.into_iter())),
            "§4.4; the rates are our choice, packets have 1 000 bytes",
        ),
        Choice::paper(
            "late feedback",
            format!("after {} packets, or {} s after the first of them", LATE.0, LATE.1.as_secs_f64()),
            "§4.4, figure 10",
        ),
        Choice::ours(
            "round trip",
            format!("{} ms", RTT.as_millis()),
            "as in the paper's other tests between MIT and Utah",
        ),
        Choice::ours(
            "path",
            format!(
                "{} Mbit/s for {} s each, ± {} % anew each {} ms; {QUEUE} packets drop-tail",
                list(&mut STEPS.map(|k| k * 1_000).into_iter()),
                STEP.as_secs_f64(),
                100.0 * WAVER,
                WAVER_EVERY.as_millis()
            ),
            "the vBNS cannot be had; some rates lie between what layers take, and some just there, where small changes matter",
        ),
        Choice::ours(
            "thresholds",
            format!("{DOWN} and {UP}"),
            "a layer is chosen that fits into the lower one, so that it fits until the next callback",
        ),
        Choice::ours(
            "adding a layer by rate callbacks",
            format!(
                "at a group of pictures, each {} s; after a try that failed the wait doubles, up to {MOST_GROUPS} groups",
                GROUP.as_secs_f64()
            ),
            "who sends by a clock cannot know what the path would carry besides: as receivers of layered multicast try (McCanne, Jacobson & Vetterli 1996)",
        ),
        Choice::ours(
            "buffer by rate callbacks",
            format!("{BUFFER} packets of {SIZE} bytes"),
            "the paper's kernel buffered, too",
        ),
        Choice::ours(
            "round-trip time with late feedback",
            "from the sending of the oldest packet acknowledged",
            "so long is a window under way; the pace is reckoned with it",
        ),
        Choice::ours("counted", format!("after {} s", BEGIN.as_secs_f64()), "slow start"),
    ]
}

fn notes() -> Vec<String> {
    vec![
        "When the path becomes slower a queue builds up first: the manager's rate, a window over a round trip and not less than \
         the best delivery of the last four, falls as the round trip grows, and only then does a threshold or a grant show \
         it. Layers stay above what the path carries for that time; within the ± 10 % that it wavers, the queue carries it."
            .to_owned(),
    ]
}
