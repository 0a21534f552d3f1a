//! Settings of a stream, given when it is opened.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use timeous_choice::Deadlines;
use timeous_core::{LateChoice, Priority};
use timeous_dccp::ServiceCode;
use timeous_kernel_tcp::TcpConfig;

use crate::carrier::Carrier;
use crate::sealing::Sealing;

/// Factory of late-choice policies: a listener makes one for each incoming connection.
pub type NewChoice = Arc<dyn Fn() -> Box<dyn LateChoice> + Send + Sync>;

/// The settings of a stream.
#[derive(Clone)]
pub struct StreamConfig {
    /// Carrier.
    pub carrier: Carrier,
    /// Local address to call from: with another than the route's own, the stream uses another uplink and shares no path state
    /// with those that use the route's own. `None`: the route's own. A listener has its address elsewhere, and over
    /// [`Carrier::Ip`] only the route's own is used.
    pub local: Option<IpAddr>,
    /// The settings of DCCP.
    pub dccp: timeous_dccp::Config,
    /// The settings of the kernel's TCP.
    pub tcp: TcpConfig,
    /// DCCP service code that the server offers and the client asks for (RFC 4340 §8.1.2).
    pub service: ServiceCode,
    /// The DCCP port of the server: behind the UDP port, or the only one.
    pub dccp_port: u16,
    /// Slots of the packet ring.
    pub slots: u32,
    /// Late-choice policy: decides which datagrams are still worth sending.
    pub choice: NewChoice,
    /// Minimum priority for retransmission: lost ADUs of at least this priority are sent again if they can still arrive
    /// in time; `None`: no retransmission.
    pub repair: Option<Priority>,
    /// Protection of its packets.
    pub sealing: Sealing,
}

impl StreamConfig {
    /// Returns the defaults over `carrier`: service code 0 at RTP's port, 256 slots, datagrams expire at their deadline
    /// (those without one never do), no retransmission.
    ///
    /// ```
    /// use timeous_engine::{Carrier, ServiceCode, StreamConfig};
    /// let config = StreamConfig { slots: 1_024, ..StreamConfig::new(Carrier::Udp) };
    /// assert_eq!((config.service, config.dccp_port), (ServiceCode::NONE, 5_004));
    /// ```
    pub fn new(carrier: Carrier) -> Self {
        Self {
            carrier,
            local: None,
            dccp: timeous_dccp::Config::default(),
            tcp: TcpConfig::default(),
            service: ServiceCode::NONE,
            dccp_port: 5_004,
            slots: 256,
            choice: Arc::new(|| Box::new(Deadlines)),
            repair: None,
            sealing: Sealing::default(),
        }
    }

    /// Returns the settings of the packet ring: a buffer holds the largest usual datagram; others are in packet zones.
    pub(crate) fn ring(&self) -> timeous_ring::Config {
        timeous_stream::ring_settings(self.slots, self.dccp.mps.max(self.tcp.longest))
    }

    /// Returns the settings of the DCCP connections: with repair enabled, retransmissions are marked to tell them from
    /// new data. Sealed packets are as large as plain ones, and so carry less.
    pub(crate) fn dccp(&self) -> timeous_dccp::Config {
        let overhead = if self.sealing.is_sealed() { timeous_seal::OVERHEAD } else { 0 };
        let mps = self.dccp.mps.saturating_sub(overhead);
        let largest = self.dccp.largest.map(|largest| largest.saturating_sub(overhead));
        timeous_dccp::Config { repeats: self.repair.is_some(), mps, largest, overhead, ..self.dccp.clone() }
    }
}

impl fmt::Debug for StreamConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { carrier, local, dccp, tcp, service, dccp_port, slots, choice: _, repair, sealing } = self;
        f.debug_struct("StreamConfig")
            .field("carrier", carrier)
            .field("local", local)
            .field("dccp", dccp)
            .field("tcp", tcp)
            .field("service", service)
            .field("dccp_port", dccp_port)
            .field("slots", slots)
            .field("repair", repair)
            .field("sealing", sealing)
            .finish_non_exhaustive()
    }
}
