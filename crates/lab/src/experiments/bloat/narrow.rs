//! narrow: links on which a packet takes up to one and a half round trips and a keyframe up to three quarters of the deadline.

use serde_json::json;
use timeous::core::Duration;

use super::findings::{CellOutcomes, least, mean, never_late};
use super::narrow_tcp::{self, TcpSender};
use super::setup::{Cell, HEADERS, LossModel, PACKET, RateProfile};
use super::stream::{ReferencePattern, SenderKind, keyframe_time};
use super::trial::Outcome;
use super::{NO_PLAN, PATIENT, judged};
use crate::experiment::mean as mean_of;
use crate::experiment::{Choice, Claim, Experiment, Extent, Findings, Forms, Grid, Rows, Run, RunError, cross, setup};

/// Claimed frames decodable in time, percent of the bound: mean over the cells, and worst cell.
const MEAN: f64 = 90.0;
const WORST: f64 = 75.0;
/// Largest share of the carried bytes that come after their deadline, in percent.
const LATE: f64 = 3.0;
/// Claimed over TCP: mean over the cells.
const OVER_TCP: f64 = 75.0;
const WAYS: [SenderKind; 3] = [SenderKind::Timeous, SenderKind::Told, SenderKind::NoPlan];

const KBPS: [u64; 3] = [200, 450, 1_000];
/// Time of a packet on the link, in base round trips.
const PACKETS: [f64; 3] = [0.25, 0.6, 1.5];
/// Time of a mean keyframe on the link, in deadlines.
const KEYFRAMES: [f64; 3] = [1.0 / 3.0, 0.5, 0.75];

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "narrow",
    title: "Frames decodable in time over narrow links, beside what could be",
    source: "ours",
    paper: "none: compared with the most that any schedule could have done",
    forms: Forms::Virtual,
    seeds: 4,
    takes: "30 s",
    sabotages: &[NO_PLAN, PATIENT],
    run,
};

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let cells = judged(run, "narrow links", &cells(run.extent), &WAYS);
    let table = Rows::of(&cells)
        .column("cell", |of| of.cell.name())
        .column("deadline, ms", |of| of.cell.deadline.as_millis())
        .number("bound, frames a seed", 0, |of| of.bound() as f64 / of.bounds.len() as f64)
        .each(
            WAYS,
            |way| format!("{}, %", way.name()),
            |of, &way| of.share(way).map_or("–".to_owned(), |share| format!("{share:.1}")),
        )
        .number("late bytes, %", 1, |of| late(std::slice::from_ref(of)))
        .table("Frames decodable in time, percent of the bound; bytes of Timeous that came after their deadline");
    let tcp = run.grid("narrow links over TCP", cross(0..cells.len(), TcpSender::ALL), |&(at, way), seed| {
        narrow_tcp::run(&cells[at].cell, seed, way)
    });
    let over_tcp: Vec<[f64; TcpSender::ALL.len()]> = (0..cells.len()).map(|at| shares(&cells[at], at, &tcp)).collect();
    let [ours, theirs] = [SenderKind::Timeous, SenderKind::NoPlan].map(|way| mean(&cells, way));
    let tcp_table = Rows::of(cells.iter().zip(&over_tcp))
        .column("cell", |(of, _)| of.cell.name())
        .each(
            [0, 1, 2],
            |at| format!("{}, %", TcpSender::ALL[*at].name()),
            |(_, shares), &at| format!("{:.1}", shares[at]),
        )
        .table("The same over TCP, percent of the bound");
    let behind = over_tcp.iter().filter(|[ours, theirs @ ..]| theirs.iter().any(|other| other >= ours)).count();
    let claims = vec![
        Claim::number("mean over the cells, percent of the bound", "–", 1, ours).pass(MEAN..),
        Claim::number("worst cell, percent of the bound", "–", 1, least(&cells, SenderKind::Timeous)).pass(WORST..),
        Claim::number("bytes that came after their deadline, percent", "–", 1, late(&cells)).pass(..=LATE),
        Claim::order(
            "more of the bound in the mean than without the plan",
            "–",
            format!("{ours:.1} against {theirs:.1} %"),
            ours > theirs,
        ),
        never_late(&cells, &[]),
        Claim::number(
            "over TCP: mean over the cells, percent of the bound",
            "–",
            1,
            mean_of(over_tcp.iter().map(|[ours, ..]| *ours)),
        )
        .pass(OVER_TCP..),
        Claim::count(
            "over TCP: cells in which a plain application that drops has as many frames in time",
            "–",
            behind as u64,
        )
        .among(cells.len())
        .pass(..=0.0),
    ];
    Ok(Findings { setup: choices(), tables: vec![table, tcp_table], claims, data: json!(cells), ..Findings::default() })
}

