//! Tables and claims of the experiment.

use std::collections::BTreeMap;

use serde_json::json;

use super::outcome::Outcome;
use super::sender::SenderKind;
use super::setup::{self, Cell, DIMENSIONS};
use crate::bound::Bound;
use crate::experiment::{Bound as Keeps, Claim, Findings, Table};

/// Claimed frames decodable in time, percent of the bound: mean over the cells, and worst cell.
const MEAN: f64 = 90.0;
const WORST: f64 = 75.0;
/// The same on links with room to spare: (deadline in round trips, percent of the bound).
const ROOM: [(u64, f64); 2] = [(2, 99.0), (4, 100.0)];
/// Longest time until returned capacity is used, in seconds.
const USED_AFTER: f64 = 2.0;
/// Largest burst in the first round trip after an application-limited minute, in multiples of what
/// the link carries per round trip: slow start at most doubles.
const BURST: f64 = 2.0;
/// Number of worst cells in the table.
const SHOWN: usize = 12;

/// Outcomes of one cell, by sender and seed.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct CellOutcomes {
    #[serde(serialize_with = "by_name")]
    pub(super) cell: Cell,
    pub(super) bounds: Vec<Bound>,
    pub(super) outcomes: BTreeMap<SenderKind, Vec<Outcome>>,
}

fn by_name<S: serde::Serializer>(cell: &Cell, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&cell.name())
}

/// Reaction of a sender to changes of the link and of its application.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct Behaviour {
    pub(super) way: SenderKind,
    /// Seconds until returned capacity is used.
    pub(super) until_used: f64,
    /// Bytes sent in the first round trip after an application-limited minute, in multiples of what
    /// the link carries.
    pub(super) burst: f64,
}

impl CellOutcomes {
    fn bound(&self) -> u64 {
        self.bounds.iter().map(|bound| bound.value).sum()
    }

    fn decodable(&self, way: SenderKind) -> u64 {
        self.outcomes.get(&way).into_iter().flatten().map(|outcome| outcome.decodable).sum()
    }

    /// Returns the percentage of the bound over all seeds; `None` if no frame could be decodable.
    fn share(&self, way: SenderKind) -> Option<f64> {
        (self.bound() > 0).then(|| 100.0 * self.decodable(way) as f64 / self.bound() as f64)
    }

    /// Returns the lowest and the highest percentage over the seeds.
    fn spread(&self, way: SenderKind) -> (f64, f64) {
        let shares = self.outcomes[&way].iter().zip(&self.bounds).filter(|(_, bound)| bound.value > 0);
        let shares = shares.map(|(outcome, bound)| 100.0 * outcome.decodable as f64 / bound.value as f64);
        shares.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), share| (low.min(share), high.max(share)))
    }
}

/// Builds all tables and claims.
pub(super) fn findings(crowded: &[CellOutcomes], room: &[CellOutcomes], returns: &[Behaviour]) -> Findings {
    let tables = vec![ways(crowded), dimensions(crowded), worst(crowded)];
    let tables = if room.is_empty() { tables } else { [tables, vec![spare(room), changes(returns)]].concat() };
    let mut claims = vec![
        of_bound("mean over the cells, percent of the bound", mean(crowded, SenderKind::Timeous), MEAN),
        of_bound("worst cell, percent of the bound", least(crowded, SenderKind::Timeous), WORST),
    ];
    for way in SenderKind::ALL.into_iter().skip(1) {
        let (ours, theirs) = (mean(crowded, SenderKind::Timeous), mean(crowded, way));
        let what = format!("more of the bound in the mean than {}", with(way));
        claims.push(Claim::order(&what, "–", format!("{ours:.1} against {theirs:.1} %"), ours > theirs));
    }
    claims.push(never_late(crowded, room));
    claims.extend(room_claims(room));
    claims.extend(change_claims(returns));
    let upper = crowded.iter().chain(room).flat_map(|cell| &cell.bounds).filter(|bound| !bound.exact).count();
    let notes = vec![
        format!("The bound is exact but in {upper} runs, where it is an upper bound."),
        "Who is told the rate shows how much of what is missing is control: the rest is what nobody knows in advance, above all which \
         packets will be lost, and what the plan and the repair miss."
            .to_owned(),
        "A cell's share is of all its seeds together. Cells in which no schedule makes a frame decodable are left out of shares."
            .to_owned(),
        "A bound that does not hold is shown as it is: the worst cells say where.".to_owned(),
    ];
    let data = json!({ "crowded": crowded, "room": room, "changes": returns });
    Findings { setup: setup::choices(), tables, claims, notes, data, ..Findings::default() }
}

