//! lai-overhead: cost of a packet from the ring, with a notification for each, and by `send()` (Lai
//! & Kohler §4.1, figure 7).

use serde_json::json;
use timeous_testbed::report::plot::Series;

use super::sending::cost::{Case, Cost, MeasurementLength, measure};
use super::sending::count::{Counts, count};
use super::sending::engine_calls;
use super::sending::method::SendMethod;
use super::sending::sink::Sink;
use super::sending::{choices, choices_of_counts, data, data_of_counts, largest, of, table, table_of_counts};
use crate::experiment::{
    Chart, Choice, Claim, Experiment, Findings, Forms, Run, RunError, cross, most, sabotages, setup,
};

/// Payload sizes in bytes, up to an Ethernet frame with the headers of each way.
const PAYLOADS: [usize; 8] = [0, 200, 400, 600, 800, 1_000, 1_200, 1_400];
/// Transport in a thread of its own, notified at each packet, as in the engine.
const RING: SendMethod = SendMethod::Thread;
/// Transport in the application's thread: one sending call per packet.
const INLINE: SendMethod = SendMethod::Ring { every: 1 };
const COPY: SendMethod = SendMethod::RingWithCopy { every: 1 };
const WAYS: [SendMethod; 4] = [SendMethod::Send, RING, INLINE, COPY];
/// Number of packets for the counts.
const COUNTED: u64 = 19_200;
const EFFORT: MeasurementLength = MeasurementLength { rounds: 40, packets: 9_600 };

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "lai-overhead",
    title: "Cost of a packet from the ring and by send()",
    source: "Lai & Kohler §4.1, figure 7",
    paper: "small packets cost the same; for 1400 bytes UDP takes 60 % more time",
    forms: Forms::Both,
    seeds: 1,
    takes: "1 s; real 30 s",
    sabotages: &[COPIED, UNSENT],
    run,
};

sabotages! {
    COPIED = "copied", "the application copies its packets into the ring" => ["payload copied in user space"];
    UNSENT = "unsent", "no packet is sent" => ["payload copied in user space", "control transfers"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    if !run.real {
        return Ok(counted(run));
    }
    let sink = Sink::make()?;
    let cases: Vec<Case> = cross(PAYLOADS, WAYS).map(|(payload, way)| Case { way, payload }).collect();
    let calls = engine_calls::measure(run)?;
    let findings = findings(&measure(&sink, &cases, EFFORT, run.progress)?)?;
    Ok(Findings {
        claims: [findings.claims, engine_calls::claims(&calls)].concat(),
        tables: [findings.tables, vec![engine_calls::table(&calls)]].concat(),
        setup: [findings.setup, engine_calls::choices()].concat(),
        data: json!({ "costs": findings.data["costs"], "calls": calls }),
        ..findings
    })
}

/// Returns the findings by counting, without a clock.
fn counted(run: &Run<'_>) -> Findings {
    let cases = [0, 200, 1_400]
        .into_iter()
        .flat_map(|payload| [SendMethod::Send, INLINE, COPY].map(|way| Case { way, payload }));
    let copied = |way| if run.breaks(COPIED) && way == INLINE { COPY } else { way };
    let packets = if run.breaks(UNSENT) { 0 } else { COUNTED };
    let counts: Vec<_> = cases.map(|case| (case, count(copied(case.way), case.payload, packets))).collect();
    let largest = |of: fn(&Counts) -> u64| {
        let ring = counts.iter().filter(|(case, _)| case.way == INLINE);
        most(ring.map(|(_, counts)| of(counts) as f64 / counts.packets as f64))
    };
    let (copied, transfers) = (largest(|counts| counts.copied), largest(|counts| counts.transfers));
    Findings {
        claims: vec![
            Claim::number("payload copied in user space, bytes a packet", "0", 0, copied).pass(..=0.0),
            Claim::number("control transfers a packet", "1", 2, transfers).pass(..=1.0),
        ],
        tables: vec![table_of_counts(&counts)],
        setup: [choices_of_counts(), vec![control()]].concat(),
        data: data_of_counts(&counts),
        ..Findings::default()
    }
}

fn findings(costs: &[Cost]) -> Result<Findings, RunError> {
    let of = |way, payload| of(costs, way, payload);
    let dearest = PAYLOADS.map(|payload| (of(RING, payload).over(of(SendMethod::Send, payload)), payload));
    let (dearest, at) = largest(dearest);
    let called = PAYLOADS.map(|payload| (of(INLINE, payload).over(of(SendMethod::Send, payload)), payload));
    let (called, called_at) = largest(called);
    let large = of(SendMethod::Send, 1_400).over(of(RING, 1_400));
    let inline = of(SendMethod::Send, 1_400).over(of(INLINE, 1_400));
    let claims = vec![
        Claim::new("ring over UDP where it is dearest", "1.0", format!("{dearest:.2} at {at} bytes"), dearest)
            .pass(..=1.0),
        Claim::number("UDP over ring at 1400 bytes", "1.6", 2, large).pass(1.6..).aim(4.0..),
        Claim::new(
            "the paper's own case, a call of the transport at each packet: ring over UDP where it is dearest",
            "1.0",
            format!("{called:.2} at {called_at} bytes"),
            called,
        )
        .pass(..=1.0),
        Claim::number("the paper's own case: UDP over ring at 1400 bytes", "1.6", 2, inline).pass(1.6..),
    ];
    let line = |name: String, way, cost: fn(&Cost) -> f64| {
        Series::new(&name, PAYLOADS.map(|payload| (payload as f64, cost(of(way, payload)))).to_vec())
    };
    let lines = [SendMethod::Send, RING, INLINE].map(|way| line(way.name(), way, Cost::median));
    let user = |cost: &Cost| cost.median() - cost.in_kernel();
    let apart = [SendMethod::Send, INLINE].map(|way| line(format!("{}, in user space", way.name()), way, user));
    let caption = "Medians of the rounds, on a processor of this machine.";
    let chart = Chart { title: "Cost of a packet (figure 7)", x: "payload, bytes", y: "ns", caption };
    Ok(Findings {
        setup: [choices(EFFORT), own_choices()].concat(),
        tables: vec![table(costs)],
        figures: vec![chart.draw(lines.into_iter().chain(apart))?],
        claims,
        notes: Vec::new(),
        data: json!({ "costs": costs.iter().map(data).collect::<Vec<_>>() }),
    })
}

fn own_choices() -> Vec<Choice> {
    let judged = setup! {
        paper "payload": "0 to 1400 bytes" => "figure 7";
        ours "judged": "the ring with the transport in its thread; the time of both threads"
            => "so it is in the engine: the application notifies at each packet, which rings an eventfd if that thread sleeps, and it \
            sends what has been queued meanwhile. A call of the transport at each packet, the paper's own case, is judged beside";
    };
    [vec![control()], judged].concat()
}

fn control() -> Choice {
    Choice::paper("control", "handed over at each packet", "§4.1: dccp_notify() after each")
}
