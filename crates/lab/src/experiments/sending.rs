//! What sending a packet costs (Lai & Kohler §4.1): the ways to send, and their costs on this machine.

pub(crate) mod cost;
pub(crate) mod crowd;
pub(crate) mod sink;
pub(crate) mod way;

use serde_json::json;

use crate::experiment::{Choice, Table};
use cost::{Case, Cost, Effort};
use way::Way;

/// What the experiments of §4.1 have chosen.
pub(crate) fn choices(effort: Effort) -> Vec<Choice> {
    vec![
        Choice::paper(
            "card",
            "one that does nothing, and offers checksums and scatter/gather",
            "§4.1: a software emulator of a card; here a device ifb, MTU 1500",
        ),
        Choice::paper(
            "what leaves",
            "whole DCCP packets, congestion control included",
            "§4.1: DCCP protocol and API overhead",
        ),
        Choice::ours("DCCP", "in UDP (RFC 6773), in the application's process", "the paper's is in the kernel"),
        Choice::ours(
            "dccp_notify()",
            "a call of the transport in the application's thread, which sends all that is queued",
            "control passes to the transport and back, and the kernel is entered to send; with the engine's own thread it would be \
             an eventfd, whose cost comes once for as much as has been queued meanwhile",
        ),
        Choice::ours(
            "window",
            "without end",
            "the paper's figures are not limited by congestion control; its bookkeeping is done",
        ),
        Choice::ours(
            "acknowledgements",
            "for each 192 packets; taking them in counts, writing them does not",
            "the peer is another machine in the paper; here it is in memory",
        ),
        Choice::ours(
            "payload",
            "written where it is sent from; the first 8 bytes, for ring and UDP alike",
            "the ring's packet zone is there for that; copying into it is shown beside",
        ),
        Choice::ours(
            "measured",
            format!(
                "processor time, {} rounds of {} packets for each way and size in turn; ratios within a round, medians",
                effort.rounds, effort.packets
            ),
            "whatever disturbs the machine disturbs all",
        ),
        Choice::ours(
            "user and system",
            "by the kernel's ticks over all rounds",
            "finer accounting is not in every kernel",
        ),
    ]
}

/// A cost for programs.
pub(crate) fn data(cost: &Cost) -> serde_json::Value {
    let system = if cost.system.is_nan() { serde_json::Value::Null } else { json!(cost.system) };
    json!({ "way": cost.case.way.name(), "payload": cost.case.payload, "ns": cost.rounds, "system_share": system })
}

/// The cost of a way for packets of a size.
pub(crate) fn of(costs: &[Cost], way: Way, payload: usize) -> &Cost {
    costs.iter().find(|cost| cost.case == Case { way, payload }).expect("each case was measured")
}

/// All costs, user and system apart.
pub(crate) fn table(costs: &[Cost]) -> Table {
    let head = ["payload", "way", "ns", "quartiles", "user", "system", "over UDP"];
    let mut table = Table::new("Time on a processor for a packet, ns", &head);
    for cost in costs {
        let Case { way, payload } = cost.case;
        let (low, high) = cost.quartiles();
        let (whole, kernel) = (cost.median(), cost.in_kernel());
        table.row([
            payload.to_string(),
            way.name(),
            format!("{whole:.0}"),
            format!("{low:.0} to {high:.0}"),
            format!("{:.0}", whole - kernel),
            format!("{kernel:.0}"),
            format!("{:.2}", cost.over(of(costs, Way::Send, payload))),
        ]);
    }
    table
}
