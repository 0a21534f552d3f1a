//! lai-notify: cost saved by fewer notifications of the transport (Lai & Kohler §4.1, figure 8).

use serde_json::json;

use super::sending::cost::{Case, Cost, MeasurementLength, measure};
use super::sending::count::{Counts, count};
use super::sending::method::SendMethod;
use super::sending::processes::crowd;
use super::sending::sink::Sink;
use super::sending::{choices, choices_of_counts, data, data_of_counts, largest, of, table, table_of_counts};
use crate::experiment::{
    Chart, Choice, Claim, Experiment, Findings, Forms, Rows, Run, RunError, Table, cross, sabotages,
};

const PAYLOADS: [usize; 5] = [0, 200, 600, 1_000, 1_400];
/// Number of packets for the counts.
const COUNTED: u64 = 19_200;
const EVERY: [u32; 4] = [1, 4, 16, 64];
const RAW: SendMethod = SendMethod::Bundles { of: 16 };
const EFFORT: MeasurementLength = MeasurementLength { rounds: 40, packets: 9_600 };
/// Concurrent processes (§4.1).
const CROWD: usize = 30;
/// Payload of their packets, in bytes.
const CROWD_PAYLOAD: usize = 1_400;
const CROWD_EFFORT: MeasurementLength = MeasurementLength { rounds: 5, packets: 38_400 };

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "lai-notify",
    title: "Cost of a packet where control is handed over at each k-th",
    source: "Lai & Kohler §4.1, figure 8",
    paper: "k = 16 is 26 % cheaper than k = 4, UDP takes 71 % more or worse; beyond 16 nothing is gained; 30 processes at \
            once show the same",
    forms: Forms::Both,
    seeds: 1,
    takes: "1 s; real 1 min",
    sabotages: &[EACH, UNSENT],
    run,
};

sabotages! {
    EACH = "each", "the transport is notified at each packet"
        => ["k = 4: system calls", "k = 16: system calls", "k = 64: system calls"];
    UNSENT = "unsent", "no packet is sent" => ["k = "];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    if !run.real {
        return Ok(counted(run));
    }
    let sink = Sink::make()?;
    let cases: Vec<Case> = cross(PAYLOADS, ways()).map(|(payload, way)| Case { way, payload }).collect();
    let costs = measure(&sink, &cases, EFFORT, run.progress)?;
    findings(&costs, &together(&sink, run)?)
}

/// Returns the findings by counting, without a clock.
fn counted(run: &Run<'_>) -> Findings {
    let ways = [SendMethod::Send].into_iter().chain(EVERY.map(ring));
    let packets = if run.breaks(UNSENT) { 0 } else { COUNTED };
    let notified = |way| if run.breaks(EACH) { ring(1) } else { way };
    let counts: Vec<_> = ways.map(|way| (Case { way, payload: 1_400 }, count(notified(way), 1_400, packets))).collect();
    let claim = |every: u32, paper: &str| {
        let of = |(case, _): &&(Case, Counts)| case.way == ring(every);
        let counts = counts.iter().find(of).map(|(_, counts)| *counts).unwrap_or_default();
        let calls = counts.calls as f64 / counts.packets as f64;
        // The transport's own packets share a system call with data, with few exceptions.
        let bound = (1_050.0 / f64::from(every)).round() / 1_000.0;
        Claim::number(format!("k = {every}: system calls a packet"), paper, 4, calls).pass(..=bound)
    };
    Findings {
        claims: vec![claim(1, "1"), claim(4, "1/4"), claim(16, "1/16"), claim(64, "1/64")],
        tables: vec![table_of_counts(&counts)],
        setup: [choices_of_counts(), vec![control()]].concat(),
        data: data_of_counts(&counts),
        ..Findings::default()
    }
}

fn ways() -> Vec<SendMethod> {
    [SendMethod::Send].into_iter().chain(EVERY.map(|every| SendMethod::Ring { every })).chain([RAW]).collect()
}

/// Returns the ways that are run in many processes.
fn crowd_ways() -> impl Iterator<Item = SendMethod> {
    ways().into_iter().filter(|way| *way != RAW)
}

fn together(sink: &Sink, run: &Run<'_>) -> Result<Vec<Cost>, RunError> {
    let task = run.progress.task(&format!("{CROWD} processes at once"), u64::from(CROWD_EFFORT.rounds));
    let case = |way| Case { way, payload: CROWD_PAYLOAD };
    let mut costs: Vec<Cost> =
        crowd_ways().map(|way| Cost { case: case(way), rounds: Vec::new(), system: f64::NAN }).collect();
    for _ in 0..CROWD_EFFORT.rounds {
        for cost in &mut costs {
            cost.rounds.push(crowd(sink, cost.case, CROWD, CROWD_EFFORT.packets)?);
        }
        task.step();
    }
    Ok(costs)
}

