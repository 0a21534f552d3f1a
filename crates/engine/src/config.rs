//! What a stream is told when it is opened.

use std::fmt;
use std::sync::Arc;

use timeous_core::{LateChoice, Priority};
use timeous_dccp::ServiceCode;

use crate::carrier::{Carrier, TcpConfig};

/// Makes the late choice of a new connection: a listener makes one for each that comes in.
pub type NewChoice = Arc<dyn Fn() -> Box<dyn LateChoice> + Send + Sync>;

/// The settings of a stream.
#[derive(Clone)]
pub struct StreamConfig {
    /// What carries it.
    pub carrier: Carrier,
    /// The settings of DCCP.
    pub dccp: timeous_dccp::Config,
    /// The settings of the kernel's TCP.
    pub tcp: TcpConfig,
    /// What the server offers, and the client asks for (RFC 4340 §8.1.2).
    pub service: ServiceCode,
    /// The DCCP port of the server: behind the UDP port, or the only one.
    pub dccp_port: u16,
    /// Places in the packet ring.
    pub slots: u32,
    /// What is still worth sending.
    pub choice: NewChoice,
    /// Lost ADUs of at least this priority leave again if they can still arrive in time; `None`: nothing is repaired.
    pub repair: Option<Priority>,
}

impl StreamConfig {
    /// Its packet ring.
    pub(crate) fn ring(&self) -> timeous_ring::Config {
        timeous_ring::Config::new(self.slots).completions(self.slots.saturating_mul(16))
    }
}

impl StreamConfig {
    /// The settings of its DCCP connections: what is repaired has to be told from what is new.
    pub(crate) fn dccp(&self) -> timeous_dccp::Config {
        timeous_dccp::Config { repeats: self.repair.is_some(), ..self.dccp.clone() }
    }
}

impl fmt::Debug for StreamConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { carrier, dccp, tcp, service, dccp_port, slots, choice: _, repair } = self;
        f.debug_struct("StreamConfig")
            .field("carrier", carrier)
            .field("dccp", dccp)
            .field("tcp", tcp)
            .field("service", service)
            .field("dccp_port", dccp_port)
            .field("slots", slots)
            .field("repair", repair)
            .finish_non_exhaustive()
    }
}
