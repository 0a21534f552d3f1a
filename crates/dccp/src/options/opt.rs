//! One option, and where it may stand (RFC 4340 §5.8).

use super::kind;
use super::ticks::Ticks;
use crate::packet_type::PacketType;

/// The most data that one option holds: its length byte counts type and length too.
pub const MAX_OPTION_DATA: usize = 253;
/// The most bytes of the map of [`Opt::Parity`]: so many numbers, eight times, may lie between the ends of a block.
pub const PARITY_MAP: usize = 24;

/// Who speaks in a feature negotiation option: the feature's location (L) or the other end, its remote (R)
/// (RFC 4340 §6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// `Change L`, `Confirm L`: the sender of the option is where the feature is.
    L,
    /// `Change R`, `Confirm R`: the sender of the option is the other end.
    R,
}

/// One option, borrowing its data from the packet (RFC 4340 §5.8, table 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opt<'a> {
    /// 0: fills up; [`Options`](crate::Options) never yields it (§5.8.1).
    Padding,
    /// 1: the next option must be processed; [`Options`](crate::Options) yields it as a mark on that option (§5.8.2).
    Mandatory,
    /// 2: the receiver has trouble keeping up (§11.6).
    SlowReceiver,
    /// 32, 34: start of a feature negotiation (§6.1). Empty values are a peer's mistake.
    Change {
        /// The side that speaks.
        side: Side,
        /// The feature's number.
        feature: u8,
        /// A preference list, or one value.
        values: &'a [u8],
    },
    /// 33, 35: its end (§6.2). Empty values mean that the feature or the values were not understood.
    Confirm {
        /// The side that speaks.
        side: Side,
        /// The feature's number.
        feature: u8,
        /// The value agreed upon, then perhaps the sender's preference list.
        values: &'a [u8],
    },
    /// 36: a server's state, carried by its client (§8.1.4).
    InitCookie(&'a [u8]),
    /// 37: how many packets without data came right before this one, below 2^48 (§7.7).
    NdpCount(u64),
    /// 38, 39: which packets arrived; read it with [`crate::ack_vector::Reports`] (§11.4).
    AckVector {
        /// The ECN Nonce Echo (§12.2).
        nonce: bool,
        /// State and run length bytes.
        vector: &'a [u8],
    },
    /// 40: which packets' data did not reach the application; read it with [`drop_blocks`](super::drop_blocks) (§11.7).
    DataDropped(&'a [u8]),
    /// 41: when this packet was sent, by its sender's clock (§13.1).
    Timestamp(Ticks),
    /// 42: a Timestamp sent back (§13.3).
    TimestampEcho {
        /// The Timestamp that was received.
        echo: Ticks,
        /// How long it lay here.
        elapsed: Ticks,
    },
    /// 43: how long ago the packet acknowledged was received, at least (§13.2).
    ElapsedTime(Ticks),
    /// 44: the CRC-32c of the application data (§9.3).
    DataChecksum(u32),
    /// 125, ours: the data of this packet are those of the packet sent so many numbers before it, which is thought to be
    /// lost. Sent only to who said that he takes it: [`Feature::TakeRepeats`](crate::Feature::TakeRepeats).
    Repeat(u16),
    /// 126, ours: the data of this packet are parity for a block of data, which are sent only to who said that he takes them.
    Parity {
        /// The newest packet of the block was sent so many numbers before this one.
        back: u16,
        /// Which of the block's packets of parity this is, from zero.
        index: u8,
        /// How many of them there are.
        of: u8,
        /// A bit for each number from the newest backwards, the lowest bit of a byte first: whether it belongs to the
        /// block. One byte to 24 ([`PARITY_MAP`]).
        map: &'a [u8],
    },
    /// 128 to 255: the CCID's; up to 191 sent by the HC-Sender, from 192 by the HC-Receiver (§10.3).
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
            Self::Repeat(_) => kind::REPEAT,
            Self::Parity { .. } => kind::PARITY,
            Self::CcidSpecific { kind, .. } => kind,
        }
    }

    /// Whether this option may stand on a packet of this type.
    pub fn is_permitted_on(&self, packet: PacketType) -> bool {
        is_permitted(self.kind(), packet)
    }
}

/// Whether an option of type `kind` may stand on a packet of type `packet`; where it may not, it is ignored.
///
/// RFC 4340 §5.8 table 3 for DCCP-Data; §8.1.4, §11.4, §11.7 and §13.2 for DCCP-Request. Confirm options need an
/// Acknowledgement Number too (§6.6.1). What a CCID's own options may do is for the CCID to say.
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
