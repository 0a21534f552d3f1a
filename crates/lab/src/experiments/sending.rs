//! Cost of sending a packet (Lai & Kohler §4.1): the ways to send, their counts, and their
//! processor time on this machine.

pub(crate) mod cost;
pub(crate) mod count;
pub(crate) mod method;
pub(crate) mod processes;
mod sent;
pub(crate) mod sink;
mod thread;

use serde_json::json;

use crate::experiment::{Choice, Table};
use cost::{Case, Cost, MeasurementLength};
use count::Counts;
use method::SendMethod;

/// Returns the choices common to both forms of the experiments of §4.1.
fn choices_of_both() -> Vec<Choice> {
    let (leaves, there) = ("whole DCCP packets, congestion control included", "§4.1: DCCP protocol and API overhead");
    vec![
        Choice::paper("what leaves", leaves, there),
        Choice::ours("DCCP", "in UDP (RFC 6773), in the application's process", "the paper's is in the kernel"),
        Choice::ours(
            "dccp_notify()",
            "a call of the transport in the application's thread, which sends all that is queued",
            "control passes to the transport and back, and the kernel is entered to send: what the paper's call does. With the \
             transport in a thread of its own it is an eventfd, rung only if that thread sleeps",
        ),
        Choice::ours(
            "window",
            "without end",
            "congestion control does its bookkeeping, and does not limit the paper's figures",
        ),
        Choice::ours(
            "acknowledgements",
            "for each 192 packets",
            "the peer is another machine in the paper; here it is in memory",
        ),
        Choice::ours(
            "payload",
            "written where it is sent from; its first 8 bytes, for ring and UDP alike",
            "the ring's packet zone is there for that; copying into it is shown beside",
        ),
    ]
}

/// Returns the choices where sending is counted.
pub(crate) fn choices_of_counts() -> Vec<Choice> {
    let own = [Choice::ours("counted", "packets, calls and bytes, without a clock", "the same on every machine")];
    choices_of_both().into_iter().chain(own).collect()
}

/// Returns the choices where sending is timed.
pub(crate) fn choices(effort: MeasurementLength) -> Vec<Choice> {
    let card = "one that does nothing, and offers checksums and scatter/gather";
    let MeasurementLength { rounds, packets } = effort;
    let own = [
        Choice::paper("card", card, "§4.1: a software emulator of a card; here a device ifb, MTU 1500"),
        Choice::ours(
            "measured",
            format!("processor time, {rounds} rounds of {packets} packets for each way and size in turn"),
            "whatever disturbs the machine disturbs all: ratios are taken within a round, and medians of them. Taking in \
             acknowledgements counts, writing them does not",
        ),
        Choice::ours("user and system", "by the kernel's ticks over all rounds", "coarse, but in every kernel"),
    ];
    choices_of_both().into_iter().chain(own).collect()
}

/// Returns a cost as JSON.
pub(crate) fn data(cost: &Cost) -> serde_json::Value {
    let system = if cost.system.is_nan() { serde_json::Value::Null } else { json!(cost.system) };
    json!({ "way": cost.case.way.name(), "payload": cost.case.payload, "ns": cost.rounds, "system_share": system })
}

/// Returns the cost of a way for one packet size.
pub(crate) fn of(costs: &[Cost], way: SendMethod, payload: usize) -> &Cost {
    costs.iter().find(|cost| cost.case == Case { way, payload }).expect("each case was measured")
}

/// Builds a table of all costs, with user and system time.
pub(crate) fn table(costs: &[Cost]) -> Table {
    let head = ["payload", "way", "ns", "quartiles", "user", "system", "over UDP"];
    let mut table = Table::new("Time on a processor for a packet, ns", &head);
    for cost in costs {
        let Case { way, payload } = cost.case;
        let (low, high) = cost.quartiles();
        let whole = cost.median();
        let part = |share: f64| if share.is_nan() { "–".to_owned() } else { format!("{:.0}", whole * share) };
        table.row([
            payload.to_string(),
            way.name(),
            format!("{whole:.0}"),
            format!("{low:.0} to {high:.0}"),
            part(1.0 - cost.system),
            part(cost.system),
            format!("{:.2}", cost.over(of(costs, SendMethod::Send, payload))),
        ]);
    }
    table
}

/// Builds a table of the counts per packet.
pub(crate) fn table_of_counts(counts: &[(Case, Counts)]) -> Table {
    let head = [
        "payload",
        "way",
        "control transfers",
        "system calls",
        "payload copied in user space, bytes",
        "headers, bytes",
    ];
    let mut table = Table::new("For each packet", &head);
    for (Case { way, payload }, counts) in counts {
        let each = |count: u64| count as f64 / counts.packets as f64;
        table.row([
            payload.to_string(),
            way.name(),
            format!("{:.3}", each(counts.transfers)),
            format!("{:.3}", each(counts.calls)),
            format!("{:.0}", each(counts.copied)),
            format!("{:.1}", each(counts.headers)),
        ]);
    }
    table
}

/// Returns counts as JSON.
pub(crate) fn data_of_counts(counts: &[(Case, Counts)]) -> serde_json::Value {
    let one =
        |(case, counts): &(Case, Counts)| json!({ "way": case.way.name(), "payload": case.payload, "counts": counts });
    json!({ "counts": counts.iter().map(one).collect::<Vec<_>>() })
}
