//! What a stream is told when it is opened.

use std::fmt;
use std::sync::Arc;

use timeous_choice::Deadlines;
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
    /// A stream over `carrier` of which nothing else is said: a service without a name at RTP's port, 256 places, nothing
    /// leaves after its deadline (what has none leaves always), nothing is repaired.
    ///
    /// ```
    /// use timeous_engine::{Carrier, ServiceCode, StreamConfig};
    /// let config = StreamConfig { slots: 1_024, ..StreamConfig::new(Carrier::Udp) };
    /// assert_eq!((config.service, config.dccp_port), (ServiceCode::NONE, 5_004));
    /// ```
    pub fn new(carrier: Carrier) -> Self {
        Self {
            carrier,
            dccp: timeous_dccp::Config::default(),
            tcp: TcpConfig::default(),
            service: ServiceCode::NONE,
            dccp_port: 5_004,
            slots: 256,
            choice: Arc::new(|| Box::new(Deadlines)),
            repair: None,
        }
    }

    /// Its packet ring.
    pub(crate) fn ring(&self) -> timeous_ring::Config {
        timeous_ring::Config::new(self.slots).completions(self.slots.saturating_mul(16))
    }

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