fn with(way: SenderKind) -> String {
    match way {
        SenderKind::TcpLike | SenderKind::Tfrc => format!("with {} control", way.name()),
        other => other.name().to_owned(),
    }
}

fn of_bound(what: &str, value: f64, least: f64) -> Claim {
    Claim::new(what, "–", format!("{value:.1}"), value).pass(Keeps::AtLeast(least))
}

fn shares(cells: &[CellOutcomes], way: SenderKind) -> Vec<f64> {
    cells.iter().filter_map(|cell| cell.share(way)).collect()
}

fn mean(cells: &[CellOutcomes], way: SenderKind) -> f64 {
    let shares = shares(cells, way);
    shares.iter().sum::<f64>() / shares.len() as f64
}

fn least(cells: &[CellOutcomes], way: SenderKind) -> f64 {
    shares(cells, way).into_iter().fold(f64::INFINITY, f64::min)
}

/// Builds a table with a row for each sender.
fn ways(cells: &[CellOutcomes]) -> Table {
    let head = ["sender", "mean, % of the bound", "worst cell, %", "cells under 75 %", "cells", "late packets"];
    let mut table = Table::new("Frames decodable in time, of what any schedule could have made so", &head);
    for way in SenderKind::BESIDE {
        let shares = shares(cells, way);
        let late: u64 = cells.iter().flat_map(|cell| &cell.outcomes[&way]).map(|outcome| outcome.late).sum();
        table.row([
            way.name().to_owned(),
            format!("{:.1}", mean(cells, way)),
            format!("{:.1}", least(cells, way)),
            shares.iter().filter(|&&share| share < WORST).count().to_string(),
            shares.len().to_string(),
            late.to_string(),
        ]);
    }
    table
}

/// Builds a table with a row for each value of each dimension.
fn dimensions(cells: &[CellOutcomes]) -> Table {
    let head: Vec<String> = ["cells with", "cells", "worst, %"].map(str::to_owned).to_vec();
    let head = [head, SenderKind::BESIDE.map(|way| format!("{}, %", way.name())).to_vec()].concat();
    let mut table = Table::new("Means by what the cells have", &head.iter().map(String::as_str).collect::<Vec<_>>());
    for (name, value) in DIMENSIONS {
        let mut values: Vec<String> = Vec::new();
        for cell in cells {
            let value = value(&cell.cell);
            if !values.contains(&value) {
                values.push(value);
            }
        }
        for of in values.iter().filter(|_| values.len() > 1) {
            let those: Vec<CellOutcomes> = cells.iter().filter(|cell| &value(&cell.cell) == of).cloned().collect();
            let first =
                [format!("{name} {of}"), those.len().to_string(), format!("{:.1}", least(&those, SenderKind::Timeous))];
            table.row(first.into_iter().chain(SenderKind::BESIDE.map(|way| format!("{:.1}", mean(&those, way)))));
        }
    }
    table
}

/// Builds a table of the cells with the lowest percentages.
fn worst(cells: &[CellOutcomes]) -> Table {
    let head = ["cell", "bound, frames a seed", "Timeous, %", "seeds, %"];
    let mut table = Table::new("The worst cells", &head);
    let mut by_share: Vec<(f64, &CellOutcomes)> =
        cells.iter().filter_map(|cell| Some((cell.share(SenderKind::Timeous)?, cell))).collect();
    by_share.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    for (share, cell) in by_share.into_iter().take(SHOWN) {
        let (low, high) = cell.spread(SenderKind::Timeous);
        let bound = cell.bound() as f64 / cell.bounds.len() as f64;
        table.row([cell.cell.name(), format!("{bound:.0}"), format!("{share:.1}"), format!("{low:.1} to {high:.1}")]);
    }
    table
}

