//! Evaluation of capture and arrivals for each stream, and the bounds.

use timeous::core::AduMeta;
use timeous_engine::Reach;

use super::super::over_tcp::{CarriedBytes, Control, Log, Plan, SenderKind, StreamContent};
use super::super::tl::RTT;
use super::super::tl::measure::{mean, whole_frames};
use super::path::Path;
use crate::experiment::{Bound, Claim, Figure, LabError, Table};
use crate::report::plot::{Lines, Series};

/// Largest accepted share of expired bytes on the wire, in percent.
const EXPIRED: f64 = 1.0;

/// Results of one stream.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Measured {
    path: Path,
    control: Control,
    way: SenderKind,
    seed: u64,
    /// Stream data on the link in kilobytes, retransmissions included.
    wire: f64,
    /// Shares of those in percent: expired; expired and retransmitted; padding; invalid records.
    expired: f64,
    expired_again: f64,
    padding: f64,
    torn: f64,
    /// Shares of the offered bytes in percent: in time, and in decodable frames.
    in_time: f64,
    shown: f64,
    /// Upper bound on the share in decodable frames.
    bound: f64,
    replaced: u64,
    padded: u64,
    corrupt: u64,
    /// Whether late choice still reached retransmissions at the end.
    reaches: bool,
    ended: bool,
}

impl Measured {
    pub(super) fn of(path: Path, plan: &Plan, log: &Log) -> Self {
        let is_expired = |one: &CarriedBytes| match one.what {
            StreamContent::Datagram(seq) => {
                plan.offers.get(seq as usize).is_some_and(|offer| one.at + RTT / 2 > offer.deadline(log.begin))
            }
            StreamContent::Padding | StreamContent::Torn => false,
        };
        let all = sum(log, |_| true);
        let share = |counts: &dyn Fn(&CarriedBytes) -> bool| 100.0 * sum(log, counts) / all.max(1.0);
        let offered: usize = plan.offers.iter().map(|offer| offer.len).sum();
        let of_offered = |counts: &dyn Fn(usize) -> bool| {
            let counted = plan.offers.iter().enumerate().filter(|(index, _)| counts(*index));
            100.0 * counted.map(|(_, offer)| offer.len).sum::<usize>() as f64 / offered as f64
        };
        let there = |index: usize| log.arrived[index].is_some_and(|at| at <= plan.offers[index].deadline(log.begin));
        let datagrams: Vec<(AduMeta, bool)> =
            plan.offers.iter().enumerate().map(|(index, offer)| (offer.meta, there(index))).collect();
        let whole = whole_frames(&datagrams);
        Self {
            path,
            control: plan.control,
            way: plan.way,
            seed: plan.seed,
            wire: all / 1e3,
            expired: share(&is_expired),
            expired_again: share(&|one| one.again && is_expired(one)),
            padding: share(&|one| one.what == StreamContent::Padding),
            torn: share(&|one| one.what == StreamContent::Torn),
            in_time: of_offered(&there),
            shown: of_offered(&|index| whole[plan.offers[index].meta.frame.0 as usize]),
            bound: path.bound(&plan.offers),
            replaced: log.status.replaced,
            padded: log.status.padded,
            corrupt: log.corrupt,
            reaches: log.status.reach == Some(Reach::Retransmissions),
            ended: log.status.ended,
        }
    }
}

fn sum(log: &Log, counts: impl Fn(&CarriedBytes) -> bool) -> f64 {
    log.wire.iter().filter(|one| counts(one)).map(|one| one.bytes).sum::<u64>() as f64
}

/// Returns mean, minimum and maximum over the seeds.
fn of(measured: &[Measured], cell: (Path, Control, SenderKind), value: impl Fn(&Measured) -> f64) -> [f64; 3] {
    let these = measured.iter().filter(|one| (one.path, one.control, one.way) == cell);
    let values: Vec<f64> = these.map(value).collect();
    [
        mean(&values),
        values.iter().copied().fold(f64::INFINITY, f64::min),
        values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    ]
}

fn cells() -> impl Iterator<Item = (Path, Control, SenderKind)> {
    Path::ALL.into_iter().flat_map(|path| {
        Control::ALL.into_iter().flat_map(move |control| SenderKind::ALL.map(|way| (path, control, way)))
    })
}

