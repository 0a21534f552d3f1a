//! Tables and claims of the experiment.

use std::collections::BTreeMap;

use serde_json::json;
use timeous_testbed::bound::Bound;

use super::setup::{self, Cell, DIMENSIONS};
use super::stream::SenderKind;
use super::trial::Outcome;
use crate::experiment::{self, At, Claim, Findings, Grid, Rows, Stats, Table};

/// Claimed frames decodable in time, percent of those of a sender that is told the rates: over all cells, and without losses.
const OF_TOLD: f64 = 93.0;
const OF_TOLD_WITHOUT_LOSSES: f64 = 95.0;
/// Claimed frames decodable in time on the worst cell, percent of the bound.
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
    /// Seconds until returned capacity is used.
    pub(super) until_used: f64,
    /// Bytes sent in the first round trip after an application-limited minute, in multiples of what
    /// the link carries.
    pub(super) burst: f64,
}

impl CellOutcomes {
    pub(super) fn bound(&self) -> u64 {
        self.bounds.iter().map(|bound| bound.value).sum()
    }

    fn decodable(&self, way: SenderKind) -> u64 {
        self.outcomes.get(&way).into_iter().flatten().map(|outcome| outcome.decodable).sum()
    }

    /// Returns the percentage of the bound over all seeds; `None` if no frame could be decodable.
    pub(super) fn share(&self, way: SenderKind) -> Option<f64> {
        (self.bound() > 0).then(|| 100.0 * self.decodable(way) as f64 / self.bound() as f64)
    }

    /// Formats the lowest and the highest percentage over the seeds.
    fn spread(&self, way: SenderKind) -> String {
        let shares = self.outcomes[&way].iter().zip(&self.bounds).filter(|(_, bound)| bound.value > 0);
        let shares = shares.map(|(outcome, bound)| 100.0 * outcome.decodable as f64 / bound.value as f64);
        let Stats { least, most, .. } = Stats::of(shares);
        format!("{least:.1} to {most:.1}")
    }
}

/// Builds all tables and claims.
pub(super) fn findings(crowded: &[CellOutcomes], room: &[CellOutcomes], returns: Option<&Behaviours>) -> Findings {
    let tables = vec![ways(crowded), dimensions(crowded), worst(crowded)];
    let more = returns.map(|returns| vec![spare(room), changes(returns)]).unwrap_or_default();
    let tables = [tables, more].concat();
    let mut claims = vec![
        Claim::number("mean over the cells, percent of the bound", "–", 1, mean(crowded, SenderKind::Timeous)),
        Claim::number("worst cell, percent of the bound", "–", 1, least(crowded, SenderKind::Timeous)).pass(WORST..),
    ];
    claims.extend(beside_told(crowded));
    for way in SenderKind::REAL.into_iter().skip(1) {
        let (ours, theirs) = (mean(crowded, SenderKind::Timeous), mean(crowded, way));
        let what = format!("more of the bound in the mean than {}", with(way));
        claims.push(Claim::order(what, "–", format!("{ours:.1} against {theirs:.1} %"), ours > theirs));
    }
    claims.push(never_late(crowded, room));
    claims.extend(room_claims(room));
    claims.extend(returns.into_iter().flat_map(change_claims));
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
    let data = json!({ "crowded": crowded, "room": room, "changes": returns.map(Grid::data) });
    Findings { setup: setup::choices(), tables, claims, notes, data, ..Findings::default() }
}

/// Returns the claims beside the sender that is told the rates, and knows no losses in advance either.
fn beside_told(crowded: &[CellOutcomes]) -> Vec<Claim> {
    let lossless: Vec<_> = crowded.iter().filter(|cell| cell.cell.losses.share() == 0.0).cloned().collect();
    let claim = |(which, cells, least): (&str, &[CellOutcomes], f64)| {
        let (ours, told) = (mean(cells, SenderKind::Timeous), mean(cells, SenderKind::Told));
        let (share, what) = (100.0 * ours / told, format!("{which}, percent of a sender that is told the rates"));
        let measured = format!("{share:.1}: {ours:.1} and {told:.1} % of the bound");
        (!cells.is_empty()).then(|| Claim::new(what, "–", measured, share).pass(least..))
    };
    let which = [("all cells", crowded, OF_TOLD), ("without losses", &lossless, OF_TOLD_WITHOUT_LOSSES)];
    which.into_iter().filter_map(claim).collect()
}

fn with(way: SenderKind) -> String {
    match way {
        SenderKind::TcpLike | SenderKind::Tfrc => format!("with {} control", way.name()),
        other => other.name().to_owned(),
    }
}

fn shares(cells: &[CellOutcomes], way: SenderKind) -> Vec<f64> {
    cells.iter().filter_map(|cell| cell.share(way)).collect()
}

pub(super) fn mean(cells: &[CellOutcomes], way: SenderKind) -> f64 {
    experiment::mean(shares(cells, way))
}

pub(super) fn least(cells: &[CellOutcomes], way: SenderKind) -> f64 {
    experiment::least(shares(cells, way))
}

/// Builds a table with a row for each sender.
fn ways(cells: &[CellOutcomes]) -> Table {
    let late =
        |way: &SenderKind| -> u64 { cells.iter().flat_map(|cell| &cell.outcomes[way]).map(|one| one.late).sum() };
    Rows::of(SenderKind::ALL)
        .column("sender", |way| way.name())
        .number("mean, % of the bound", 1, |&way| mean(cells, way))
        .number("worst cell, %", 1, |&way| least(cells, way))
        .column("cells under 75 %", |&way| shares(cells, way).iter().filter(|&&share| share < WORST).count())
        .column("cells", |&way| shares(cells, way).len())
        .column("late packets", late)
        .table("Frames decodable in time, of what any schedule could have made so")
}

