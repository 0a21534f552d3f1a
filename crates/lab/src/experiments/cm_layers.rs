//! cm-layers: a stream of four layers that adapts to the rate of its path (Andersen et al. §4.4,
//! figures 8, 9 and 10).

mod trial;
mod video;

use timeous_testbed::report::plot::Series;

use trial::{Api, BEGIN, LATE, Outcome, QUEUE, RTT, STEP, STEPS, Steps, WAVER, WAVER_EVERY};
use video::{BUFFER, DOWN, GROUP, LAYERS, MOST_GROUPS, SIZE, UP};

use crate::experiment::{
    Chart, Choice, Claim, Experiment, Figure, Findings, Forms, Grid, Rows, Run, RunError, mean, setup,
};

const CHANGES: &str = "changes of layers by ALF over those by rate callbacks";
const BURSTY: &str = "change of the reported rate from one report to the next: late feedback over prompt";
const LATE_USE: &str = "what arrives with late feedback over what arrives with prompt feedback";
const ALF_USE: &str = "share of the path that ALF uses";
const RATE_USE: &str = "what arrives by rate callbacks, of what the layers that fit the path carry";
const ALF_FOLLOWS: &str = "rate of the layers by ALF where the path is at its widest, over that at its narrowest";
const RATE_FOLLOWS: &str =
    "rate of the layers by rate callbacks where the path is at its widest, over that at its narrowest";
const ALF_ABOVE: &str = "time with more layers than the path carries by ALF, %";
const RATE_ABOVE: &str = "time with more layers than the path carries by rate callbacks, %";
const LONGEST_REPORTED: &str =
    "longest time with more layers than the manager reports room for, in round trips, beside the callback";
const LONGEST: &str = "longest time with more layers than the path carries, in round trips";

/// Least ratio for "more", where the paper names no number.
const MORE: f64 = 1.1;
/// Least use of the path by an application that sends at each grant.
const ALF_USES: f64 = 0.9;
/// Least use of the layers that fit.
const RATE_USES: f64 = 0.75;
/// Least ratio of the layers' rates where the path's are 4 and 1.1 Mbit/s: half of the path's own.
const FOLLOWS: f64 = 1.8;
/// Most time with more layers than the path carries, in percent.
const ABOVE: f64 = 10.0;

/// Statistics of one stream.
#[derive(serde::Serialize)]
struct StreamStats {
    #[serde(skip)]
    outcome: Outcome,
    /// Layer changes per minute.
    changes: f64,
    /// Mean relative difference between consecutive reported rates.
    jump: f64,
    /// Received share of what the path carried.
    used: f64,
    /// Received share of what the layers that fit the path could carry.
    used_of_layers: f64,
    /// Longest time for which the layers' rate exceeded the reported rate, and the round-trip time
    /// then.
    above_reported: (f64, f64),
    /// The same for the rate of the path.
    above_path: (f64, f64),
    /// Share of the time for which the layers' rate exceeded the path's.
    above: f64,
    /// Mean rate of the layers while the path is at its widest, over that at its narrowest.
    follows: f64,
}

/// Statistics by API.
type Streams = Grid<Api, StreamStats>;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "cm-layers",
    title: "A stream of four layers over a path that changes",
    source: "Andersen et al. §4.4, figures 8, 9 and 10",
    paper: "ALF follows small changes of the rate, rate callbacks oscillate less, delayed feedback makes the reported rate \
            bursty, and all of them work",
    forms: Forms::Virtual,
    seeds: 5,
    takes: "5 s",
    sabotages: &[trial::SILENT, trial::DEAF, trial::GREEDY, trial::PROMPT],
    run,
};

fn need(layers: f64) -> f64 {
    LAYERS[layers as usize - 1] as f64
}

