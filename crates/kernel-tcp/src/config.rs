//! Settings of a stream over the kernel's TCP.

use timeous_cm::Kind;
use timeous_core::Duration;

use crate::tap;

/// Framing of datagrams in the byte stream of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TcpFraming {
    /// Numbered uTLTCP records (`timeous_tcp::record`): COBS between zeros, with a number and a checksum.
    #[default]
    Records,
    /// A two-byte length before each datagram (RFC 4571), as other RTP-over-TCP implementations use. There is no padding, and a mix of two
    /// versions cannot be detected: late choice ends at the kernel's queue.
    Rfc4571,
    /// No framing: the byte stream is that of the application, for receivers that know nothing of Timeous. Each datagram leaves whole or not
    /// at all, up to [`MAX_UNFRAMED`](crate::MAX_UNFRAMED) bytes; late choice ends at the kernel's queue. What the peer sends is received in
    /// pieces, as it comes.
    None,
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
///
/// ```
/// use timeous_kernel_tcp::{TcpConfig, Unordered};
/// let config = TcpConfig { unordered: Unordered::Auto, ..TcpConfig::default() };
/// assert!(config.check_tap().is_ok(), "only `Require` requires a tap");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpConfig {
    /// Framing of datagrams in the byte stream.
    pub framing: TcpFraming,
    /// Length of the longest usual datagram, in bytes. Longer ones, up to 65 535 bytes, are sent, too, but not changed in the kernel's
    /// send queue.
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
    /// Whether an incoming connection without encryption becomes a stream with its first bytes only: for a listener that only receives, so
    /// that a silent caller takes no place of one that sends.
    pub awaits_data: bool,
    /// Whether the stream goes on in the other direction when the peer has closed its own (RFC 9293 §3.6): without framing only, since the
    /// close of a Timeous peer ends the stream. The session [is told](crate::TcpSession::peer_ended).
    pub half_close: bool,
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
            awaits_data: false,
            half_close: false,
        }
    }
}

impl TcpConfig {
    /// Checks that a packet tap is available, if one is required.
    ///
    /// # Errors
    /// The system's: the process may not open one (`CAP_NET_RAW`).
    pub fn check_tap(&self) -> std::io::Result<()> {
        if self.unordered == Unordered::Require { tap::may_be_had() } else { Ok(()) }
    }
}
