//! Cost of sending a packet (Lai & Kohler §4.1): the ways to send, their counts, and their
//! processor time on this machine.

pub(crate) mod cost;
pub(crate) mod count;
pub(crate) mod engine_calls;
pub(crate) mod method;
pub(crate) mod processes;
pub(crate) mod sink;

use cost::{Case, Cost, MeasurementLength};
use count::Counts;
use method::SendMethod;
use serde_json::json;

use crate::experiment::{Choice, Rows, Table, setup};

/// Returns the choices common to both forms of the experiments of §4.1.
fn choices_of_both() -> Vec<Choice> {
    let (leaves, there) = ("whole DCCP packets, congestion control included", "§4.1: DCCP protocol and API overhead");
    setup! {
        paper "what leaves": "{leaves}" => there;
        ours "DCCP": "in UDP (RFC 6773), in the application's process" => "the paper's is in the kernel";
        ours "dccp_notify()": "a call of the transport in the application's thread, which sends all that is queued"
            => "control passes to the transport and back, and the kernel is entered to send: what the paper's call \
            does. With the transport in a thread of its own it is an eventfd, rung only if that thread sleeps";
        ours "window": "without end"
            => "congestion control does its bookkeeping, and does not limit the paper's figures";
        ours "acknowledgements": "for each 192 packets"
            => "the peer is another machine in the paper; here it is in memory";
        ours "payload": "written where it is sent from; its first 8 bytes, for ring and UDP alike"
            => "the ring's packet zone is there for that; copying into it is shown beside";
    }
}

/// Returns the choices where sending is counted.
pub(crate) fn choices_of_counts() -> Vec<Choice> {
    let own = setup! {
        ours "counted": "packets, calls and bytes, without a clock" => "the same on every machine";
    };
    choices_of_both().into_iter().chain(own).collect()
}

/// Returns the largest ratio, with its payload size; NaN if one is NaN.
pub(crate) fn largest<const N: usize>(ratios: [(f64, usize); N]) -> (f64, usize) {
    ratios.into_iter().fold((0.0, 0), |most, own| if most.0.is_nan() || own.0 <= most.0 { most } else { own })
}

/// Returns the choices where sending is timed.
pub(crate) fn choices(effort: MeasurementLength) -> Vec<Choice> {
    let card = "one that does nothing, and offers checksums and scatter/gather";
    let MeasurementLength { rounds, packets } = effort;
    let own = setup! {
        paper "card": "{card}" => "§4.1: a software emulator of a card; here a device ifb, MTU 1500";
        ours "measured": "processor time, {rounds} rounds of {packets} packets for each way and size in turn"
            => "whatever disturbs the machine disturbs all: ratios are taken within a round, and medians of them. \
            Taking in acknowledgements counts, writing them does not";
        ours "user and system": "by the kernel's ticks over all rounds" => "coarse, but in every kernel";
    };
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
    let part = |cost: &Cost, share: f64| {
        if share.is_nan() { "–".to_owned() } else { format!("{:.0}", cost.median() * share) }
    };
    Rows::of(costs)
        .column("payload", |cost| cost.case.payload)
        .column("way", |cost| cost.case.way.name())
        .number("ns", 0, |cost| cost.median())
        .column("quartiles", |cost| cost.between_quartiles())
        .column("user", |cost| part(cost, 1.0 - cost.system))
        .column("system", |cost| part(cost, cost.system))
        .number("over UDP", 2, |cost| cost.over(of(costs, SendMethod::Send, cost.case.payload)))
        .table("Time on a processor for a packet, ns")
}

/// Builds a table of the counts per packet.
pub(crate) fn table_of_counts(counts: &[(Case, Counts)]) -> Table {
    let each = |counts: &Counts, count: u64| count as f64 / counts.packets as f64;
    Rows::of(counts)
        .column("payload", |(case, _)| case.payload)
        .column("way", |(case, _)| case.way.name())
        .number("control transfers", 3, |(_, counts)| each(counts, counts.transfers))
        .number("system calls", 3, |(_, counts)| each(counts, counts.calls))
        .number("payload copied in user space, bytes", 0, |(_, counts)| each(counts, counts.copied))
        .number("headers, bytes", 1, |(_, counts)| each(counts, counts.headers))
        .table("For each packet")
}

/// Returns counts as JSON.
pub(crate) fn data_of_counts(counts: &[(Case, Counts)]) -> serde_json::Value {
    let one =
        |(case, counts): &(Case, Counts)| json!({ "way": case.way.name(), "payload": case.payload, "counts": counts });
    json!({ "counts": counts.iter().map(one).collect::<Vec<_>>() })
}
