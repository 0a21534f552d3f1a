//! ldc-layers: completeness of each layer (Birkedal et al. §6, figures 5 and 6).

use timeous_testbed::report::plot::Series;

use super::ldc::{self, BYTES, Cell, LAYERS, SECONDS, START_UPS, Sender, ViewerOutcome, Views, choices};
use crate::experiment::{At, Chart, Claim, Experiment, Findings, Forms, Run, RunError, least, sabotages};

/// Accepted completeness of the base layer in percent, as in the paper.
const COMPLETE: f64 = 100.0;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ldc-layers",
    title: "Layers of a video over TCP with late choice",
    source: "Birkedal et al. §6, figures 5 and 6",
    paper: "over plain TCP every layer is equally incomplete; with late choice the base layer is complete at each rate",
    forms: Forms::BothBySeed,
    seeds: 10,
    takes: "3 s; real 8 min, as root",
    sabotages: &[NO_CHOICE],
    run,
};

sabotages! {
    NO_CHOICE = ldc::NO_CHOICE[0], ldc::NO_CHOICE[1] => ["percent of the base layer in time"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    ldc::run(run, &START_UPS[..1], 1, findings)
}

fn findings(views: &Views) -> Result<Findings, RunError> {
    let table = views
        .rows()
        .axis("link, kbit/s", Cell::kbps)
        .axis("sender", |cell| cell.sender.name())
        .each(0..LAYERS, |layer| format!("layer {}", layer + 1), |at, &layer| format!("{:.1}", in_time(at, layer)))
        .table("Bytes of each layer in time, % (means over the seeds)");
    let chart = Chart {
        title: "Layers in time",
        x: "layer",
        y: "bytes in time, %",
        caption: "Playout one second after the first packet. As figures 5 and 6 of the paper.",
    };
    let line = |at: &At<'_, Cell, ViewerOutcome>| {
        let points = (0..LAYERS).map(|layer| (layer as f64 + 1.0, in_time(at, layer))).collect();
        Series::new(&format!("{}, {} kbit/s", at.point.sender.name(), at.point.kbps()), points)
    };
    let points = views.points();
    let late = points.iter().filter(|at| at.point.sender == Sender::LateChoice);
    Ok(Findings {
        setup: choices(),
        tables: vec![table],
        figures: vec![chart.draw(points.iter().map(line))?],
        claims: late.flat_map(|at| [base(at), fitting(at, views)]).collect(),
        data: views.data(),
        ..Findings::default()
    })
}

/// Returns the percentage of a layer in time.
fn in_time(at: &At<'_, Cell, ViewerOutcome>, layer: usize) -> f64 {
    at.mean(|one| 100.0 * one.layers[layer])
}

/// Creates a claim about a percentage. 100 % is exact: the rest would be seconds without a picture.
fn percent(what: String, paper: &str, percent: f64) -> Claim {
    Claim::new(what, paper, format!("{percent:.2}"), (percent * 1e6).round() / 1e6)
}

/// Returns the claim about the base layer in the worst seed.
fn base(at: &At<'_, Cell, ViewerOutcome>) -> Claim {
    let least = at.stats(|one| 100.0 * one.layers[0]).least;
    let what = format!("percent of the base layer in time at {} kbit/s, the worst seed", at.point.kbps());
    percent(what, "complete", least).pass(COMPLETE..)
}

/// Returns the claim about the least complete of the layers that fit into plain TCP's received
/// rate.
fn fitting(at: &At<'_, Cell, ViewerOutcome>, views: &Views) -> Claim {
    let received = views.mean(&Cell { sender: Sender::Plain, ..*at.point }, |one| one.received as f64);
    let fit = ((received / (SECONDS * BYTES) as f64) as usize).clamp(1, LAYERS);
    let what = format!(
        "percent in time of the least complete of the {fit} layers that fit at {} kbit/s, mean of the seeds",
        at.point.kbps()
    );
    percent(what, "not said", least((0..fit).map(|layer| in_time(at, layer)))).aim(COMPLETE..)
}