/// Returns the percentage of a cell's bound for each sender over TCP.
fn shares(of: &CellOutcomes, cell: usize, tcp: &Grid<(usize, TcpSender), Outcome>) -> [f64; TcpSender::ALL.len()] {
    let seeds = of.bounds.len() as f64;
    TcpSender::ALL.map(|way| 100.0 * tcp.mean(&(cell, way), |one| one.decodable as f64) * seeds / of.bound() as f64)
}

/// Returns the share of Timeous's bytes that came after their deadline, of all that came, in percent.
fn late(cells: &[CellOutcomes]) -> f64 {
    let outcomes = || cells.iter().flat_map(|of| &of.outcomes[&SenderKind::Timeous]);
    let [late, came]: [u64; 2] =
        [outcomes().map(|one| one.came_late).sum(), outcomes().map(|one| one.came).sum::<u64>().max(1)];
    100.0 * late as f64 / came as f64
}

/// Returns the cells in which a mean keyframe can be in time; one of three unless `extent` is the usual one.
fn cells(extent: Extent) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (a, kbps) in KBPS.into_iter().enumerate() {
        for (b, packet) in PACKETS.into_iter().enumerate() {
            for (c, keyframe) in KEYFRAMES.into_iter().enumerate() {
                let shape = [10, 30, 60].map(ReferencePattern::Gop)[(a + b + c) % 3];
                let offered = kbps * [15, 20][(a + c) % 2] / 10;
                let takes = keyframe_time(shape, offered).as_secs_f64() * offered as f64 / kbps as f64;
                let deadline = Duration::from_secs_f64(takes / keyframe);
                let packet_time = (PACKET as u64 + HEADERS) as f64 * 8e-3 / kbps as f64;
                let rtt = Duration::from_secs_f64(packet_time / packet);
                let queue = deadline * [1, 4][(a + b) % 2];
                let (course, losses) = (RateProfile::Steady, LossModel::None);
                let is_possible = Duration::from_secs_f64(takes) + rtt / 2 <= deadline;
                if is_possible && (matches!(extent, Extent::Usual | Extent::Full) || (a + b + 2 * c) % 3 == 0) {
                    cells.push(Cell { course, kbps, offered, queue, losses, rtt, shape, deadline });
                }
            }
        }
    }
    cells
}

fn choices() -> Vec<Choice> {
    setup! {
        ours "stream": "as of `bloat`, in groups of 10, 30 and 60; 1.5 and 2 times the link's rate" => "see there";
        ours "links": "0.2, 0.45 and 1 Mbit/s; a packet takes 0.25, 0.6 and 1.5 round trips; a queue of one and four \
            deadlines; no loss" => "a poor mobile link or DSL uplink; nothing but the rate limits the stream";
        ours "deadline": "a mean keyframe takes a third, half and three quarters of it"
            => "what a packet meets decides whether it is in time";
        ours "cells": "those in which a mean keyframe can be in time; in a small run one of three, so that each value \
            meets each other" => "in the others there is little to judge";
        ours "carried bytes": "of first copies, by the time at which they came" => "late ones delay others";
        ours "over TCP": "our own TCP with `live` and the plan; the plain applications keep all data until TCP can send it, and drop what is late by \
            the smoothed round trip or refers to what they dropped" => "the most that an application can do above a socket; real ones are in `timeous-peer-trials`";
    }
}
