//! Snapshot of the manager's state, for display and counters.

use std::net::SocketAddr;

use timeous_core::PathState;

use crate::destination::Destination;
use crate::flow::ClientId;
use crate::flow::FlowId;
use crate::flow::MacroflowId;
use crate::macroflow::Answered;
use crate::scheduler::Scheduling;

/// Snapshot: all macroflows with their flows.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Macroflows by identifier, including those kept without flows.
    pub macroflows: Vec<MacroflowView>,
}

/// State of a macroflow.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MacroflowView {
    /// Identifier.
    pub id: MacroflowId,
    /// Destination of its flows' packets.
    pub destination: Destination,
    /// Name of its congestion controller.
    pub controller: &'static str,
    /// Scheduling of its flows.
    pub scheduling: Scheduling,
    /// Path state; the rate is that of all flows together.
    pub state: PathState,
    /// Slow-start threshold in bytes, once there is one.
    pub threshold: Option<u64>,
    /// Grants given and not yet used.
    pub grants: u32,
    /// Waiting requests.
    pub waiting: u64,
    /// Congestion events that it has responded to.
    pub answered: Answered,
    /// Bytes sent since it was created, including closed flows.
    pub sent: u64,
    /// Bytes acknowledged since it was created.
    pub acked: u64,
    /// Bytes lost since it was created.
    pub lost: u64,
    /// Updates refused since it was created.
    pub refused: u64,
    /// Its flows, by identifier.
    pub flows: Vec<FlowView>,
}

/// Client's flow whose ends are known, for an observer of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AddressedFlow {
    /// Identifier.
    pub id: FlowId,
    /// Local address.
    pub local: SocketAddr,
    /// Remote address.
    pub remote: SocketAddr,
    /// Maximum packet size in bytes.
    pub mtu: u64,
    /// Bytes sent since it was opened, as the client reports.
    pub sent: u64,
}

/// State of a flow.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FlowView {
    /// Identifier.
    pub id: FlowId,
    /// Client that opened it.
    pub client: ClientId,
    /// Weight.
    pub weight: u32,
    /// Maximum packet size in bytes.
    pub mtu: u64,
    /// Bytes in flight.
    pub outstanding: u64,
    /// Waiting requests.
    pub waiting: u32,
    /// Grants held.
    pub grants: u32,
    /// Bytes sent since it was opened.
    pub sent: u64,
    /// Bytes acknowledged.
    pub acked: u64,
    /// Bytes lost.
    pub lost: u64,
    /// Updates refused as implausible.
    pub refused: u64,
    /// Local address, if given by the client.
    pub local: Option<SocketAddr>,
    /// Remote address, if given by the client.
    pub remote: Option<SocketAddr>,
}
