//! What a client and the manager say to each other: a flow's name, and what became of its packets.

use std::fmt;
use std::net::SocketAddr;

use timeous_core::{Duration, Instant, Rate};

use crate::destination::Destination;

/// A flow of the Congestion Manager (the paper's `cm_flowid`). Names are not used again; later flows have greater ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(u64);

impl FlowId {
    /// As a number, for a message to another process.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// From the number. One that names no flow is refused wherever it is used.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }
}

impl fmt::Debug for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The rest says where it is kept.
        write!(f, "FlowId({})", self.0 >> 32)
    }
}

/// A client: a process, or what has flows of its own within one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(u64);

impl ClientId {
    /// The host's own transports, which are always there.
    pub const HOST: Self = Self(0);

    /// As a number, for a message to another process.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// From the number. One that names no client is refused wherever it is used.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::HOST { f.write_str("ClientId::HOST") } else { write!(f, "ClientId({})", self.0) }
    }
}

/// A macroflow's name. Names are not used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacroflowId(u64);

impl MacroflowId {
    /// As a number, for a message to another process.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// From the number.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }
}

impl fmt::Debug for MacroflowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MacroflowId({})", self.0 >> 32)
    }
}

/// What a client opens.
///
/// ```
/// use std::net::{IpAddr, Ipv4Addr};
/// use timeous_cm::FlowSpec;
/// let audio = FlowSpec { weight: 4, ..FlowSpec::to(IpAddr::V4(Ipv4Addr::LOCALHOST).into(), 200) };
/// assert_eq!(audio.mtu, 200);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// Where its packets go.
    pub destination: Destination,
    /// The most bytes that one of its packets has.
    pub mtu: u64,
    /// Its share of the macroflow beside that of the others; 1 to 65 536.
    pub weight: u32,
    /// The local end, for people who look at the flow.
    pub local: Option<SocketAddr>,
    /// The remote end, for people who look at the flow.
    pub remote: Option<SocketAddr>,
}

impl FlowSpec {
    /// A flow of packets of at most `mtu` bytes, with the weight of any other.
    pub fn to(destination: Destination, mtu: u64) -> Self {
        Self { destination, mtu, weight: 1, local: None, remote: None }
    }
}

/// The kind of congestion that a client saw (the paper's `lossmode`, §2.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// Bytes are gone for another reason than congestion (corruption, a receiver that dropped them).
    None,
    /// Some packets of a window were lost.
    Transient,
    /// A timeout: nothing came back.
    Persistent,
    /// Packets were marked (RFC 3168).
    Ecn,
}

/// What a client learnt from its receiver (the paper's `cm_update`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Update {
    /// Bytes that arrived.
    pub acked: u64,
    /// Bytes that did not, or with [`Loss::Ecn`] zero.
    pub lost: u64,
    /// What is to be concluded, and when the newest packet it is concluded from was sent: several losses of one
    /// window are one event, whichever flow reports them. Of a packet that was sent again the last time counts, since
    /// the loss of a retransmission is a second sign of congestion (RFC 5681 §4.3); of an acknowledgement with ECN-Echo
    /// that of the newest packet which it acknowledges.
    pub loss: Option<(Loss, Instant)>,
    /// A round-trip time sample.
    pub rtt: Option<Duration>,
    /// Delay variation that no queue explains: the most by which a packet came later than one that was sent after it;
    /// zero if none did.
    pub overtaken_by: Duration,
    /// Whether the client is in fast recovery, this acknowledgement included: until that is done the window does not
    /// grow (RFC 6675 §5). False after a timeout, where slow start repairs (RFC 5681 §3.1).
    pub recovering: bool,
    /// Whether the receiver says that it has trouble keeping up: slow start is over (RFC 4341 §5.2).
    pub slow_receiver: bool,
    /// Bytes that were told of before and that still count as in flight when a loss is judged: what the receiver holds
    /// beyond a gap is acknowledged for certain only when the gap is filled (`FlightSize`, RFC 5681 §2).
    pub beyond_gap: u64,
}

/// What a transport says that reckons its rate itself, from what its receiver tells: DCCP's CCID 3 (RFC 4342).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steering {
    /// Bytes leave at this rate, evenly.
    pub rate: Rate,
    /// So many bytes may be outstanding: what leaves until silence becomes a sign.
    pub window: u64,
}