/// Builds a table with a row for each value of each dimension.
fn dimensions(cells: &[CellOutcomes]) -> Table {
    let mut rows: Vec<(String, Vec<CellOutcomes>)> = Vec::new();
    for (name, value) in DIMENSIONS {
        let mut values: Vec<String> = Vec::new();
        for value in cells.iter().map(|cell| value(&cell.cell)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        let those = |of: &String| cells.iter().filter(|cell| &value(&cell.cell) == of).cloned().collect();
        rows.extend(values.iter().filter(|_| values.len() > 1).map(|of| (format!("{name} {of}"), those(of))));
    }
    Rows::of(rows)
        .column("cells with", |(name, _)| name.clone())
        .column("cells", |(_, cells)| cells.len())
        .number("worst, %", 1, |(_, cells)| least(cells, SenderKind::Timeous))
        .each(
            SenderKind::ALL,
            |way| format!("{}, %", way.name()),
            |(_, cells), &way| format!("{:.1}", mean(cells, way)),
        )
        .table("Means by what the cells have")
}

/// Builds a table of the cells with the lowest percentages.
fn worst(cells: &[CellOutcomes]) -> Table {
    let mut by_share: Vec<(f64, &CellOutcomes)> =
        cells.iter().filter_map(|cell| Some((cell.share(SenderKind::Timeous)?, cell))).collect();
    by_share.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    Rows::of(by_share.into_iter().take(SHOWN))
        .column("cell", |(_, cell)| cell.cell.name())
        .number("bound, frames a seed", 0, |(_, cell)| cell.bound() as f64 / cell.bounds.len() as f64)
        .number("Timeous, %", 1, |(share, _)| *share)
        .column("seeds, %", |(_, cell)| cell.spread(SenderKind::Timeous))
        .table("The worst cells")
}

/// Builds a table of the cells with room to spare.
fn spare(cells: &[CellOutcomes]) -> Table {
    let share = |of: &CellOutcomes, way| of.share(way).map_or("–".to_owned(), |share| format!("{share:.2}"));
    let bytes = |of: &CellOutcomes| {
        let bytes: u64 = of.outcomes[&SenderKind::Timeous].iter().map(|outcome| outcome.bytes).sum();
        bytes as f64 / (of.cell.offered * 125 * setup::LASTING.as_millis() / 1_000 * of.bounds.len() as u64) as f64
    };
    Rows::of(cells)
        .number("link, times the stream", 1, |of| of.cell.kbps as f64 / of.cell.offered as f64)
        .column("loss", |of| of.cell.losses.name())
        .column("deadline", |of| format!("{} RTT", of.cell.deadline.as_millis() / of.cell.rtt.as_millis()))
        .column("frames in time, %", |of| share(of, SenderKind::Timeous))
        .column("without the repair, %", |of| share(of, SenderKind::NoRepair))
        .number("bytes, times the stream's", 3, |of| bytes(of))
        .table("With room to spare")
}

/// Reactions to changes, by sender and seed.
pub(super) type Behaviours = Grid<SenderKind, Behaviour>;

fn changes(returns: &Behaviours) -> Table {
    let used = |of: &At<'_, SenderKind, Behaviour>| of.stats(|one| one.until_used);
    let burst = |of: &At<'_, SenderKind, Behaviour>| of.stats(|one| one.burst);
    returns
        .rows()
        .axis("sender", |way| way.name())
        .number("until it is used again, s", 2, |of| used(of).mean)
        .number("worst seed, s", 2, |of| used(of).most)
        .number("burst after a minute of little", 2, |of| burst(of).mean)
        .number("worst seed", 2, |of| burst(of).most)
        .table("When capacity comes back, and when the application wants more")
}

pub(super) fn never_late(crowded: &[CellOutcomes], room: &[CellOutcomes]) -> Claim {
    let outcomes = || crowded.iter().chain(room).flat_map(|cell| cell.outcomes.values().flatten());
    let late: u64 = outcomes().map(|outcome| outcome.late).sum();
    let sent: u64 = outcomes().map(|outcome| outcome.sent).sum();
    let what = "packets that left after their deadline, of all senders";
    Claim::count(what, "–", late).among(sent as usize).pass(..=0.0)
}

fn room_claims(room: &[CellOutcomes]) -> Vec<Claim> {
    let claim = |&(rtts, percent): &(u64, f64)| {
        let those: Vec<CellOutcomes> =
            room.iter().filter(|cell| cell.cell.deadline == cell.cell.rtt * rtts).cloned().collect();
        let what = format!("with room to spare and a deadline of {rtts} round trips: worst cell, percent in time");
        let least = least(&those, SenderKind::Timeous);
        (!those.is_empty()).then(|| Claim::number(what, "–", 2, least).pass(percent..))
    };
    ROOM.iter().filter_map(claim).collect()
}

fn change_claims(returns: &Behaviours) -> [Claim; 2] {
    let used = returns.stats(&SenderKind::Timeous, |one| one.until_used).most;
    let burst = returns.stats(&SenderKind::Timeous, |one| one.burst).most;
    let what = "sent in the first round trip after a minute of little, in what the link carries, worst seed";
    [
        Claim::number("seconds until capacity that came back is used, worst seed", "–", 1, used).pass(..=USED_AFTER),
        Claim::number(what, "–", 2, burst).pass(..=BURST),
    ]
}