pub(super) fn tables(measured: &[Measured]) -> Vec<Table> {
    let head = [
        "path",
        "control",
        "sender",
        "on the wire, kB",
        "expired, %",
        "least to most",
        "of it sent again, %",
        "padding, %",
        "in time, % of what was offered",
        "frames shown, %",
        "least to most",
        "at most, %",
        "changed",
    ];
    let mut table = Table::new("On the wire, and in time (means over the seeds)", &head);
    for cell in cells() {
        let all = |value: fn(&Measured) -> f64| of(measured, cell, value);
        let mean = |value: fn(&Measured) -> f64| format!("{:.2}", all(value)[0]);
        let spread = |[_, least, most]: [f64; 3]| format!("{least:.2} to {most:.2}");
        let (path, control, way) = cell;
        table.row([
            path.name().to_owned(),
            control.name().to_owned(),
            way.name().to_owned(),
            format!("{:.0}", all(|one| one.wire)[0]),
            mean(|one| one.expired),
            spread(all(|one| one.expired)),
            mean(|one| one.expired_again),
            mean(|one| one.padding),
            mean(|one| one.in_time),
            mean(|one| one.shown),
            spread(all(|one| one.shown)),
            mean(|one| one.bound),
            format!("{:.0}", all(|one| (one.replaced + one.padded) as f64)[0]),
        ]);
    }
    vec![table]
}

pub(super) fn figures(measured: &[Measured]) -> Result<Vec<Figure>, LabError> {
    let draw = |title, y, value: fn(&Measured) -> f64| -> Result<Figure, LabError> {
        let line = |way: SenderKind| {
            let paths = Path::ALL.into_iter().zip(1..);
            let point = |(path, at)| (f64::from(at), of(measured, (path, Control::Reno, way), value)[0]);
            Series::new(way.name(), paths.map(point).collect())
        };
        let series = SenderKind::ALL.map(line).to_vec();
        let lines = Lines { title, x: "path, in the order of the table", y, series };
        Ok(Figure::new(lines.draw()?, "Reno. The mean over the seeds."))
    };
    Ok(vec![
        draw("Expired bytes on the wire", "% of the bytes on the wire", |one| one.expired)?,
        draw("Frames that could be shown", "% of the bytes offered", |one| one.shown)?,
    ])
}

pub(super) fn claims(measured: &[Measured]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (path, control, way) in cells().filter(|(.., way)| matches!(way, SenderKind::Late | SenderKind::Own)) {
        let value = |way, value: fn(&Measured) -> f64| of(measured, (path, control, way), value)[0];
        let at = format!("{}, {}, {}", path.name(), control.name(), way.name());
        let expired = value(way, |one| one.expired);
        let measured = format!(
            "{expired:.2} (plain {:.2}, ring {:.2})",
            value(SenderKind::Plain, |one| one.expired),
            value(SenderKind::Ring, |one| one.expired)
        );
        let what = format!("Percent of the bytes on the wire that had expired: {at}");
        claims.push(Claim::new(&what, "—", measured, expired).pass(Bound::AtMost(EXPIRED)));
        let (shown, plain) = (value(way, |one| one.shown), value(SenderKind::Plain, |one| one.shown));
        let measured = format!(
            "{shown:.1} against {plain:.1} % (ring {:.1}, at most {:.1})",
            value(SenderKind::Ring, |one| one.shown),
            value(way, |one| one.bound)
        );
        claims.push(Claim::order(
            &format!("More frames shown than with plain TCP: {at}"),
            "—",
            measured,
            shown > plain,
        ));
    }
    let corrupt: u64 = measured.iter().map(|one| one.corrupt).sum();
    let what = "Datagrams delivered that were not as they were offered, or twice";
    claims.push(Claim::new(what, "—", corrupt.to_string(), corrupt as f64).pass(Bound::AtMost(0.0)));
    claims
}

pub(super) fn notes(measured: &[Measured]) -> Vec<String> {
    let mut notes = Vec::new();
    let late = || measured.iter().filter(|one| one.way == SenderKind::Late);
    let reached = late().filter(|one| one.reaches).count();
    notes.push(format!("Late choice reached retransmissions at the end of {reached} of {} streams.", late().count()));
    let torn = measured.iter().map(|one| one.torn).fold(0.0, f64::max);
    notes.push(format!("Bytes of no record, the most of any stream: {torn:.3} % of the bytes on the wire."));
    notes.push(
        "Over the narrow link nobody shows a frame, and the bound, which asks for more than plain TCP, cannot hold, whatever is chosen: the ten \
         packets of an I-frame take longer there (0.17 s) than the playout waits (0.15 s), and all others refer to one."
            .to_owned(),
    );
    let ended = measured.iter().filter(|one| one.ended).count();
    if ended > 0 {
        notes.push(format!("{ended} connections ended before their time."));
    }
    notes
}
