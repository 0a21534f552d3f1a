//! Agents: transports with their applications, at the ports of a machine.

use std::any::Any;
use std::net::SocketAddr;

use timeous_cm::{FlowId, Manager};
use timeous_core::Instant;
use timeous_net::sim::{Packet, Protocol};

/// Congestion Manager of an agent: its own, or one shared with other agents of its machine.
pub type Congestion = Manager;

/// A transport with its application, sans-IO. A machine drives it as a network drives a [host](timeous_net::sim::Host).
pub trait Agent: Any + Send {
    /// Returns the protocol of its packets.
    fn protocol(&self) -> Protocol;

    /// Sets its address; called before anything else.
    fn settle(&mut self, local: SocketAddr);

    /// Processes an incoming packet.
    fn handle_packet(&mut self, now: Instant, cm: &mut Congestion, packet: &Packet);

    /// Handles expired timers.
    fn handle_timeout(&mut self, now: Instant, cm: &mut Congestion);

    /// Notes that the Congestion Manager has granted `flow` a packet. Returns whether the flow is one of this agent's; an
    /// agent that is a client of the manager hears of grants as such, and has none here.
    fn granted(&mut self, flow: FlowId) -> bool {
        let _ = flow;
        false
    }

    /// Returns the next packet to send now, or `None`.
    fn poll_transmit(&mut self, now: Instant, cm: &mut Congestion) -> Option<Packet>;

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due.
    fn poll_timeout(&mut self) -> Option<Instant>;
}

/// Status of a connection. `R` is the protocol's reason for an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status<R> {
    /// Handshake in progress.
    Connecting,
    /// Established: data can flow.
    Open,
    /// Closed.
    Closed(R),
}
