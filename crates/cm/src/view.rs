//! A look at all that the manager has, for people and for counters.

use std::net::SocketAddr;

use timeous_core::PathState;

use crate::destination::Destination;
use crate::flow::ClientId;
use crate::flow::FlowId;
use crate::flow::MacroflowId;
use crate::macroflow::Answered;
use crate::scheduler::Scheduling;

/// All macroflows with their flows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The macroflows by name, those included that have no flow at present and are kept for the next.
    pub macroflows: Vec<MacroflowView>,
}

/// A macroflow.
#[derive(Clone, Debug, PartialEq)]
pub struct MacroflowView {
    /// Its name.
    pub id: MacroflowId,
    /// Where its flows' packets go.
    pub destination: Destination,
    /// The name of its controller.
    pub controller: &'static str,
    /// How its flows take turns.
    pub scheduling: Scheduling,
    /// What is known of its path; the rate is that of all flows together.
    pub state: PathState,
    /// The slow start threshold in bytes, once there is one.
    pub threshold: Option<u64>,
    /// Grants given and not yet used.
    pub grants: u32,
    /// Requests that wait.
    pub waiting: u64,
    /// The congestion that it has answered.
    pub answered: Answered,
    /// Bytes sent since it began, by flows that are closed as well.
    pub sent: u64,
    /// Bytes acknowledged since it began.
    pub acked: u64,
    /// Bytes lost since it began.
    pub lost: u64,
    /// Updates refused since it began.
    pub refused: u64,
    /// Its flows, by name.
    pub flows: Vec<FlowView>,
}

/// A flow.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowView {
    /// Its name.
    pub id: FlowId,
    /// Who opened it.
    pub client: ClientId,
    /// Its weight.
    pub weight: u32,
    /// The most bytes that a packet of it has.
    pub mtu: u64,
    /// Bytes under way.
    pub outstanding: u64,
    /// Requests that wait.
    pub waiting: u32,
    /// Grants that it holds.
    pub grants: u32,
    /// Bytes sent since it was opened.
    pub sent: u64,
    /// Bytes acknowledged.
    pub acked: u64,
    /// Bytes lost.
    pub lost: u64,
    /// Updates that could not be true and were refused.
    pub refused: u64,
    /// The local end, if its client has told it.
    pub local: Option<SocketAddr>,
    /// The remote end, if its client has told it.
    pub remote: Option<SocketAddr>,
}
