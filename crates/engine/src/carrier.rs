//! Carrier of a stream (DCCP over UDP or IP, or TCP), and the reach of late choice over it.

use timeous_cm::Kind;
use timeous_core::Duration;

/// Carrier of a stream: the encapsulation of its DCCP packets, or TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Carrier {
    /// UDP encapsulation (RFC 6773), which passes NATs and needs no privilege.
    #[default]
    Udp,
    /// Plain IP, protocol 33 (RFC 4340); needs the privilege to open raw sockets.
    Ip,
    /// The kernel's TCP.
    Tcp,
    /// DCCP in UDP, with a fallback to TCP where UDP is blocked, at the beginning or later.
    Auto,
}

/// Reach of late choice: the point up to which a datagram that cannot play in time is still withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reach {
    /// Until transmission: there is no queue behind the packet ring. DCCP has this reach.
    #[default]
    Sending,
    /// Until the kernel's unsent queue, which is kept at one packet. Data in that queue and retransmissions are not changed.
    Queue,
    /// Through the kernel's queue to every retransmission: sent data stays in our memory until it is acknowledged.
    Retransmissions,
}

/// Framing of datagrams in the byte stream of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TcpFraming {
    /// Sealed uTLTCP records (`timeous_tcp::record`): COBS between zeros, with a number and a checksum.
    #[default]
    Records,
    /// A two-byte length before each datagram (RFC 4571), as other RTP-over-TCP implementations use. There is no padding, and a mix of two
    /// versions cannot be detected: late choice ends at the kernel's queue.
    Rfc4571,
}

/// Whether datagrams received over TCP wait for missing earlier bytes (head-of-line blocking).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Unordered {
    /// In-order delivery, as with any socket.
    #[default]
    Off,
    /// Out-of-order delivery where a packet tap is available (`CAP_NET_RAW`), which shows segments before the kernel has put them in order;
    /// in-order elsewhere.
    Auto,
    /// As [`Auto`](Self::Auto), but opening the stream fails without a tap.
    Require,
}

/// The settings of a stream over the kernel's TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpConfig {
    /// Framing of datagrams in the byte stream.
    pub framing: TcpFraming,
    /// Maximum datagram length, in bytes.
    pub longest: usize,
    /// Timeout for the connection attempt.
    pub connect_timeout: Duration,
    /// Maximum time for which a peer may leave data unacknowledged, or its window closed, before it is taken for dead.
    pub silence: Duration,
    /// Whether received datagrams wait for missing earlier ones. Records only.
    pub unordered: Unordered,
    /// Whether late choice reaches retransmissions, where the system supports it.
    pub into_retransmissions: bool,
    /// Congestion Manager controller that limits sending below the kernel's own congestion window, to keep the path's queue short; `None`:
    /// the kernel decides alone. All flows to that destination share it.
    pub controller: Option<Kind>,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            framing: TcpFraming::default(),
            longest: 1_200,
            connect_timeout: Duration::from_secs(60),
            silence: Duration::from_secs(30),
            unordered: Unordered::default(),
            into_retransmissions: true,
            controller: None,
        }
    }
}

/// Current carrier of a stream, with counters of late choice behind the packet ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CarrierView {
    /// Current carrier.
    pub carrier: Carrier,
    /// Reach of late choice.
    pub reach: Reach,
    /// Datagrams handed to the kernel whose place a fresh one took, as they could not arrive in time: directly, or after padding had been
    /// there.
    pub replaced: u64,
    /// Datagrams handed to the kernel and replaced by padding.
    pub padded: u64,
    /// Datagrams handed to the kernel that could not arrive in time and could not be changed: TCP may have retransmitted them after their
    /// deadline.
    pub unchanged: u64,
    /// Whether sending is stalled by the peer's closed window: the peer does not read.
    pub stalled: bool,
    /// Whether datagrams are received out of order, by a packet tap.
    pub tapped: bool,
    /// Datagrams delivered before earlier missing ones, or before they were read from the stream.
    pub early: u64,
}
