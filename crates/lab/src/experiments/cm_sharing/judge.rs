//! Speed-up of later fetches: tables and claims.

use std::ops::RangeInclusive;

use serde_json::json;

use super::fetches::{EVERY, FETCHES, FILE, JITTER, Outcome, RATE, RESTART, RTT, SharedState};
use crate::experiment::{Bound, Choice, Claim, Figure, Findings, LabError, Table};
use crate::report::plot::{Lines, Series};

/// Least time saved by later fetches against those without shared state, as a share.
const PASS: f64 = 0.4;
/// Target for that share.
const AIM: f64 = 0.6;

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

/// Returns the mean over the seeds for one fetch, counted from one.
fn took(outcomes: &[Outcome], memory: SharedState, number: usize) -> f64 {
    mean(outcomes.iter().filter(|outcome| outcome.memory == memory).map(|outcome| outcome.took[number - 1]))
}

pub(super) fn findings(outcomes: &[Outcome]) -> Result<Findings, LabError> {
    let mut head = vec!["fetch".to_owned()];
    head.extend(SharedState::ALL.map(|memory| format!("{}, ms", memory.name())));
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let mut table = Table::new("Time from the call to the last byte, mean of the seeds", &head);
    for number in 1..=FETCHES {
        let times = SharedState::ALL.map(|memory| format!("{:.0}", took(outcomes, memory, number)));
        table.row([number.to_string()].into_iter().chain(times));
    }
    let line = |memory: SharedState| {
        let points = (1..=FETCHES).map(|number| (number as f64, took(outcomes, memory, number)));
        Series::new(memory.name(), points.collect())
    };
    let lines = Lines {
        title: "Nine fetches of 128 kB, each by a new connection",
        x: "fetch",
        y: "time, ms",
        series: SharedState::ALL.map(line).to_vec(),
    };
    let data = outcomes.iter().map(|o| json!({ "memory": o.memory, "seed": o.seed, "took_ms": o.took }));
    Ok(Findings {
        setup: choices(),
        tables: vec![table],
        figures: vec![Figure::new(
            lines.draw()?,
            "As figure 7 of the paper: what the server's connections share makes later fetches faster.",
        )],
        claims: claims(outcomes),
        notes: Vec::new(),
        data: json!({ "clients": data.collect::<Vec<_>>() }),
    })
}

fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    // Share of the time saved against the same fetches without sharing.
    let faster = |memory: SharedState, than: SharedState, numbers: RangeInclusive<usize>| {
        let of = |memory| mean(numbers.clone().map(|number| took(outcomes, memory, number)));
        1.0 - of(memory) / of(than)
    };
    let ten = faster(SharedState::Shared, SharedState::FreshTen, 2..=FETCHES);
    let claim = |what: &str, value: f64| {
        Claim::new(what, "0.40", format!("{value:.3}"), value).pass(Bound::AtLeast(PASS)).aim(Bound::AtLeast(AIM))
    };
    vec![
        claim(
            "fetches 2 to 9 with one manager: by which share they are faster",
            faster(SharedState::Shared, SharedState::Fresh, 2..=FETCHES),
        ),
        claim("the first fetch after the restart", faster(SharedState::Restart, SharedState::Fresh, RESTART..=RESTART)),
        claim("the fetches after that", faster(SharedState::Restart, SharedState::Fresh, RESTART + 1..=FETCHES)),
        Claim::new(
            "fetches 2 to 9 with one manager beside NewReno from ten packets, which did not exist then",
            "",
            format!("{ten:.3}"),
            ten,
        ),
    ]
}

fn choices() -> Vec<Choice> {
    vec![
        Choice::paper("file", format!("{} kB, fetched {FETCHES} times", FILE >> 10), "§4.3"),
        Choice::paper("interval", format!("{} ms from call to call", EVERY.as_millis()), "§4.3, figure 7"),
        Choice::paper("round trip", format!("{} ms", RTT.as_millis()), "§4.3"),
        Choice::ours(
            "path",
            format!("{} Mbit/s, no loss", RATE.as_bps() / 1_000_000),
            "the paper's was the vBNS, between Ethernets of 100 Mbit/s",
        ),
        Choice::ours(
            "time",
            "from the call (SYN) to the last byte, the handshake and a request of 200 bytes in it",
            "what a user waits",
        ),
        Choice::ours(
            "controller",
            "the manager's own, beginning with 4 380 bytes (RFC 3390)",
            "for the shared and for the fresh managers",
        ),
        Choice::ours(
            "restart",
            "the manager is thrown away; the next is told what the old one had learnt, as the path store keeps it",
            "an age of zero: a process that is replaced",
        ),
        Choice::ours("jitter", format!("± {} ms each way", JITTER.as_millis()), "no path is without"),
        Choice::ours("by seed", "jitter, and when the first fetch begins", "nothing else is random here"),
    ]
}