impl StreamStats {
    fn of(outcome: Outcome) -> Self {
        let within = (BEGIN.as_secs_f64(), outcome.end);
        let lasted = within.1 - within.0;
        let reports: Vec<f64> = outcome.reported.since(within.0).map(|(_, rate)| rate).collect();
        let jumps: Vec<f64> = reports.windows(2).map(|pair| (pair[1] / pair[0]).ln().abs()).collect();
        let arrived = mean(outcome.arrived.iter().filter(|(at, _)| *at >= within.0).map(|&(_, rate)| rate));
        // A stream that sent nothing cannot be judged.
        let is_empty = arrived == 0.0;
        let fitting =
            Steps::new(outcome.available.since(0.0).map(|(at, rate)| (at, need(video::fitting(rate) as f64))));
        let lowest = LAYERS[0] as f64;
        let over = |layers: f64, rate: f64| need(layers) > rate && need(layers) > lowest;
        let longest = |stretches: &[(f64, f64)]| {
            if is_empty {
                return (f64::NAN, f64::NAN);
            }
            let longer = |a: (f64, f64), b: (f64, f64)| if b.1 > a.1 { b } else { a };
            let (at, length) = stretches.iter().copied().fold((0.0, 0.0), longer);
            (length, outcome.rtt.at(at).unwrap_or(0.0))
        };
        let reported = outcome.layers.stretches(&outcome.reported, within, over);
        let path = outcome.layers.stretches(&outcome.available, within, over);
        let sent = Steps::new(outcome.layers.since(0.0).map(|(at, layers)| (at, need(layers))));
        let chosen = |rate: u64| mean(trial::times_at(rate).filter(|_| !is_empty).map(|time| sent.mean(time)));
        let [narrowest, widest] = trial::EXTREMES;
        Self {
            changes: 60.0 * outcome.layers.since(within.0).count() as f64 / lasted,
            jump: jumps.iter().sum::<f64>() / jumps.len().max(1) as f64,
            used: arrived / outcome.available.mean(within),
            used_of_layers: arrived / fitting.mean(within),
            above_reported: longest(&reported),
            above_path: longest(&path),
            above: if is_empty { f64::NAN } else { path.iter().map(|stretch| stretch.1).sum::<f64>() / lasted },
            follows: chosen(widest) / chosen(narrowest),
            outcome,
        }
    }
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let streams = run.grid("streams", Api::ALL, |api, seed| StreamStats::of(trial::run(*api, seed, run.sabotage)));
    let table = Rows::of(streams.runs())
        .column("API", |run| run.0.name())
        .column("seed", |run| run.1)
        .number("changes a minute", 1, |run| run.2.changes)
        .number("reported rate from one report to the next, %", 1, |run| 100.0 * run.2.jump)
        .number("used, %", 1, |run| 100.0 * run.2.used)
        .number("dropped by the path, %", 2, |run| 100.0 * run.2.outcome.dropped)
        .number("longest above what is reported, ms", 0, |run| 1e3 * run.2.above_reported.0)
        .number("above what the path carries, ms", 0, |run| 1e3 * run.2.above_path.0)
        .number("round trip then, ms", 0, |run| 1e3 * run.2.above_path.1)
        .number("time above, %", 1, |run| 100.0 * run.2.above.abs())
        .table("Streams of four layers");
    let shown = Api::ALL.into_iter().filter_map(|api| Some((api, streams.first(|of| *of == api)?)));
    Ok(Findings {
        setup: choices(),
        tables: vec![table],
        figures: shown.map(|(api, stats)| figure(api, &stats.outcome)).collect::<Result<_, _>>()?,
        claims: claims(&streams),
        notes: notes(),
        data: streams.data(),
    })
}

