//! Options and their permitted packet types (RFC 4340 §5.8).

use super::kind;
use super::ticks::Ticks;
use crate::packet_type::PacketType;

/// Maximum data size of one option: its length byte also counts type and length.
pub const MAX_OPTION_DATA: usize = 253;
/// Maximum size of the map of [`Opt::Parity`], in bytes. Chosen by us: a block of at most 160 packets
/// (docs/decisions/parity-block-size.md) spans up to eight sequence numbers for each byte.
pub const PARITY_MAP: usize = 24;

/// Sender of a feature negotiation option: the feature's location (L) or the other end, its remote (R) (RFC 4340 §6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// `Change L`, `Confirm L`: sent by the feature's location.
    L,
    /// `Change R`, `Confirm R`: sent by the other end.
    R,
}

/// One option, borrowing its data from the packet (RFC 4340 §5.8, table 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opt<'a> {
    /// 0: padding; [`Options`](crate::Options) never yields it (§5.8.1).
    Padding,
    /// 1: the next option must be processed; [`Options`](crate::Options) yields it as a flag of that option (§5.8.2).
    Mandatory,
    /// 2: the receiver cannot keep up (§11.6).
    SlowReceiver,
    /// 32, 34: proposes values of a feature (§6.1). Empty values are an error of the peer's.
    Change {
        /// Whether the feature's location sends it.
        side: Side,
        /// The feature's number.
        feature: u8,
        /// Preference list, or one value.
        values: &'a [u8],
    },
    /// 33, 35: confirms a value (§6.2). Empty values mean that the feature or its values are not supported.
    Confirm {
        /// Whether the feature's location sends it.
        side: Side,
        /// The feature's number.
        feature: u8,
        /// Value agreed upon, optionally followed by the sender's preference list.
        values: &'a [u8],
    },
    /// 36: a server's state, carried by its client (§8.1.4).
    InitCookie(&'a [u8]),
    /// 37: number of packets without data right before this one, below 2^48 (§7.7).
    NdpCount(u64),
    /// 38, 39: received packets; decode it with [`crate::ack_vector::Reports`] (§11.4).
    AckVector {
        /// The ECN Nonce Echo (§12.2).
        nonce: bool,
        /// Bytes of state and run length.
        vector: &'a [u8],
    },
    /// 40: packets whose data did not reach the application; decode it with [`drop_blocks`](super::drop_blocks)
    /// (§11.7).
    DataDropped(&'a [u8]),
    /// 41: send time of this packet, by its sender's clock (§13.1).
    Timestamp(Ticks),
    /// 42: echo of a Timestamp (§13.3).
    TimestampEcho {
        /// The received Timestamp.
        echo: Ticks,
        /// Time since it was received.
        elapsed: Ticks,
    },
    /// 43: minimum time since the acknowledged packet was received (§13.2).
    ElapsedTime(Ticks),
    /// 44: the CRC-32c of the application data (§9.3).
    DataChecksum(u32),
    /// 123, experimental: send time of this packet, by its sender's clock; unlike a Timestamp it has no answer. Sent only to a
    /// peer that accepts our other options (docs/design/dccp.md).
    SentAt(Ticks),
    /// 124, experimental: the data of this packet are a part of an ADU, after a header (docs/design/dccp.md). Sent only to
    /// a peer that accepts it: [`Feature::TakeFragments`](crate::Feature::TakeFragments).
    Fragment,
    /// 125, experimental: this packet retransmits the data of the packet sent this many numbers before. Sent only to a
    /// peer that accepts it: [`Feature::TakeRepeats`](crate::Feature::TakeRepeats).
    Repeat(u16),
    /// 126, experimental: the data of this packet are parity for a block of data. Sent only to a peer that accepts it.
    Parity {
        /// Distance in sequence numbers to the newest packet of the block.
        back: u16,
        /// Index of this parity packet in its block, from zero.
        index: u8,
        /// Number of parity packets of the block.
        of: u8,
        /// Bit map of the block's sequence numbers, from the newest backwards, lowest bit of a byte first; 1 to 24
        /// bytes ([`PARITY_MAP`]).
        map: &'a [u8],
    },
    /// 128 to 255: defined by the CCID; up to 191 sent by the HC-Sender, from 192 by the HC-Receiver (§10.3).
    CcidSpecific {
        /// The option type.
        kind: u8,
        /// The option data.
        data: &'a [u8],
    },
}

impl Opt<'_> {
    /// The option type.
    pub const fn kind(&self) -> u8 {
        match *self {
            Self::Padding => kind::PADDING,
            Self::Mandatory => kind::MANDATORY,
            Self::SlowReceiver => kind::SLOW_RECEIVER,
            Self::Change { side: Side::L, .. } => kind::CHANGE_L,
            Self::Change { side: Side::R, .. } => kind::CHANGE_R,
            Self::Confirm { side: Side::L, .. } => kind::CONFIRM_L,
            Self::Confirm { side: Side::R, .. } => kind::CONFIRM_R,
            Self::InitCookie(_) => kind::INIT_COOKIE,
            Self::NdpCount(_) => kind::NDP_COUNT,
            Self::AckVector { nonce: false, .. } => kind::ACK_VECTOR_0,
            Self::AckVector { nonce: true, .. } => kind::ACK_VECTOR_1,
            Self::DataDropped(_) => kind::DATA_DROPPED,
            Self::Timestamp(_) => kind::TIMESTAMP,
            Self::TimestampEcho { .. } => kind::TIMESTAMP_ECHO,
            Self::ElapsedTime(_) => kind::ELAPSED_TIME,
            Self::DataChecksum(_) => kind::DATA_CHECKSUM,
            Self::SentAt(_) => kind::SENT_AT,
            Self::Fragment => kind::FRAGMENT,
            Self::Repeat(_) => kind::REPEAT,
            Self::Parity { .. } => kind::PARITY,
            Self::CcidSpecific { kind, .. } => kind,
        }
    }

    /// Whether this option is allowed on a packet of this type.
    pub fn is_permitted_on(&self, packet: PacketType) -> bool {
        is_permitted(self.kind(), packet)
    }
}

/// Whether an option of type `kind` is allowed on a packet of type `packet`; where not, it is ignored.
///
/// From RFC 4340 §5.8 table 3 for DCCP-Data; §8.1.4, §11.4, §11.7 and §13.2 for DCCP-Request. Confirm options need an
/// Acknowledgement Number (§6.6.1). CCID-specific options are left to the CCID.
pub const fn is_permitted(kind: u8, packet: PacketType) -> bool {
    match packet {
        PacketType::Data => !matches!(
            kind,
            kind::MANDATORY
                | kind::CHANGE_L..=kind::INIT_COOKIE
                | kind::ACK_VECTOR_0..=kind::DATA_DROPPED
                | kind::ELAPSED_TIME
        ),
        PacketType::Request => !matches!(
            kind,
            kind::CONFIRM_L | kind::CONFIRM_R | kind::INIT_COOKIE | kind::ACK_VECTOR_0
                ..=kind::DATA_DROPPED | kind::ELAPSED_TIME
        ),
        _ => true,
    }
}