fn findings(costs: &[Cost], together: &[Cost]) -> Result<Findings, RunError> {
    let of = |way, payload| of(costs, way, payload);
    let caption = "Medians of the rounds, on a processor of this machine.";
    let chart = Chart { title: "Cost of a packet (figure 8)", x: "payload, bytes", y: "ns", caption };
    let points = cross(ways(), PAYLOADS);
    let figure =
        chart.of(points, |(way, _)| way.name(), |&(way, payload)| (payload as f64, of(way, payload).median()))?;
    Ok(Findings {
        setup: [choices(EFFORT), own_choices()].concat(),
        tables: vec![table(costs), crowded(together)],
        figures: vec![figure],
        claims: [claims(&of), crowd_claims(together)].concat(),
        notes: Vec::new(),
        data: json!({
            "costs": costs.iter().map(data).collect::<Vec<_>>(),
            "together": together.iter().map(data).collect::<Vec<_>>(),
        }),
    })
}

fn ring(every: u32) -> SendMethod {
    SendMethod::Ring { every }
}

/// Returns the largest ratio over all payload sizes, with its size.
fn worst<'a>(of: &impl Fn(SendMethod, usize) -> &'a Cost, own: SendMethod, other: SendMethod) -> (f64, usize) {
    let ratios = PAYLOADS.map(|payload| (of(own, payload).over(of(other, payload)), payload));
    largest(ratios)
}

fn claims<'a>(of: &impl Fn(SendMethod, usize) -> &'a Cost) -> Vec<Claim> {
    let (sixteen, at) = worst(of, ring(16), SendMethod::Send);
    let (fewer, fewer_at) = worst(of, ring(16), ring(4));
    let (four, four_at) = worst(of, ring(4), ring(1));
    let (more, more_at) = worst(of, ring(64), ring(16));
    let (raw, raw_at) = worst(of, ring(16), RAW);
    let said = |ratio: f64, at: usize| format!("{ratio:.2} at {at} bytes");
    vec![
        Claim::new("k = 4 over k = 1 where it saves least", "–", said(four, four_at), four).pass(..=1.0),
        Claim::new("k = 16 over k = 4 where it saves least", "0.79", said(fewer, fewer_at), fewer).pass(..=1.0),
        Claim::new("k = 64 over k = 16 where it saves least", "1.0", said(more, more_at), more),
        Claim::new("k = 16 over UDP where it saves least", "0.58", said(sixteen, at), sixteen)
            .pass(..=0.58)
            .aim(..=0.15),
        Claim::new("k = 16 over raw GSO of 16 where it is dearest", "–", said(raw, raw_at), raw).aim(..=1.5),
    ]
}

fn crowd_claims(together: &[Cost]) -> Vec<Claim> {
    let of = |way| together.iter().find(|cost| cost.case.way == way).expect("each way was measured");
    let sixteen = of(ring(16)).over(of(SendMethod::Send));
    let ordered = of(ring(16)).median() < of(ring(4)).median() && of(ring(4)).median() < of(ring(1)).median();
    vec![
        Claim::number(format!("{CROWD} processes: k = 16 over UDP at {CROWD_PAYLOAD} bytes"), "0.58", 2, sixteen)
            .pass(..=0.58)
            .aim(..=0.15),
        Claim::order(
            format!("{CROWD} processes: k = 16 below k = 4 below k = 1"),
            "“almost identical”",
            if ordered { "so it is" } else { "not so" },
            ordered,
        ),
    ]
}

fn control() -> Choice {
    Choice::paper("control", "to the transport at each 1st, 4th, 16th, 64th packet", "figure 8")
}

fn own_choices() -> Vec<Choice> {
    vec![
        control(),
        Choice::paper("at once", format!("{CROWD} processes"), "§4.1"),
        Choice::ours("their payload", format!("{CROWD_PAYLOAD} bytes"), "the largest of figure 8"),
        Choice::ours("raw GSO", "16 packets a call, no ring and no transport", "what sending can cost at least"),
    ]
}

fn crowded(together: &[Cost]) -> Table {
    let send = together.iter().find(|cost| cost.case.way == SendMethod::Send).expect("UDP was measured");
    Rows::of(together)
        .column("way", |cost| cost.case.way.name())
        .number("ns", 0, |cost| cost.median())
        .column("quartiles", |cost| cost.between_quartiles())
        .number("over UDP", 2, |cost| cost.over(send))
        .table(&format!("{CROWD} processes at once, {CROWD_PAYLOAD} bytes: time on a processor for a packet, ns"))
}
