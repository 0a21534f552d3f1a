//! Types that clients and the manager exchange: identifiers, flow specifications and feedback.

use std::fmt;
use std::net::SocketAddr;

use timeous_core::{Duration, Instant, Rate};

use crate::destination::Destination;

/// Flow of the Congestion Manager (the paper's `cm_flowid`). Identifiers are not reused and increase with time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(u64);

impl FlowId {
    /// Returns the number, for a message to another process.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Converts a number. Calls with an unknown identifier are refused.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }
}

impl fmt::Debug for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The lower half is the index in the table.
        write!(f, "FlowId({})", self.0 >> 32)
    }
}

/// Client: a process, or a part of one that has flows of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(u64);

impl ClientId {
    /// The host's own transports, which always exist.
    pub const HOST: Self = Self(0);

    /// Returns the number, for a message to another process.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Converts a number. Calls with an unknown identifier are refused.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::HOST { f.write_str("ClientId::HOST") } else { write!(f, "ClientId({})", self.0) }
    }
}

/// Identifier of a macroflow; not reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacroflowId(u64);

impl MacroflowId {
    /// Returns the number, for a message to another process.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Converts a number.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }
}

impl fmt::Debug for MacroflowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MacroflowId({})", self.0 >> 32)
    }
}

/// Specification of a flow to open.
///
/// ```
/// use std::net::{IpAddr, Ipv4Addr};
/// use timeous_cm::FlowSpec;
/// let audio = FlowSpec { weight: 4, ..FlowSpec::to(IpAddr::V4(Ipv4Addr::LOCALHOST).into(), 200) };
/// assert_eq!(audio.mtu, 200);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// Destination of its packets.
    pub destination: Destination,
    /// Maximum packet size in bytes.
    pub mtu: u64,
    /// Weight among the macroflow's flows, from 1 to 65 536.
    pub weight: u32,
    /// Local address, for display only: what counts is [`Destination::source`].
    pub local: Option<SocketAddr>,
    /// Remote address, for display only.
    pub remote: Option<SocketAddr>,
    /// Bytes of the headers that the sizes of its packets do not include, for the model of the path.
    pub headers: u16,
}

/// Bytes of a UDP header.
const UDP_HEADER: u16 = 8;

impl FlowSpec {
    /// Specifies a flow of packets of at most `mtu` bytes with the default weight of 1, over UDP.
    pub fn to(destination: Destination, mtu: u64) -> Self {
        let headers = destination.ip_header() + UDP_HEADER;
        Self { destination, mtu, weight: 1, local: None, remote: None, headers }
    }
}

/// Kind of congestion that a client observed (the paper's `lossmode`, §2.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// Bytes were lost for another reason than congestion (corruption, drops at the receiver).
    None,
    /// Some packets of a window were lost.
    Transient,
    /// A timeout: no acknowledgements came.
    Persistent,
    /// Packets were ECN-marked (RFC 3168).
    Ecn,
}

/// Feedback that a client got from its receiver (the paper's `cm_update`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Update {
    /// Bytes that arrived.
    pub acked: u64,
    /// Bytes that were lost; zero with [`Loss::Ecn`].
    pub lost: u64,
    /// Congestion signal, with the send time of the newest packet that shows it: several losses of one window are one
    /// event, whichever flow reports them. For a retransmission its own send time counts, since its loss is a second
    /// congestion event (RFC 5681 §4.3); for ECN-Echo that of the newest packet acknowledged with it.
    pub loss: Option<(Loss, Instant)>,
    /// RTT sample.
    pub rtt: Option<Duration>,
    /// RTT of the newest packet without the delay of its acknowledgement, for controllers by the path model; `None`: `rtt`.
    pub path_rtt: Option<Duration>,
    /// Delay variation that no queue explains: the most by which a packet arrived later than one sent after it; zero if
    /// packets stayed in order.
    pub overtaken_by: Duration,
    /// Whether the client is in fast recovery, with this acknowledgement: the window does not grow until it ends (RFC
    /// 6675 §5). False after a timeout, when slow start repairs the losses (RFC 5681 §3.1).
    pub recovering: bool,
    /// Whether the receiver reports that it cannot keep up, which ends slow start (RFC 4341 §5.2).
    pub slow_receiver: bool,
    /// Bytes reported before that still count as in flight when a loss is judged: data received beyond a gap is finally
    /// acknowledged only when the gap is filled (`FlightSize`, RFC 5681 §2).
    pub beyond_gap: u64,
}

/// Rate and window set by a transport that computes them from its receiver's reports: DCCP's CCID 3 (RFC 4342).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steering {
    /// Pacing rate.
    pub rate: Rate,
    /// Maximum bytes in flight; beyond it missing feedback stops the flow.
    pub window: u64,
}
