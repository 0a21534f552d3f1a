//! What a connection can be told beforehand.

use timeous_core::Duration;

use crate::receiver::DelayedAck;
use crate::seq::Seq;

/// How losses are found before the timer goes off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LossDetection {
    /// Three segments that arrived after it, counted on RFC 6675's scoreboard; without SACK three duplicate
    /// acknowledgements (RFC 6582).
    DupThresh,
    /// Something that was sent well later has arrived (RACK, RFC 8985 §6). It finds the loss of a retransmission, too,
    /// and bears reordering. Without SACK it is not to be had, and the above holds.
    #[default]
    Rack,
}

/// What the application's ADUs are to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sending {
    /// A stream of bytes, in which nobody sees where one ends.
    #[default]
    Stream,
    /// Datagrams: each one is a record ([`crate::record`]) in a segment of its own.
    Records,
    /// The same, and what a segment carries is chosen anew whenever it has to be sent again: a datagram that is not
    /// worth it any more ([`AduSource::is_worth_repeating`](timeous_core::AduSource::is_worth_repeating)) is replaced by
    /// a fresh one that fits, or by padding. To the peer and everybody on the way this is TCP (McQuistin §3.2).
    LateChoice,
}

/// What the application gets of what the peer sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Receiving {
    /// A stream of bytes.
    #[default]
    Stream,
    /// The datagrams in it, each as soon as it has arrived, whatever is missing before it (McQuistin §3.1). The peer
    /// sees no difference. They are read by [`Connection::read_datagram`](crate::Connection::read_datagram).
    Unordered,
}

/// The part in ECN that a connection takes (RFC 3168 §6.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EcnMode {
    /// None.
    Off,
    /// Agrees to it if the peer asks.
    #[default]
    Accept,
    /// Asks for it, too.
    Request,
}

/// The settings of a connection. [`Config::default`] is what Linux does.
///
/// ```
/// use timeous_tcp::{Config, LossDetection};
/// let by_the_book = Config { loss_detection: LossDetection::DupThresh, tail_loss_probe: false, ..Config::default() };
/// assert!(by_the_book.sack);
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// The greatest segment to send and to be sent, options not counted (RFC 9293 §3.7.1): what the link carries less
    /// 40 bytes, with IPv6 less 60.
    pub mss: u16,
    /// Room for bytes that nobody has read; the window is what is left of it. It does not grow by itself.
    pub receive_buffer: usize,
    /// Whether timestamps are offered and accepted (RFC 7323 §3).
    pub timestamps: bool,
    /// Whether selective acknowledgements are offered and accepted (RFC 2018).
    pub sack: bool,
    /// Whether windows may be scaled (RFC 7323 §2).
    pub window_scaling: bool,
    /// The part taken in ECN.
    pub ecn: EcnMode,
    /// How acknowledgements are held back.
    pub delayed_ack: DelayedAck,
    /// How losses are found before the timer goes off.
    pub loss_detection: LossDetection,
    /// What ADUs are to the peer.
    pub sending: Sending,
    /// Whether segments of a thin stream carry what left just before once more (redundant data bundling, Evensen et al. 2008):
    /// with fewer than four segments under way and where the congestion window has room. A lost datagram is there with the next
    /// one then, for up to twice the bytes. It needs a peer that agrees to SACK and tells of duplicates (RFC 2883). Linux has no
    /// such thing.
    pub bundling: bool,
    /// What the application gets of what the peer sends.
    pub receiving: Receiving,
    /// Whether the end of a flight is probed before the timer goes off (RFC 8985 §7); with SACK only.
    pub tail_loss_probe: bool,
    /// How often a SYN is repeated (Linux: `tcp_syn_retries`).
    pub syn_retries: u32,
    /// How often a SYN is answered again (Linux: `tcp_synack_retries`).
    pub syn_ack_retries: u32,
    /// How many timeouts in a row end the connection (Linux: `tcp_retries2`).
    pub retries: u32,
    /// How long data may stay unacknowledged before the connection is given up (RFC 9293 §3.8.3), whatever `retries`
    /// says; `None`: only that counts.
    pub user_timeout: Option<Duration>,
    /// How long TIME-WAIT lasts: two maximum segment lifetimes. Linux takes one minute for that.
    pub time_wait: Duration,
    /// The first sequence number; `None`, as it should be outside of tests, takes a random one (RFC 9293 §3.4.1).
    pub initial_seq: Option<Seq>,
}

impl Config {
    /// The least that `mss` can be, as Linux has it (`TCP_MIN_SND_MSS`): options take up to 40 bytes of it.
    pub const MIN_MSS: u16 = 48;
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mss: 1_460,
            // What Linux lets it grow to (`tcp_rmem`).
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
