//! What carries a stream, and how far the application's last word reaches over it.

use timeous_cm::Kind;
use timeous_core::Duration;

/// What carries a stream: what DCCP packets travel in, or TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Carrier {
    /// UDP (RFC 6773), which passes NATs and takes no rights.
    #[default]
    Udp,
    /// IP itself, as protocol 33 (RFC 4340): it takes the right to open raw sockets.
    Ip,
    /// The kernel's TCP.
    Tcp,
    /// DCCP in UDP, or TCP where UDP does not pass: from the beginning, or from the time on at which it passes no more.
    Auto,
}

/// How far late choice reaches: up to where a datagram that cannot play in time any more is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reach {
    /// To the instant of sending: there is no queue behind the packet ring. So it is over DCCP.
    #[default]
    Sending,
    /// To the kernel's unsent queue, which is kept at one packet. What is in there, and what was lost and is sent again,
    /// goes as it is.
    Queue,
    /// Through the kernel's queue to every retransmission: what was sent lies in memory of ours until it arrives.
    Retransmissions,
}

/// How datagrams lie in the byte stream of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TcpFraming {
    /// uTLTCP's records (`timeous_tcp::record`), sealed: COBS between zeros, with a number and a checksum.
    #[default]
    Records,
    /// A length of two bytes before each (RFC 4571), as others read RTP over TCP. Such a stream has no room for padding,
    /// and no way to tell a mixture of two versions: late choice ends at the kernel's queue.
    Rfc4571,
}

/// Whether datagrams that come over TCP wait for what is missing before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Unordered {
    /// They do, as with any socket.
    #[default]
    Off,
    /// They do not where a packet tap may be had (`CAP_NET_RAW`), which shows segments before the kernel has put them in
    /// order; elsewhere they do.
    Auto,
    /// As [`Auto`](Self::Auto), and without a tap there is no stream.
    Require,
}

/// The settings of a stream over the kernel's TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpConfig {
    /// How datagrams lie in the byte stream.
    pub framing: TcpFraming,
    /// The longest datagram.
    pub longest: usize,
    /// How long a server is waited for.
    pub connect_timeout: Duration,
    /// How long a peer may leave data unacknowledged, or its window closed, before it is taken for dead.
    pub silence: Duration,
    /// Whether what is received waits for what is missing before it. Records only.
    pub unordered: Unordered,
    /// Whether late choice is to reach retransmissions, where the system has what it takes.
    pub into_retransmissions: bool,
    /// The controller of the Congestion Manager that holds back what the kernel's own would let go, so that its queue stays
    /// short; `None`: the kernel decides alone. It is that of all flows to that destination.
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

/// What carries a stream at one moment, and what late choice did behind the packet ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CarrierView {
    /// What carries it.
    pub carrier: Carrier,
    /// How far late choice reaches.
    pub reach: Reach,
    /// Datagrams that were handed to the kernel and gave their place to a fresh one, as they could not arrive in time: at once, or
    /// after padding had been there.
    pub replaced: u64,
    /// Datagrams that were handed to the kernel and made way for padding.
    pub padded: u64,
    /// Datagrams that were handed to the kernel, could not arrive in time any more and could not be changed: TCP may have sent
    /// them again after their deadline.
    pub unchanged: u64,
    /// Whether nothing leaves since the peer's window is closed: it does not read.
    pub stalled: bool,
    /// Whether datagrams are received as their segments come, by a packet tap.
    pub tapped: bool,
    /// Datagrams received before what was missing ahead of them, or before they were read of the stream.
    pub early: u64,
}