/// Builds a table of the cells with room to spare.
fn spare(cells: &[CellOutcomes]) -> Table {
    let head = [
        "link, times the stream",
        "loss",
        "deadline",
        "frames in time, %",
        "without the repair, %",
        "bytes, times the stream's",
    ];
    let mut table = Table::new("With room to spare", &head);
    for cell in cells {
        let Cell { kbps, offered, losses, deadline, rtt, .. } = cell.cell;
        let bytes: u64 = cell.outcomes[&SenderKind::Timeous].iter().map(|outcome| outcome.bytes).sum();
        let stream = offered * 125 * setup::LASTING.as_millis() / 1_000 * cell.bounds.len() as u64;
        let share = |way| cell.share(way).map_or("–".to_owned(), |share| format!("{share:.2}"));
        table.row([
            format!("{:.1}", kbps as f64 / offered as f64),
            losses.name(),
            format!("{} RTT", deadline.as_millis() / rtt.as_millis()),
            share(SenderKind::Timeous),
            share(SenderKind::NoRepair),
            format!("{:.3}", bytes as f64 / stream as f64),
        ]);
    }
    table
}

fn changes(returns: &[Behaviour]) -> Table {
    let head = ["sender", "until it is used again, s", "worst seed, s", "burst after a minute of little", "worst seed"];
    let mut table = Table::new("When capacity comes back, and when the application wants more", &head);
    for way in SenderKind::ALL {
        let ((used, most_used), (burst, most_burst)) =
            (of(returns, way, |one| one.until_used), of(returns, way, |one| one.burst));
        let cells = [used, most_used, burst, most_burst].map(|value| format!("{value:.2}"));
        table.row([way.name().to_owned()].into_iter().chain(cells));
    }
    table
}

/// Returns mean and maximum over the seeds.
fn of(returns: &[Behaviour], way: SenderKind, value: fn(&Behaviour) -> f64) -> (f64, f64) {
    let values: Vec<f64> = returns.iter().filter(|one| one.way == way).map(value).collect();
    (values.iter().sum::<f64>() / values.len() as f64, values.iter().copied().fold(0.0, f64::max))
}

fn never_late(crowded: &[CellOutcomes], room: &[CellOutcomes]) -> Claim {
    let outcomes = crowded.iter().chain(room).flat_map(|cell| cell.outcomes.values().flatten());
    let late: u64 = outcomes.map(|outcome| outcome.late).sum();
    Claim::new("packets that left after their deadline, of all senders", "–", late.to_string(), late as f64)
        .pass(Keeps::AtMost(0.0))
}

fn room_claims(room: &[CellOutcomes]) -> Vec<Claim> {
    let claim = |&(rtts, percent): &(u64, f64)| {
        let those: Vec<CellOutcomes> =
            room.iter().filter(|cell| cell.cell.deadline == cell.cell.rtt * rtts).cloned().collect();
        let what = format!("with room to spare and a deadline of {rtts} round trips: worst cell, percent in time");
        let least = least(&those, SenderKind::Timeous);
        (!those.is_empty()).then(|| Claim::new(&what, "–", format!("{least:.2}"), least).pass(Keeps::AtLeast(percent)))
    };
    ROOM.iter().filter_map(claim).collect()
}

fn change_claims(returns: &[Behaviour]) -> Vec<Claim> {
    if returns.is_empty() {
        return Vec::new();
    }
    let (_, used) = of(returns, SenderKind::Timeous, |one| one.until_used);
    let (_, burst) = of(returns, SenderKind::Timeous, |one| one.burst);
    let used_claim =
        Claim::new("seconds until capacity that came back is used, worst seed", "–", format!("{used:.1}"), used);
    let what = "sent in the first round trip after a minute of little, in what the link carries, worst seed";
    vec![
        used_claim.pass(Keeps::AtMost(USED_AFTER)),
        Claim::new(what, "–", format!("{burst:.2}"), burst).pass(Keeps::AtMost(BURST)),
    ]
}
