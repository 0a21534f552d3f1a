//! ldc-playout: data that arrives in time for playout (Birkedal et al. §6 and §7, figures 7 and 8).

use timeous::core::Duration;
use timeous_testbed::report::plot::Series;

use super::ldc::{self, BYTES, Cell, LAYERS, RATES, SECONDS, START_UPS, Sender, Views, choices};
use crate::experiment::{
    Chart, Claim, Experiment, Figure, Findings, Forms, Rows, Run, RunError, cross, least, mean, sabotages,
};

/// Bytes of the whole stream.
const ALL: u64 = BYTES * LAYERS as u64 * SECONDS;
/// Target for the share of received data that is in time, in percent.
const AIM: f64 = 97.0;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ldc-playout",
    title: "Playout of a video over TCP with late choice",
    source: "Birkedal et al. §6 and §7, figures 7 and 8",
    paper: "with late choice data arrive in step with their playout, without it ever later; start-up buffers of 10 and 20 s put \
            that off",
    forms: Forms::BothBySeed,
    seeds: 10,
    takes: "10 s; real 30 min, as root",
    sabotages: &[NO_CHOICE, EARLY],
    run,
};

sabotages! {
    NO_CHOICE = ldc::NO_CHOICE[0], ldc::NO_CHOICE[1]
        => [
            "percent in time of what came with late choice at 256 kbit/s, 1 s",
            "percent in time of what came with late choice at 512 kbit/s, 1 s",
            "percent in time of what came with late choice at 1024 kbit/s, 1 s",
        ];
    EARLY = ldc::EARLY[0], ldc::EARLY[1]
        => ["more bytes in time with late choice, or all that there are, at 1024 kbit/s, 20 s"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    ldc::run(run, &START_UPS, START_UPS.len(), findings)
}

fn findings(views: &Views) -> Result<Findings, RunError> {
    let of = |cell: &Cell, sender: Sender| {
        let cell = Cell { sender, ..*cell };
        views.of(move |at| *at == cell)
    };
    let in_time = |cell: &Cell, sender| mean(of(cell, sender).map(|one| one.in_time as f64)) / 1e3;
    let share = |cell: &Cell, sender| {
        let arrived: u64 = of(cell, sender).map(|one| one.arrived).sum();
        100.0 * of(cell, sender).map(|one| one.in_time).sum::<u64>() as f64 / arrived as f64
    };
    let cells = views.points().into_iter().map(|at| *at.point).filter(|cell| cell.sender == Sender::Plain);
    let cells: Vec<Cell> = cells.collect();
    let senders: Vec<Sender> =
        Sender::ALL.into_iter().filter(|sender| views.first(|at| at.sender == *sender).is_some()).collect();
    let table = Rows::of(cells.clone())
        .column("start-up, s", Cell::seconds)
        .column("link, kbit/s", Cell::kbps)
        .each(
            senders.clone(),
            |sender| format!("{}, kB in time", sender.name()),
            |cell, sender| format!("{:.0}", in_time(cell, *sender)),
        )
        .each(
            senders,
            |sender| format!("{}, % of what came", sender.name()),
            |cell, sender| format!("{:.1}", share(cell, *sender)),
        )
        .table("In time (means over the seeds)");
    let claims = cells.iter().flat_map(|cell| {
        let at = format!("at {} kbit/s, {} s of start-up", cell.kbps(), cell.seconds());
        let [plain, late] = [Sender::Plain, Sender::LateChoice].map(|sender| in_time(cell, sender));
        let has_all = least(of(cell, Sender::LateChoice).map(|one| one.in_time as f64)) == ALL as f64;
        let measured = format!("{late:.0} against {plain:.0} kB{}", if has_all { ", all that there are" } else { "" });
        let what = format!("more bytes in time with late choice, or all that there are, {at}");
        let share = share(cell, Sender::LateChoice);
        [
            Claim::order(what, "yes", measured, late > plain || has_all),
            Claim::number(format!("percent in time of what came with late choice {at}"), "some late", 1, share)
                .aim(AIM..),
        ]
    });
    let (setup, figures) = (choices(), vec![figure(views)?]);
    let notes = vec![
        "A tie counts in one case alone: each stream with late choice had every byte that there is in time, so that there was nothing \
         more to bring. With 20 s of start-up over 1024 kbit/s the whole stream fits, and plain TCP has all of it, too: late choice is no \
         better there, and loses nothing."
            .to_owned(),
    ];
    Ok(Findings { setup, tables: vec![table], figures, claims: claims.collect(), notes, data: views.data() })
}

/// Plots the latest packet of each second for the first seed at the highest rate.
fn figure(views: &Views) -> Result<Figure, RunError> {
    let line = |(sender, start_up): (Sender, Duration)| {
        let cell = Cell { start_up, rate: RATES[0], sender };
        let mut worst = std::collections::BTreeMap::<u64, f64>::new();
        for &(second, late) in &views.first(|at| *at == cell)?.lateness {
            let slot = worst.entry(second).or_insert(f64::MIN);
            *slot = slot.max(late);
        }
        let points = worst.into_iter().map(|(second, late)| (second as f64, late)).collect();
        Some(Series::new(&format!("{}, {} s", sender.name(), cell.seconds()), points))
    };
    let chart = Chart {
        title: "How late the last packet of each second came, 1024 kbit/s",
        x: "second of the stream",
        y: "after its playout, s",
        caption: "Below zero is in time. As figure 8 of the paper; the first seed.",
    };
    chart.draw(cross(Sender::ALL, START_UPS).filter_map(line))
}
