//! Settings of a connection.

use std::net::SocketAddr;

use timeous_core::Duration;
use timeous_seal::{Secret, Secrets};

use crate::receiver::DelayedAck;
use crate::record::{Framing, encrypted_room, numbered_room};
use crate::seq::Seq;

/// Loss detection before the retransmission timer expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LossDetection {
    /// Three segments SACKed above it, on RFC 6675's scoreboard; without SACK three duplicate acknowledgements (RFC 6582).
    DupThresh,
    /// RACK (RFC 8985 §6): a segment sent well later was delivered. It detects lost retransmissions, too, and tolerates reordering. Without
    /// SACK, `DupThresh` is used.
    #[default]
    Rack,
}

/// Form in which the application's ADUs are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sending {
    /// A byte stream without boundaries.
    #[default]
    Stream,
    /// Datagrams: each is a record ([`crate::record`]) in a segment of its own.
    Records,
    /// As `Records`, and the content of a segment is chosen anew for each retransmission: a datagram not worth it any more
    /// ([`AduSource::is_worth_repeating`](timeous_core::AduSource::is_worth_repeating)) is replaced by a fresh one that fits, or by
    /// padding. On the wire this is TCP (McQuistin §3.2).
    LateChoice,
}

/// Form in which the application gets received data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Receiving {
    /// A byte stream.
    #[default]
    Stream,
    /// The datagrams in the stream, each as soon as it has arrived, without head-of-line blocking (McQuistin §3.1). The peer sees no
    /// difference. They are read by [`Connection::read_datagram`](crate::Connection::read_datagram).
    Unordered,
}

/// Use of ECN (RFC 3168 §6.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EcnMode {
    /// Not used.
    Off,
    /// Accepted if the peer requests it.
    #[default]
    Accept,
    /// Requested and accepted.
    Request,
}

/// Settings of a connection. [`Config::default`] behaves like Linux.
///
/// ```
/// use timeous_tcp::{Config, LossDetection};
/// let by_the_book = Config { loss_detection: LossDetection::DupThresh, tail_loss_probe: false, ..Config::default() };
/// assert!(by_the_book.sack);
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Maximum segment size to send and to receive, without options (RFC 9293 §3.7.1): the link's MTU less 40 bytes, with IPv6 less 60.
    pub mss: u16,
    /// Receive buffer in bytes, from which the window follows. It is not autotuned.
    pub receive_buffer: usize,
    /// Whether timestamps are offered and accepted (RFC 7323 §3).
    pub timestamps: bool,
    /// Whether selective acknowledgements are offered and accepted (RFC 2018).
    pub sack: bool,
    /// Whether windows may be scaled (RFC 7323 §2).
    pub window_scaling: bool,
    /// Use of ECN.
    pub ecn: EcnMode,
    /// Delayed acknowledgements.
    pub delayed_ack: DelayedAck,
    /// Loss detection before the retransmission timer expires.
    pub loss_detection: LossDetection,
    /// Form in which ADUs are sent.
    pub sending: Sending,
    /// Redundant data bundling (Evensen et al. 2008): with fewer than four segments in flight and room in the congestion window, a segment
    /// carries the previous data once more. A lost datagram then arrives with the next one, for up to twice the bytes. Needs a peer with
    /// SACK that reports duplicates (RFC 2883). Linux has no such option.
    pub bundling: bool,
    /// Form in which the application gets received data.
    pub receiving: Receiving,
    /// Whether datagrams are sent as the paper's plain records where no content changes ([`Sending::Records`]), and accepted as such: 10
    /// bytes fewer each. Both ends have to agree: a receiver cannot tell torn records from plain ones (`Framing::Plain`).
    pub plain_records: bool,
    /// Secret that both ends were given: each connection's records are encrypted with keys derived from it and the ends'
    /// addresses ([`Secrets::between`], whose limit holds here). `None`: records are numbered. For simulations and
    /// measurements; byte streams are never encrypted.
    pub secret: Option<Secret>,
    /// Whether tail loss probes are sent (RFC 8985 §7); with SACK only.
    pub tail_loss_probe: bool,
    /// Maximum number of SYN retransmissions (Linux: `tcp_syn_retries`).
    pub syn_retries: u32,
    /// Maximum number of SYN-ACK retransmissions (Linux: `tcp_synack_retries`).
    pub syn_ack_retries: u32,
    /// Number of consecutive timeouts that end the connection (Linux: `tcp_retries2`).
    pub retries: u32,
    /// User timeout: maximum time for which data may stay unacknowledged (RFC 9293 §3.8.3), whatever `retries` says; `None`: only `retries`
    /// counts.
    pub user_timeout: Option<Duration>,
    /// Duration of TIME-WAIT: two maximum segment lifetimes. Linux uses one minute.
    pub time_wait: Duration,
    /// Initial sequence number; `None`, as it should be outside of tests: a random one (RFC 9293 §3.4.1).
    pub initial_seq: Option<Seq>,
}

impl Config {
    /// Minimum of `mss`, as in Linux (`TCP_MIN_SND_MSS`): options take up to 40 bytes of it.
    pub const MIN_MSS: u16 = 48;

    /// Returns the maximum payload of a pull for a segment with `segment` bytes of data.
    #[must_use]
    pub fn max_payload(&self, segment: usize) -> usize {
        let room = match (self.sending, &self.secret) {
            (Sending::Stream, _) => Some(segment),
            (_, None) => numbered_room(segment),
            (_, Some(_)) => encrypted_room(segment),
        };
        room.unwrap_or(0)
    }

    /// Returns the framing of received records, with these secrets of the connection.
    #[must_use]
    pub fn framing(&self, secrets: Option<&Secrets>) -> Framing {
        let framing = Framing::of_received(secrets);
        if self.plain_records { framing.with_plain() } else { framing }
    }

    /// Returns the secrets of a connection's records, if they are encrypted.
    #[must_use]
    pub fn secrets(&self, local: SocketAddr, remote: SocketAddr) -> Option<Secrets> {
        self.secret.as_ref().map(|secret| Secrets::between(secret, local, remote))
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mss: 1_460,
            // Maximum of Linux's autotuning (`tcp_rmem`).
            receive_buffer: 6 << 20,
            timestamps: true,
            sack: true,
            window_scaling: true,
            ecn: EcnMode::default(),
            delayed_ack: DelayedAck::default(),
            loss_detection: LossDetection::default(),
            sending: Sending::default(),
            bundling: false,
            receiving: Receiving::default(),
            plain_records: false,
            secret: None,
            tail_loss_probe: true,
            syn_retries: 6,
            syn_ack_retries: 5,
            retries: 15,
            user_timeout: None,
            time_wait: Duration::from_secs(60),
            initial_seq: None,
        }
    }
}
