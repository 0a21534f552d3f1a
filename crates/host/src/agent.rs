//! What lives at a port of a machine.

use std::any::Any;
use std::net::SocketAddr;

use timeous_cm::{FlowId, Manager};
use timeous_core::Instant;
use timeous_net::sim::{Packet, Protocol};

/// The Congestion Manager that an agent asks: its own, or one that it shares with others of its machine.
pub type Congestion = Manager;

/// A transport with its application, sans-IO. A machine drives it as a network drives a
/// [host](timeous_net::sim::Host).
pub trait Agent: Any + Send {
    /// Whose packets it takes.
    fn protocol(&self) -> Protocol;

    /// It gets its address: the first call of all.
    fn settle(&mut self, local: SocketAddr);

    /// A packet for it arrives.
    fn handle_packet(&mut self, now: Instant, cm: &mut Congestion, packet: &Packet);

    /// Lets time pass.
    fn handle_timeout(&mut self, now: Instant, cm: &mut Congestion);

    /// The Congestion Manager has granted `flow` a packet. Says whether the flow is one of this agent's.
    fn granted(&mut self, flow: FlowId) -> bool;

    /// The next packet to send now, or `None`.
    fn poll_transmit(&mut self, now: Instant, cm: &mut Congestion) -> Option<Packet>;

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    fn poll_timeout(&mut self) -> Option<Instant>;
}
