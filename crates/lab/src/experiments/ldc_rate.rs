//! ldc-rate: throughput cost of late choice over TCP (Birkedal et al. §6, table 1).

use super::ldc::{self, Cell, RATES, SECONDS, START_UPS, Sender, Views, choices};
use crate::experiment::{Claim, Experiment, Findings, Forms, Rows, Run, RunError, sabotages};

/// Rates received in the paper, in kbit/s: plain, and with late choice.
const PAPER: [(f64, f64); 3] = [(862.47, 851.96), (457.72, 456.30), (235.88, 235.24)];

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ldc-rate",
    title: "Throughput of TCP with late choice",
    source: "Birkedal et al. §6, table 1",
    paper: "862, 458 and 236 kbit/s received over 1024, 512 and 256 kbit/s with 5 % loss; with late choice 1.22, 0.31 and 0.27 % \
            less",
    forms: Forms::BothBySeed,
    seeds: 10,
    takes: "10 s; real 8 min, as root",
    sabotages: &[EARLY, UNMEASURED],
    run,
};

sabotages! {
    EARLY = ldc::EARLY[0], ldc::EARLY[1] => ["percent less received with late choice at 1024 kbit/s", "to the letter: percent less received"];
    UNMEASURED = ldc::UNMEASURED[0], ldc::UNMEASURED[1] => ["percent less received with late choice at 1024 kbit/s"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    ldc::run(run, &START_UPS, 1, |views| Ok(findings(views)))
}

fn findings(views: &Views) -> Findings {
    let rate =
        |cell: &Cell, sender| views.mean(&Cell { sender, ..*cell }, |one| one.received as f64 * 8e-3 / SECONDS as f64);
    let less = |cell: &Cell| {
        let [plain, late] = [Sender::Plain, cell.sender].map(|sender| rate(cell, sender));
        100.0 * (plain - late) / plain
    };
    let cells: Vec<Cell> = views.points().iter().map(|at| *at.point).collect();
    let table = Rows::of(cells.clone())
        .column("start-up, s", Cell::seconds)
        .column("link, kbit/s", Cell::kbps)
        .column("sender", |cell| cell.sender.name())
        .number("received, kbit/s", 1, |cell| rate(cell, cell.sender))
        .number("less than plain, %", 2, less)
        .number("paper: less, %", 2, papers_less)
        .table("Received in 60 s (means over the seeds)");
    let late = cells.iter().filter(|cell| cell.start_up == START_UPS[0] && cell.sender != Sender::Plain);
    let claims = late.map(|cell| {
        let what = format!("{}percent less received with late choice at {} kbit/s", cell.sender.prefix(), cell.kbps());
        let paper = papers_less(cell);
        Claim::number(what, &format!("{paper:.2}"), 2, less(cell)).pass(..=(100.0 * paper).round() / 100.0).aim(..=0.0)
    });
    let notes = vec![
        "Held to the shortest start-up. There each second's data have to arrive as the next second's are made: the source is live, and \
         plays when the next second is there. With 10 s nothing is lost. To the letter nothing is lost at all: what waits is dropped \
         when the next second's data are there, and not before, so that the link is never idle; what leaves last comes late, and with it \
         an eighth of the base layer at 256 kbit/s."
            .to_owned(),
        "With `Layers` the link is idle at the end of a second where a packet under way is lost and not yet known to be: what waits is then \
         taken for a packet later than it is. With deadlines later by another packet the three rates lost 0.14, 0.31 and 0.24 % (seeds \
         8100 to 8139; as it is 0.41, 0.43 and 0.72 %), and 95.2 % of what plain TCP receives at 256 kbit/s came in time, not 98.0 %: \
         the viewer has more as it is."
            .to_owned(),
    ];
    let (setup, claims, data) = (choices(), claims.collect(), views.data());
    Findings { setup, tables: vec![table], claims, notes, data, ..Findings::default() }
}

/// Returns how much less the paper received with late choice at this rate, in percent; zero for plain TCP.
fn papers_less(cell: &Cell) -> f64 {
    let papers = RATES.into_iter().zip(PAPER).find(|(rate, _)| *rate == cell.rate && cell.sender != Sender::Plain);
    papers.map_or(0.0, |(_, (plain, late))| 100.0 * (plain - late) / plain)
}
