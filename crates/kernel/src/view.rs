//! What the program knows, as people and programs see it.

use std::net::{IpAddr, SocketAddr};

use timeous_core::Duration;

/// What the packets of a macroflow have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// The network namespace that it begins in, as the socket option `SO_NETNS_COOKIE` names it.
    pub namespace: u64,
    /// Where it leads to.
    pub addr: IpAddr,
    /// The Differentiated Services code point of its packets.
    pub dscp: u8,
}

/// A macroflow of the kernel's TCP. Amounts without another unit are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Macroflow {
    /// Its path.
    pub path: Path,
    /// Connections that are open.
    pub flows: u64,
    /// How many would send more if they might, the daemon's flows among them.
    pub hungry: u64,
    /// What all of them together may have under way.
    pub window: u64,
    /// Where slow start ends, if it has ended before.
    pub threshold: Option<u64>,
    /// What they have under way, or may send before they are heard of again.
    pub committed: u64,
    /// The largest payload of a packet.
    pub mss: u32,
    /// The round trip, smoothed; none before the first sample.
    pub srtt: Option<Duration>,
    /// Its deviation.
    pub rttvar: Duration,
    /// The shortest round trip that was seen.
    pub min_rtt: Option<Duration>,
    /// Connections that were opened, ever.
    pub opened: u64,
    /// What was acknowledged, ever; whole packets are counted.
    pub acked: u64,
    /// Packets that were found lost, ever.
    pub lost: u64,
    /// Losses and marks that were answered, those of a window counted once.
    pub losses: u64,
    /// Timeouts of the whole path.
    pub timeouts: u64,
    /// Flows of the daemon that take part.
    pub companions: u64,
    /// For how long nothing has been under way, at most.
    pub idle: Duration,
}

/// A connection that draws its window from a macroflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The path of its macroflow.
    pub path: Path,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Its window, in packets.
    pub window: u32,
    /// The largest payload of its packets, in bytes.
    pub mss: u32,
    /// What it has under way, in packets.
    pub flight: u32,
    /// Its own smoothed round trip.
    pub srtt: Duration,
    /// What it holds of the macroflow's window, in bytes.
    pub committed: u64,
    /// Whether it would send more if it might.
    pub hungry: bool,
}
