//! State of the kernel program, for display and for programs.

use std::net::{IpAddr, SocketAddr};

use timeous_core::Duration;

/// Common properties of a macroflow's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// Network namespace, as the socket option `SO_NETNS_COOKIE` identifies it.
    pub namespace: u64,
    /// Destination address.
    pub addr: IpAddr,
    /// DSCP of its packets.
    pub dscp: u8,
}

/// A macroflow of the kernel's TCP. Amounts without another unit are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Macroflow {
    /// Its path.
    pub path: Path,
    /// Open connections.
    pub flows: u64,
    /// Flows limited by the window, including the daemon's.
    pub hungry: u64,
    /// Congestion window of all flows together.
    pub window: u64,
    /// Slow start threshold, once there is one.
    pub threshold: Option<u64>,
    /// Part of the window that is in flight or assigned to flows.
    pub committed: u64,
    /// Maximum payload of a packet.
    pub mss: u32,
    /// Smoothed RTT; none before the first sample.
    pub srtt: Option<Duration>,
    /// Mean deviation of the RTT.
    pub rttvar: Duration,
    /// Minimum RTT.
    pub min_rtt: Option<Duration>,
    /// Connections opened in total.
    pub opened: u64,
    /// Bytes acknowledged in total, counted in whole packets.
    pub acked: u64,
    /// Packets lost in total.
    pub lost: u64,
    /// Congestion events (losses and ECN marks), at most one per window.
    pub losses: u64,
    /// Timeouts of the whole path.
    pub timeouts: u64,
    /// Flows of the daemon in this macroflow.
    pub companions: u64,
    /// Idle time: for how long nothing has been in flight, at most.
    pub idle: Duration,
}

/// A connection whose window comes from a macroflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Path of its macroflow.
    pub path: Path,
    /// Local address.
    pub local: SocketAddr,
    /// Remote address.
    pub remote: SocketAddr,
    /// Congestion window, in packets.
    pub window: u32,
    /// Maximum payload of its packets, in bytes.
    pub mss: u32,
    /// Data in flight, in packets.
    pub flight: u32,
    /// Smoothed RTT of the connection.
    pub srtt: Duration,
    /// Its part of the macroflow's window, in bytes.
    pub committed: u64,
    /// Whether it is limited by the window.
    pub hungry: bool,
}
