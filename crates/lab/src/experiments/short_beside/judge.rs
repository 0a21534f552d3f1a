//! Shares, frames and cost to other flows, with bounds that were set before the first measurement.

use serde_json::json;
use timeous_cm::Kind;

use super::grid::{FLOWS, KINDS, choices};
use super::trial::{BottleneckQueue, Measured, MeasuredFlow};
use crate::experiment::{Bound, Claim, Findings, Table};

/// "Generally within a factor of two of the sending rate of a TCP flow" (RFC 5348 §1).
const SHARE: Bound = Bound::Within(0.5, 2.0);
/// Least rate of the other flows, relative to an even share.
const OTHERS: f64 = 0.5;
/// Least share of frames decodable in time: where a full queue leaves time for them, and where it
/// takes nearly all of it.
const SHORT: f64 = 0.5;
const FULL: f64 = 0.25;

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

/// Results in one cell, over the seeds.
struct Cell<'a>(Vec<&'a Measured>);

impl<'a> Cell<'a> {
    fn of(measured: &'a [Measured], who: MeasuredFlow, queue: BottleneckQueue, flows: u8) -> Self {
        let among = |m: &&Measured| m.trial.who == who && m.trial.queue == queue && m.trial.flows == flows;
        Self(measured.iter().filter(among).collect())
    }

    fn mean(&self, of: impl Fn(&Measured) -> f64) -> f64 {
        mean(self.0.iter().map(|one| of(one)))
    }
}

pub(super) fn findings(measured: &[Measured]) -> Findings {
    Findings {
        setup: choices(),
        tables: vec![greedy(measured), live(measured)],
        claims: claims(measured),
        notes: vec![
            "Where the queue holds four deadlines and others fill it, nothing can be in time whatever is sent."
                .to_owned(),
        ],
        data: json!({ "flows": measured.iter().map(data).collect::<Vec<_>>() }),
        ..Findings::default()
    }
}

fn data(one: &Measured) -> serde_json::Value {
    let (who, kind) = match one.trial.who {
        MeasuredFlow::Live(kind) => ("live", kind.name()),
        MeasuredFlow::Greedy(kind) => ("greedy", kind.name()),
        MeasuredFlow::Tcp => ("tcp", "cubic"),
    };
    json!({
        "who": who, "controller": kind, "flows": one.trial.flows, "queue": one.trial.queue.name(), "seed": one.trial.seed,
        "share": one.share, "used": one.used, "others": one.others, "queued_ms": one.queued, "decodable": one.decodable,
        "too_late": one.given_up[0], "reference_lost": one.given_up[1], "late": one.late,
    })
}

/// Returns the controllers that were run.
fn controllers(measured: &[Measured]) -> impl Iterator<Item = Kind> {
    KINDS.into_iter().filter(|&kind| measured.iter().any(|m| m.trial.who == MeasuredFlow::Greedy(kind)))
}

fn cells() -> impl Iterator<Item = (u8, BottleneckQueue)> {
    FLOWS.into_iter().flat_map(|flows| BottleneckQueue::ALL.into_iter().map(move |queue| (flows, queue)))
}

fn greedy(measured: &[Measured]) -> Table {
    let head = [
        "beside",
        "queue",
        "controller",
        "its share, of an even one",
        "each other's, of an even one",
        "link used, %",
        "in queue, ms: median",
        "95 %",
    ];
    let mut table = Table::new("With always something to send", &head);
    for (flows, queue) in cells() {
        let kinds = controllers(measured).map(|kind| (kind.to_string(), MeasuredFlow::Greedy(kind)));
        for (name, who) in kinds.chain([("one CUBIC flow more".to_owned(), MeasuredFlow::Tcp)]) {
            let cell = Cell::of(measured, who, queue, flows);
            let queued = [0, 1].map(|at| cell.mean(|m| m.queued[at]));
            let queued = queued.map(|ms| if ms.is_nan() { "—".to_owned() } else { format!("{ms:.0}") });
            table.row(
                [
                    format!("{flows} CUBIC"),
                    queue.name(),
                    name,
                    format!("{:.2}", cell.mean(|m| m.share)),
                    format!("{:.2}", cell.mean(|m| m.others)),
                    format!("{:.0}", cell.mean(|m| 100.0 * m.used)),
                ]
                .into_iter()
                .chain(queued),
            );
        }
    }
    table
}

fn live(measured: &[Measured]) -> Table {
    let head = [
        "beside",
        "queue",
        "controller",
        "decodable in time, %",
        "its share, of an even one",
        "each other's, of an even one",
        "in queue, ms: median",
        "95 %",
        "given up as too late",
        "as the reference was gone",
        "left late",
    ];
    let mut table = Table::new("A live stream", &head);
    for (flows, queue) in cells() {
        for kind in controllers(measured) {
            let cell = Cell::of(measured, MeasuredFlow::Live(kind), queue, flows);
            table.row([
                format!("{flows} CUBIC"),
                queue.name(),
                kind.to_string(),
                format!("{:.1}", cell.mean(|m| 100.0 * m.decodable)),
                format!("{:.2}", cell.mean(|m| m.share)),
                format!("{:.2}", cell.mean(|m| m.others)),
                format!("{:.0}", cell.mean(|m| m.queued[0])),
                format!("{:.0}", cell.mean(|m| m.queued[1])),
                format!("{:.0}", cell.mean(|m| m.given_up[0] as f64)),
                format!("{:.0}", cell.mean(|m| m.given_up[1] as f64)),
                format!("{:.0}", cell.mean(|m| m.late as f64)),
            ]);
        }
    }
    table
}

fn claims(measured: &[Measured]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (flows, queue) in cells() {
        let place = format!("beside {flows} CUBIC, {}", queue.name());
        let cell = Cell::of(measured, MeasuredFlow::Greedy(Kind::Copa), queue, flows);
        let share = cell.mean(|m| m.share);
        let what = format!("share of Copa, of an even one, {place}");
        claims.push(Claim::new(&what, "about 1", format!("{share:.2}"), share).pass(SHARE));
        let others = cell.mean(|m| m.others);
        let alone = Cell::of(measured, MeasuredFlow::Tcp, queue, flows).mean(|m| m.others);
        let what = format!("what each other has then, of an even share, {place}");
        let said = format!("{others:.2}; beside one CUBIC flow more: {alone:.2}");
        claims.push(Claim::new(&what, "—", said, others).pass(Bound::AtLeast(OTHERS)));
    }
    for (flows, queue) in cells() {
        let (least, aim) = match queue {
            BottleneckQueue::Tail(deadlines) if deadlines > 1.0 => continue,
            BottleneckQueue::Tail(1.0) => (FULL, 0.5),
            BottleneckQueue::Tail(_) | BottleneckQueue::Codel => (SHORT, 0.8),
        };
        let decodable = Cell::of(measured, MeasuredFlow::Live(Kind::Copa), queue, flows).mean(|m| m.decodable);
        let what = format!("share of frames decodable in time, beside {flows} CUBIC, {}", queue.name());
        let claim = Claim::new(&what, "—", format!("{decodable:.2}"), decodable);
        claims.push(claim.pass(Bound::AtLeast(least)).aim(Bound::AtLeast(aim)));
    }
    let late = measured.iter().map(|m| m.late).sum::<usize>();
    claims.push(
        Claim::new("packets that left after their deadline", "0", late.to_string(), late as f64)
            .pass(Bound::AtMost(0.0)),
    );
    claims
}
