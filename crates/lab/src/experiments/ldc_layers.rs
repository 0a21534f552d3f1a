//! ldc-layers: completeness of each layer (Birkedal et al. §6, figures 5 and 6).

use timeous_testbed::report::plot::Series;

use super::ldc::{self, BYTES, Cell, LAYERS, PACKETS, SECONDS, START_UPS, Sender, ViewerOutcome, Views, choices};
use crate::experiment::{At, Chart, Claim, Experiment, Findings, Forms, Run, RunError, least, sabotages, setup};

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
    sabotages: &[NO_CHOICE, CHOSEN],
    run,
};

sabotages! {
    NO_CHOICE = ldc::NO_CHOICE[0], ldc::NO_CHOICE[1] => [
        "percent of the base layer in time", "packets of the base layer not in time", "to the letter: percent of the base layer received",
    ];
    CHOSEN = ldc::CHOSEN[0], ldc::CHOSEN[1] => ["plain TCP at"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    if run.real {
        return ldc::run(run, &START_UPS[..1], 1, findings);
    }
    let alone = ldc::base_alone(run);
    let found = ldc::run(run, &START_UPS[..1], 1, |views| {
        let mut found = findings(views)?;
        found.claims.push(as_if_alone(views, &alone));
        found.setup.extend(setup! {
            ours "base layer alone": "the lowest layer and no other, over plain TCP"
                => "more than TCP carries of it in time no choice among layers can bring";
        });
        Ok(found)
    })?;
    let free = ldc::without_limit(run);
    let table = free.rows().axis("sender", |cell| cell.sender.name());
    let table = table.each(0..LAYERS, layer_name, |at, &layer| format!("{:.1}", in_time(at, layer)));
    let table =
        table.table("Without limit and losses (figure 4): bytes of each layer in time, % (means over the seeds)");
    Ok(Findings {
        tables: found.tables.into_iter().chain([table]).collect(),
        claims: found.claims.into_iter().chain(free.points().iter().map(whole)).collect(),
        ..found
    })
}

fn layer_name(layer: &usize) -> String {
    format!("layer {}", layer + 1)
}

/// Returns the claim about all layers over a link without limit.
fn whole(at: &At<'_, Cell, ViewerOutcome>) -> Claim {
    let what = format!(
        "{}: percent in time of the least complete layer without limit, the worst seed",
        at.point.sender.name()
    );
    let least = least((0..LAYERS).map(|layer| at.stats(|one| 100.0 * one.layers[layer]).least));
    percent(what, "complete", least).pass(COMPLETE..)
}

/// Returns the claim about how evenly plain TCP's bytes are spread over the layers.
fn spread(at: &At<'_, Cell, ViewerOutcome>) -> Claim {
    let seconds = |bytes: u64| bytes as f64 / BYTES as f64;
    let apart = |one: &ViewerOutcome| {
        let [most, least] = [one.received_layers.iter().max(), one.received_layers.iter().min()];
        seconds(most.zip(least).map_or(0, |(most, least)| most - least))
    };
    let what = format!(
        "plain TCP at {} kbit/s: seconds between the layers with most and least received, the worst seed",
        at.point.kbps()
    );
    Claim::number(what, "even, but for the last second", 2, at.stats(apart).most).pass(..=1.0)
}

/// Returns the claim about the base layer that came, as figure 6 counts it.
fn came(at: &At<'_, Cell, ViewerOutcome>) -> Claim {
    let kbps = at.point.kbps();
    let what =
        format!("to the letter: percent of the base layer received, in time or not, at {kbps} kbit/s, the worst seed");
    let received = at.stats(|one| 100.0 * one.arrived_layers[0] as f64 / (SECONDS * BYTES) as f64);
    percent(what, "complete", received.least).pass(COMPLETE..)
}

fn findings(views: &Views) -> Result<Findings, RunError> {
    let table = views
        .rows()
        .axis("link, kbit/s", Cell::kbps)
        .axis("sender", |cell| cell.sender.name())
        .each(0..LAYERS, layer_name, |at, &layer| format!("{:.1}", in_time(at, layer)))
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
    let claims = points.iter().flat_map(|at| match at.point.sender {
        Sender::Plain => vec![spread(at)],
        Sender::LateChoice => vec![base(at), fitting(at, views)],
        Sender::Letter => vec![came(at), base(at)],
    });
    let claims = claims.collect();
    Ok(Findings {
        setup: choices(),
        tables: vec![table],
        figures: vec![chart.draw(points.iter().map(line))?],
        claims,
        data: views.data(),
        ..Findings::default()
    })
}

/// Returns the claim that the base layer with late choice is as if the others were not there.
fn as_if_alone(views: &Views, alone: &Views) -> Claim {
    let missing = |one: &ViewerOutcome| (1.0 - one.layers[0]).max(0.0) * (SECONDS * PACKETS as u64) as f64;
    let of = |views: &Views, sender| views.of(|cell| cell.sender == sender).map(missing).sum::<f64>().round();
    let (with, without) = (of(views, Sender::LateChoice), of(alone, Sender::Plain));
    let what =
        "packets of the base layer not in time, all rates, late choice beyond the base layer alone over plain TCP";
    Claim::new(what, "—", format!("{with} for {without}"), with - without).pass(..=0.0)
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
    let prefix = at.point.sender.prefix();
    let what = format!("{prefix}percent of the base layer in time at {} kbit/s, the worst seed", at.point.kbps());
    let claim = percent(what, "complete", least);
    // The paper counts what came, in time or not.
    if at.point.sender == Sender::Letter { claim } else { claim.pass(COMPLETE..) }
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
