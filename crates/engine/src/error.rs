//! Errors of the environment and the caller around a stream.

use std::net::{IpAddr, SocketAddr};

/// Errors of the environment and the caller; errors of a peer end only its own connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The local port is taken.
    #[error("cannot use {0}: another program has that port; choose another one, or stop that program")]
    PortInUse(SocketAddr),
    /// A socket could not be made.
    #[error("cannot open a socket on {local}: {error}")]
    Socket {
        /// Local address.
        local: SocketAddr,
        /// The system's error.
        error: std::io::Error,
    },
    /// No permission to open a raw socket.
    #[error(
        "DCCP without UDP needs a raw socket, and this process may not open one: run it as root, give the program the \
         right (setcap cap_net_raw+ep), or let it travel in UDP (encap=udp) on both ends"
    )]
    NoRawSocket,
    /// No permission to open a packet tap.
    #[error(
        "to receive over TCP without order takes a packet socket, and this process may not open one ({0}): run it as root, \
         give the program the right (setcap cap_net_raw+ep), or say unordered=auto"
    )]
    NoPacketTap(std::io::Error),
    /// The system refused a thread, memory or a descriptor.
    #[error("the system refuses: {0}")]
    System(#[from] std::io::Error),
    /// The local address of a call belongs to the other family of IP.
    #[error(
        "cannot call {remote} from {local}: one is an IPv4 and the other an IPv6 address; leave out the local address, or choose one of the other family"
    )]
    OtherFamily {
        /// Local address.
        local: IpAddr,
        /// The peer's.
        remote: SocketAddr,
    },
    /// Invalid ring configuration.
    #[error("the packet ring: {0}")]
    Ring(#[from] timeous_ring::ConfigError),
    /// A ring shared between processes could not be created.
    #[error("the packet ring: {0}")]
    SharedRing(#[from] timeous_ring::CreateError),
    /// No further DCCP connection can be opened.
    #[error(transparent)]
    Connect(#[from] timeous_dccp::ConnectError),
    /// A call to another host without encryption, which nobody has asked for.
    #[error(
        "{0} is another host, and the stream is not encrypted: give a credential, such as a passphrase, or turn encryption off"
    )]
    Unencrypted(SocketAddr),
    /// A caller has a listener's credential, or the other way round, or the carrier cannot encrypt.
    #[error(
        "this credential cannot be used here: a caller needs a caller's, a listener a listener's, over DCCP in UDP or over TCP"
    )]
    WrongSealing,
    /// A credential, and a framing other than records, which cannot be encrypted.
    #[error("only records can be encrypted: leave framing out on both ends, or turn encryption off")]
    SealedFraming,
    /// Another engine uses this Congestion Manager, whose grants go to one engine only.
    #[error("another engine runs with this Congestion Manager: use that engine, or give this one a manager of its own")]
    CongestionTaken,
    /// The engine's thread has ended.
    #[error("the engine has stopped")]
    Stopped,
}
