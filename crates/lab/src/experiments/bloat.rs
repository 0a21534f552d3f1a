//! bloat: frames decodable before their deadline over bottlenecks whose queue outlasts that
//! deadline, beside an upper bound.

mod findings;
pub(crate) mod narrow;
mod narrow_tcp;
pub(crate) mod setup;
pub(crate) mod stream;
mod transitions;
pub(crate) mod trial;

use timeous_testbed::bound::Bound;

use findings::{Behaviour, CellOutcomes};
use setup::{Cell, LossModel, Part};
use stream::SenderKind;
use trial::{Encryption, Outcome, Trial};

use crate::experiment::{Experiment, Extent, Findings, Forms, Run, RunError, sabotages};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "bloat",
    title: "Frames decodable in time, beside what could be",
    source: "ours",
    paper: "none: what is compared with is the most that any schedule could have done that knows every rate and loss in advance",
    forms: Forms::Virtual,
    seeds: 10,
    takes: "4 min",
    sabotages: &[NO_PLAN, NO_REPAIR, NO_CONTROLLER, PATIENT],
    run,
};

sabotages! {
    NO_PLAN = "no-plan", "Timeous is sent without its plan" => ["more of the bound in the mean than without the plan"];
    NO_REPAIR = "no-repair", "Timeous is sent without its repair"
        => ["more of the bound in the mean than without the repair"];
    NO_CONTROLLER = "no-controller", "Timeous is sent by a controller that fills queues"
        => ["more of the bound in the mean than without the controller", "all cells, percent of a sender that is told the rates"];
    PATIENT = "patient", "no sender knows deadlines" => ["packets that left after their deadline"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let part = match run.extent {
        Extent::Small => Part::Handful,
        Extent::Least | Extent::Usual => Part::Pairs,
        Extent::Full => Part::All,
    };
    let mut cells = setup::cells(part);
    if run.extent == Extent::Least {
        // One in which plan, repair and controller are each worth ten points.
        let is_short = |cell: &Cell| cell.rtt * 10 == cell.deadline && cell.offered == 2 * cell.kbps;
        cells.retain(|cell| cell.kbps == 300 && cell.losses == LossModel::Bursts(1) && is_short(cell));
    }
    // In one cell chance decides with one seed.
    let few = Run { seeds: run.seeds.max(6), ..*run };
    let run = if run.extent == Extent::Least { &few } else { run };
    let crowded = judged(run, "cells with too much", &cells, &SenderKind::ALL);
    if matches!(run.extent, Extent::Least | Extent::Small) {
        return Ok(findings::findings(&crowded, &[], None));
    }
    let room = judged(run, "cells with room", &setup::with_room(), &[SenderKind::Timeous, SenderKind::NoRepair]);
    // How each sender reacts to capacity that returns and to an application-limited minute.
    let returns = run.grid("changes", SenderKind::REAL, |&way, seed| {
        let until_used = transitions::until_used(way, seed).as_secs_f64();
        Behaviour { until_used, burst: transitions::burst(way, seed) }
    });
    Ok(findings::findings(&crowded, &room, Some(&returns)))
}

/// Returns the trial of a sender, or of a broken one in its place.
fn trial(run: &Run<'_>, cell: Cell, seed: u64, way: SenderKind) -> Trial {
    let way = match (run.sabotage, way) {
        (Some(NO_PLAN), SenderKind::Timeous) => SenderKind::NoPlan,
        (Some(NO_REPAIR), SenderKind::Timeous) => SenderKind::NoRepair,
        (Some(NO_CONTROLLER), SenderKind::Timeous) => SenderKind::NoController,
        (_, way) => way,
    };
    Trial { cell, seed, way, encryption: Encryption::Plain, is_patient: run.breaks(PATIENT) }
}

/// Runs every cell with each sender and all seeds; returns outcomes and upper bounds by cell.
fn judged(run: &Run<'_>, what: &str, cells: &[Cell], ways: &[SenderKind]) -> Vec<CellOutcomes> {
    let limits: Vec<(Cell, u64)> = cells.iter().flat_map(|&cell| run.seeds().map(move |seed| (cell, seed))).collect();
    let trials: Vec<Trial> =
        limits.iter().flat_map(|&(cell, seed)| ways.iter().map(move |&way| trial(run, cell, seed, way))).collect();
    let limits: Vec<Bound> = run.each(&format!("{what}: bounds"), &limits, |&(cell, seed)| trial::limit(&cell, seed));
    let outcomes: Vec<Outcome> = run.each(what, &trials, trial::run);
    let seeds = run.seeds as usize;
    let of_cell = |(place, &cell): (usize, &Cell)| {
        let bounds = limits[place * seeds..(place + 1) * seeds].to_vec();
        let of_way = |(at, &way): (usize, &SenderKind)| {
            let place_of = |seed: usize| (place * seeds + seed) * ways.len() + at;
            (way, (0..seeds).map(|seed| outcomes[place_of(seed)].clone()).collect())
        };
        CellOutcomes { cell, bounds, outcomes: ways.iter().enumerate().map(of_way).collect() }
    };
    cells.iter().enumerate().map(of_cell).collect()
}
