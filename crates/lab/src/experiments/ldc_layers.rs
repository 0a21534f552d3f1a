//! ldc-layers: completeness of each layer (Birkedal et al. §6, figures 5 and 6).

use serde_json::json;

use super::ldc::{BYTES, LAYERS, RATES, SECONDS, START_UPS, Sender, Trial, ViewerOutcome, choices, real, run as trial};
use crate::experiment::{About, Bound, Claim, Experiment, Figure, Findings, Forms, LabError, Run, Table};
use crate::report::plot::{Lines, Series};

pub(crate) struct LdcLayers;

/// Accepted completeness of the base layer in percent, as in the paper.
const COMPLETE: f64 = 100.0;

impl Experiment for LdcLayers {
    fn about(&self) -> About {
        About {
            name: "ldc-layers",
            title: "Layers of a video over TCP with late choice",
            source: "Birkedal et al. §6, figures 5 and 6",
            paper: "over plain TCP every layer is equally incomplete; with late choice the base layer is complete at each rate",
            forms: Forms::BothBySeed,
            seeds: 10,
            takes: "3 s; real 8 min, as root",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        if run.real {
            return real::run(run, &START_UPS[..1], findings);
        }
        let of_seed = |seed| {
            RATES.into_iter().flat_map(move |rate| {
                [Sender::Plain, Sender::LateChoice].map(|sender| Trial { sender, rate, start_up: START_UPS[0], seed })
            })
        };
        let trials: Vec<Trial> = run.seeds().flat_map(of_seed).collect();
        findings(&run.each("streams", &trials, trial))
    }
}

fn findings(viewed: &[ViewerOutcome]) -> Result<Findings, LabError> {
    let mut head = vec!["link, kbit/s".to_owned(), "sender".to_owned()];
    head.extend((1..=LAYERS).map(|layer| format!("layer {layer}")));
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let mut table = Table::new("Bytes of each layer in time, % (means over the seeds)", &head);
    let (mut claims, mut series) = (Vec::new(), Vec::new());
    for rate in RATES {
        let kbps = rate.as_bps() / 1_000;
        for (sender, name) in [(Sender::Plain, "plain"), (Sender::LateChoice, "late choice")] {
            let layers = layers(viewed, kbps, sender);
            let cells = layers.map(|share| format!("{share:.1}"));
            table.row([kbps.to_string(), name.to_owned()].into_iter().chain(cells));
            let points = layers.iter().enumerate().map(|(at, share)| (at as f64 + 1.0, *share)).collect();
            series.push(Series::new(&format!("{name}, {kbps} kbit/s"), points));
            if sender == Sender::LateChoice {
                claims.push(base(kbps, viewed));
                claims.push(fitting(kbps, viewed));
            }
        }
    }
    let lines = Lines { title: "Layers in time", x: "layer", y: "bytes in time, %", series };
    let figure =
        Figure::new(lines.draw()?, "Playout one second after the first packet. As figures 5 and 6 of the paper.");
    let data = json!({ "streams": viewed });
    Ok(Findings { setup: choices(), tables: vec![table], figures: vec![figure], claims, data, ..Findings::default() })
}

fn of(viewed: &[ViewerOutcome], kbps: u64, sender: Sender) -> impl Iterator<Item = &ViewerOutcome> {
    viewed.iter().filter(move |one| one.kbps == kbps && one.sender == sender)
}

/// Returns for each layer the percentage in time.
fn layers(viewed: &[ViewerOutcome], kbps: u64, sender: Sender) -> [f64; LAYERS] {
    let count = of(viewed, kbps, sender).count() as f64;
    std::array::from_fn(|layer| of(viewed, kbps, sender).map(|one| 100.0 * one.layers[layer]).sum::<f64>() / count)
}

/// Returns the claim about the base layer in the worst seed. 100 % is exact: the rest would be
/// seconds without a picture.
fn base(kbps: u64, viewed: &[ViewerOutcome]) -> Claim {
    let least = of(viewed, kbps, Sender::LateChoice).map(|one| 100.0 * one.layers[0]).fold(f64::MAX, f64::min);
    let what = format!("percent of the base layer in time at {kbps} kbit/s, the worst seed");
    Claim::new(&what, "complete", format!("{least:.2}"), (least * 1e6).round() / 1e6).pass(Bound::AtLeast(COMPLETE))
}

/// Returns the claim about the least complete of the layers that fit into plain TCP's received
/// rate.
fn fitting(kbps: u64, viewed: &[ViewerOutcome]) -> Claim {
    let mean = |sender, what: fn(&ViewerOutcome) -> u64| {
        let all: Vec<f64> = of(viewed, kbps, sender).map(|one| what(one) as f64).collect();
        all.iter().sum::<f64>() / all.len() as f64
    };
    let fit = ((mean(Sender::Plain, |one| one.received) / (SECONDS * BYTES) as f64) as usize).clamp(1, LAYERS);
    let layers = layers(viewed, kbps, Sender::LateChoice);
    let least = layers[..fit].iter().copied().fold(f64::MAX, f64::min);
    let what = format!(
        "percent in time of the least complete of the {fit} layers that fit at {kbps} kbit/s, mean of the seeds"
    );
    Claim::new(&what, "not said", format!("{least:.2}"), (least * 1e6).round() / 1e6).aim(Bound::AtLeast(COMPLETE))
}
