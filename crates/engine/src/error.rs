//! What can go wrong in the machine around a stream.

use std::net::SocketAddr;

/// The environment's and the caller's faults; what a peer does wrong ends its own connection only.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The local port is taken.
    #[error("cannot use {0}: another program has that port; choose another one, or stop that program")]
    PortInUse(SocketAddr),
    /// A socket could not be made.
    #[error("cannot open a socket on {local}: {error}")]
    Socket {
        /// Where.
        local: SocketAddr,
        /// The system's words.
        error: std::io::Error,
    },
    /// A raw socket takes a right that this process has not got.
    #[error(
        "DCCP without UDP needs a raw socket, and this process may not open one: run it as root, give the program the \
         right (setcap cap_net_raw+ep), or let it travel in UDP (encap=udp) on both ends"
    )]
    NoRawSocket,
    /// A packet tap takes a right that this process has not got.
    #[error(
        "to receive over TCP without order takes a packet socket, and this process may not open one ({0}): run it as root, \
         give the program the right (setcap cap_net_raw+ep), or say unordered=auto"
    )]
    NoPacketTap(std::io::Error),
    /// The system gave no thread, memory or descriptor.
    #[error("the system refuses: {0}")]
    System(#[from] std::io::Error),
    /// A ring like that cannot be.
    #[error("the packet ring: {0}")]
    Ring(#[from] timeous_ring::ConfigError),
    /// A ring between processes could not be made.
    #[error("the packet ring: {0}")]
    SharedRing(#[from] timeous_ring::CreateError),
    /// No further connection can be begun.
    #[error(transparent)]
    Connect(#[from] timeous_dccp::ConnectError),
    /// A Congestion Manager has one engine, whose flows it tells of their grants.
    #[error("another engine runs with this Congestion Manager: use that engine, or give this one a manager of its own")]
    CongestionTaken,
    /// The engine's thread has ended.
    #[error("the engine has stopped")]
    Stopped,
}
