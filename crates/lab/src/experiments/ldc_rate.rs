//! ldc-rate: throughput cost of late choice over TCP (Birkedal et al. §6, table 1).

use super::ldc::{self, Cell, RATES, SECONDS, START_UPS, Sender, Views, choices};
use crate::experiment::{Claim, Experiment, Findings, Forms, Rows, Run, RunError, sabotages};

/// Rates received in the paper, in kbit/s: plain, and with late choice.
const PAPER: [(f64, f64); 3] = [(862.47, 851.96), (457.72, 456.30), (235.88, 235.24)];
/// Largest accepted cost in percent: the paper's worst.
const PASS: f64 = 1.25;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ldc-rate",
    title: "Throughput of TCP with late choice",
    source: "Birkedal et al. §6, table 1",
    paper: "862, 458 and 236 kbit/s received over 1024, 512 and 256 kbit/s with 5 % loss; with late choice 1.22, 0.31 and 0.27 % \
            less",
    forms: Forms::BothBySeed,
    seeds: 10,
    takes: "10 s; real 8 min, as root",
    sabotages: &[EARLY],
    run,
};

sabotages! {
    EARLY = ldc::EARLY[0], ldc::EARLY[1] => ["percent less received"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    ldc::run(run, &START_UPS, 1, |views| Ok(findings(views)))
}

fn findings(views: &Views) -> Findings {
    let mean =
        |cell: &Cell, sender| views.mean(&Cell { sender, ..*cell }, |one| one.received as f64 * 8e-3 / SECONDS as f64);
    let less = |cell: &Cell| {
        let [plain, late] = Sender::ALL.map(|sender| mean(cell, sender));
        100.0 * (plain - late) / plain
    };
    let papers_less = |cell: &Cell| {
        let papers = RATES.into_iter().zip(PAPER).find(|(rate, _)| *rate == cell.rate);
        papers.map_or(f64::NAN, |(_, (plain, late))| 100.0 * (plain - late) / plain)
    };
    let cells: Vec<Cell> =
        views.points().iter().map(|at| *at.point).filter(|cell| cell.sender == Sender::Plain).collect();
    let table = Rows::of(cells.clone())
        .column("start-up, s", Cell::seconds)
        .column("link, kbit/s", Cell::kbps)
        .number("plain, kbit/s", 1, |cell| mean(cell, Sender::Plain))
        .number("late choice, kbit/s", 1, |cell| mean(cell, Sender::LateChoice))
        .number("less, %", 2, less)
        .number("paper: less, %", 2, papers_less)
        .table("Received in 60 s (means over the seeds)");
    let claims = cells.iter().filter(|cell| cell.start_up == START_UPS[0]).map(|cell| {
        let what = format!("percent less received with late choice at {} kbit/s", cell.kbps());
        Claim::number(what, &format!("{:.2}", papers_less(cell)), 2, less(cell)).pass(..=PASS).aim(..=0.0)
    });
    let notes = vec![
        "Held to the shortest start-up. There each second's data have to arrive as the next second's are made: the source is live, and \
         plays when the next second is there. With 10 s nothing is lost. The bounds hold since the sender is told of the playout itself. \
         Told of deadlines that count from when the data were made, which are earlier by the first packet's way, ten seeds received 1.52, \
         2.01 and 3.36 % less than plain TCP: what could have come in that time at the end of each second was given up."
            .to_owned(),
    ];
    let (setup, claims, data) = (choices(), claims.collect(), views.data());
    Findings { setup, tables: vec![table], claims, notes, data, ..Findings::default() }
}
