//! Comparison of the controllers: tables and claims.

use serde_json::json;
use timeous_cm::Kind;

use super::grid::{KINDS, choices};
use super::trial::Measured;
use crate::experiment::{Bound, Claim, Findings, Table};

/// Bounds for the live-stream controller: least link utilisation, and largest 95th percentile of
/// the queueing delay in ms.
const USED: f64 = 0.85;
const QUEUED: f64 = 100.0;
/// Longest time until returned capacity is used, in seconds.
const BACK: f64 = 2.0;

/// Returns the controllers that were run.
fn controllers(measured: &[Measured]) -> impl Iterator<Item = Kind> {
    KINDS.into_iter().filter(|kind| measured.iter().any(|m| m.controller == kind.name()))
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

fn least(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::INFINITY, f64::min)
}

fn most(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::NEG_INFINITY, f64::max)
}

pub(super) fn findings(measured: &[Measured]) -> Findings {
    let mut tables = vec![summary(measured)];
    for (title, of) in [
        ("loss, %", by_loss as fn(&Measured) -> u64),
        ("link, kbit/s", |m| m.kbps),
        ("round trip, ms", |m| m.rtt_ms),
        ("queue, ms", |m| m.queue_ms),
    ] {
        tables.push(by(measured, title, of));
    }
    Findings {
        setup: choices(),
        tables,
        claims: claims(measured),
        data: json!({ "flows": measured }),
        ..Findings::default()
    }
}

fn by_loss(measured: &Measured) -> u64 {
    (measured.loss * 100.0) as u64
}

fn summary(measured: &[Measured]) -> Table {
    let head = [
        "controller",
        "used, % (mean)",
        "least",
        "median in queue, ms",
        "95 % (mean)",
        "99 % (mean)",
        "95 % (worst)",
        "dropped by the queue, %",
        "full again after, s (mean)",
        "worst",
    ];
    let mut table = Table::new("All links", &head);
    for kind in controllers(measured) {
        let of = || measured.iter().filter(move |m| m.controller == kind.name());
        let figures = [
            (mean(of().map(|m| 100.0 * m.used)), 1),
            (least(of().map(|m| 100.0 * m.used)), 1),
            (mean(of().map(|m| m.queued[0])), 0),
            (mean(of().map(|m| m.queued[1])), 0),
            (mean(of().map(|m| m.queued[2])), 0),
            (most(of().map(|m| m.queued[1])), 0),
            (mean(of().map(|m| 100.0 * m.dropped)), 1),
            (mean(of().map(|m| m.back)), 2),
            (most(of().map(|m| m.back)), 2),
        ];
        let cells = figures.map(|(value, digits)| format!("{value:.digits$}"));
        table.row([kind.to_string()].into_iter().chain(cells));
    }
    table
}

fn by(measured: &[Measured], title: &str, of: fn(&Measured) -> u64) -> Table {
    let mut values: Vec<u64> = measured.iter().map(of).collect();
    values.sort_unstable();
    values.dedup();
    let head: Vec<String> =
        ["controller".to_owned()].into_iter().chain(values.iter().map(|value| format!("{value}"))).collect();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let mut table = Table::new(&format!("Used, % / 95 % in queue, ms: by {title}"), &head);
    for kind in controllers(measured) {
        let cells = values.iter().map(|&value| {
            let those = || measured.iter().filter(move |m| m.controller == kind.name() && of(m) == value);
            let used = mean(those().map(|m| 100.0 * m.used));
            let queued = mean(those().map(|m| m.queued[1]));
            format!("{used:.0} / {queued:.0}")
        });
        table.row([kind.to_string()].into_iter().chain(cells));
    }
    table
}

fn claims(measured: &[Measured]) -> Vec<Claim> {
    let of = || measured.iter().filter(|m| m.controller == "copa");
    let used = mean(of().map(|m| m.used));
    let queued = mean(of().map(|m| m.queued[1]));
    let back = most(of().map(|m| m.back));
    vec![
        Claim::new("share of the link that Copa uses, mean", "full", format!("{used:.3}"), used)
            .pass(Bound::AtLeast(USED))
            .aim(Bound::AtLeast(0.9)),
        Claim::new("ms in the queue that 95 of 100 packets stay below, mean", "—", format!("{queued:.0}"), queued)
            .pass(Bound::AtMost(QUEUED)),
        Claim::new("s until returned capacity is used, worst", "—", format!("{back:.2}"), back)
            .pass(Bound::AtMost(BACK)),
    ]
}
