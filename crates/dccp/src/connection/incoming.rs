//! A received packet with its place in the sequence, and the information from its options.

use timeous_core::{Duration, Ecn, Instant};

use super::parity::name::ParityName;
use crate::ack_vector::Arrival;
use crate::ccid3;
use crate::options::Ticks;
use crate::packet::{Header, Packet};
use crate::seq::Seq;

/// A valid packet of the peer.
#[derive(Clone, Debug)]
pub(super) struct Incoming<'a> {
    pub(super) packet: &'a Packet<'a>,
    /// The packet's header, with whole sequence numbers.
    pub(super) header: &'a Header,
    /// Time at which it is processed.
    pub(super) at: Instant,
    /// Time for which it has waited on this host.
    pub(super) waited: Duration,
    pub(super) ecn: Ecn,
    /// GSR before this packet.
    pub(super) gsr: Seq,
    pub(super) arrival: Arrival,
    pub(super) options: ReceivedOptions,
}

impl Incoming<'_> {
    /// Time of its arrival in this host.
    pub(super) fn arrived_at(&self) -> Instant {
        self.at.saturating_sub(self.waited)
    }
}

/// Information from a packet's options.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceivedOptions {
    /// Time that the peer held the packet it acknowledges: Elapsed Time (RFC 4340 §13.2).
    pub(super) elapsed: Duration,
    /// When it left, by the peer's clock.
    pub(super) sent_at: Option<Ticks>,
    /// Packets without data right before this one: NDP Count (§7.7).
    pub(super) ndp_count: u64,
    /// Feedback of a CCID 3 or 4 receiver (RFC 4342 §8).
    pub(super) feedback: ccid3::Heard,
    /// Whether the data fail their checksum (§9.3), or the Parity option is malformed.
    pub(super) corrupt: bool,
    /// Whether the option Slow Receiver is present: the peer asks for no higher rate (§11.6).
    pub(super) slow_receiver: bool,
    /// Distance in sequence numbers to the original packet, for a retransmission.
    pub(super) repeat: Option<u16>,
    /// Whether the data are a part of an ADU.
    pub(super) is_fragment: bool,
    /// Block of data that this packet is parity for.
    pub(super) parity: Option<ParityName>,
}