fn claims(streams: &Streams) -> Vec<Claim> {
    // Means of two APIs, and their ratio.
    let of = |apis: [Api; 2], metric: fn(&StreamStats) -> f64| {
        let [one, other] = apis.map(|api| streams.mean(&api, metric));
        (one, other, one / other)
    };
    let changes = of([Api::Alf, Api::Rate], |one| one.changes);
    let jumps = of([Api::Late, Api::Rate], |one| 100.0 * one.jump);
    let used = of([Api::Late, Api::Rate], |one| 100.0 * one.used);
    let most = |metric: fn(&StreamStats) -> (f64, f64)| {
        let prompt = streams.of(|api| *api != Api::Late).map(metric);
        let longest = prompt.map(|(time, rtt)| (time / rtt.max(1e-9), time));
        longest.reduce(|a, b| if a.0.is_nan() || b.0 < a.0 { a } else { b }).unwrap_or((f64::NAN, f64::NAN))
    };
    let (reported, path) = (most(|one| one.above_reported), most(|one| one.above_path));
    let by_alf = streams.mean(&Api::Alf, |one| one.used);
    let by_rate = streams.mean(&Api::Rate, |one| one.used_of_layers);
    let follows = |api| streams.mean(&api, |one| one.follows);
    let above = |api| 100.0 * streams.mean(&api, |one| one.above);
    vec![
        Claim::new(
            CHANGES,
            "ALF follows smaller changes, and oscillates more",
            format!("{:.1} ({:.0} and {:.0} a minute)", changes.2, changes.0, changes.1),
            changes.2,
        )
        .pass(MORE..),
        Claim::new(
            BURSTY,
            "late feedback makes the reported rate bursty",
            format!("{:.0} ({:.1} % and {:.1} %)", jumps.2, jumps.0, jumps.1),
            jumps.2,
        )
        .pass(MORE..),
        Claim::new(
            LATE_USE,
            "it works",
            format!("{:.2} ({:.0} % and {:.0} % of the path)", used.2, used.0, used.1),
            used.2,
        )
        .pass(0.5..),
        Claim::number(ALF_USE, "it sends as fast as it may", 2, by_alf).pass(ALF_USES..),
        Claim::number(RATE_USE, "it works", 2, by_rate).pass(RATE_USES..),
        Claim::number(ALF_FOLLOWS, "it follows small changes", 2, follows(Api::Alf)).pass(FOLLOWS..),
        Claim::number(RATE_FOLLOWS, "it follows large changes", 2, follows(Api::Rate)).pass(FOLLOWS..),
        Claim::number(ALF_ABOVE, "", 1, above(Api::Alf)).pass(..=ABOVE),
        Claim::number(RATE_ABOVE, "", 1, above(Api::Rate)).pass(..=ABOVE),
        Claim::new(LONGEST_REPORTED, "", format!("{:.2} ({:.0} ms)", reported.0, 1e3 * reported.1), reported.0)
            .pass(..=1.0),
        Claim::new(LONGEST, "", format!("{:.1} ({:.0} ms)", path.0, 1e3 * path.1), path.0).pass(..=2.0),
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

fn figure(api: Api, outcome: &Outcome) -> Result<Figure, RunError> {
    let mega = |line: Vec<(f64, f64)>| line.into_iter().map(|(at, rate)| (at, rate / 1e6)).collect();
    let layers = outcome.layers.line(outcome.end).into_iter().map(|(at, layers)| (at, need(layers))).collect();
    // Points are thinned to a visible number, and the slow start is omitted since it would compress
    // the rest.
    let shown = |steps: Vec<(f64, f64)>| {
        let step = (steps.len() / 1_500).max(1);
        steps.into_iter().filter(|(at, _)| *at >= BEGIN.as_secs_f64()).step_by(step).collect::<Vec<_>>()
    };
    let title = format!("Four layers by {}", api.name());
    Chart { title: &title, x: "time, s", y: "rate, Mbit/s", caption: caption(api) }.draw([
        Series::new("the path", mega(outcome.available.line(outcome.end))),
        Series::new("reported", mega(shown(outcome.reported.line(outcome.end)))),
        Series::new("layers", mega(layers)),
        Series::new("arrived", mega(outcome.arrived.clone())),
    ])
}

fn choices() -> Vec<Choice> {
    let list = |rates: &mut dyn Iterator<Item = u64>| {
        rates.map(|rate| (rate as f64 / 1e6).to_string()).collect::<Vec<_>>().join(", ")
    };
    setup! {
        paper "layers": "four: {} Mbit/s on the link", list(&mut LAYERS.into_iter())
            => "§4.4; the rates are our choice, packets have 1 000 bytes";
        paper "late feedback": "after {} packets, or {} s after the first of them", LATE.0, LATE.1.as_secs_f64()
            => "§4.4, figure 10";
        ours "round trip": "{} ms", RTT.as_millis() => "as in the paper's other tests between MIT and Utah";
        ours "path": "{} Mbit/s for {} s each, ± {} % anew each {} ms; {QUEUE} packets drop-tail",
            list(&mut STEPS.map(|k| k * 1_000).into_iter()), STEP.as_secs_f64(), 100.0 * WAVER, WAVER_EVERY.as_millis()
            => "the vBNS cannot be had; some rates lie between what layers take, and some just there, where small \
            changes matter";
        ours "thresholds": "{DOWN} and {UP}"
            => "a layer is chosen that fits into the lower one, so that it fits until the next callback";
        ours "adding a layer by rate callbacks": "at a group of pictures, each {} s; after a try that failed the wait \
            doubles, up to {MOST_GROUPS} groups", GROUP.as_secs_f64()
            => "who sends by a clock cannot know what the path would carry besides: as receivers of layered multicast \
            try (McCanne, Jacobson & Vetterli 1996)";
        ours "buffer by rate callbacks": "{BUFFER} packets of {SIZE} bytes" => "the paper's kernel buffered, too";
        ours "round-trip time with late feedback": "from the sending of the oldest packet acknowledged"
            => "so long is a window under way; the pace is reckoned with it";
        ours "counted": "after {} s", BEGIN.as_secs_f64() => "slow start";
    }
}

fn notes() -> Vec<String> {
    vec![
        "When the path becomes slower a queue builds up first: the manager's rate, a window over a round trip and not less than \
         the best delivery of the last four, falls as the round trip grows, and only then does a threshold or a grant show \
         it. Layers stay above what the path carries for that time; within the ± 10 % that it wavers, the queue carries it."
            .to_owned(),
    ]
}
