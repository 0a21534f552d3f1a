//! Options: what they are, and where they may stand (RFC 4340 §5.8).

mod data_dropped;
mod list;
mod parse;

use timeous_core::{Duration, Instant};

pub use data_dropped::{DropBlock, DropCode, drop_blocks, encode_drops};
pub use list::{ListFull, OptionList};
pub use parse::{OptionError, OptionItem, Options};

use crate::packet::PacketType;

/// The option types of RFC 4340 §5.8, table 3.
pub mod kind {
    #![allow(missing_docs, reason = "the names are the table's")]
    pub const PADDING: u8 = 0;
    pub const MANDATORY: u8 = 1;
    pub const SLOW_RECEIVER: u8 = 2;
    /// The last type that is a single byte, without a length.
    pub const LAST_SINGLE_BYTE: u8 = 31;
    pub const CHANGE_L: u8 = 32;
    pub const CONFIRM_L: u8 = 33;
    pub const CHANGE_R: u8 = 34;
    pub const CONFIRM_R: u8 = 35;
    pub const INIT_COOKIE: u8 = 36;
    pub const NDP_COUNT: u8 = 37;
    pub const ACK_VECTOR_0: u8 = 38;
    pub const ACK_VECTOR_1: u8 = 39;
    pub const DATA_DROPPED: u8 = 40;
    pub const TIMESTAMP: u8 = 41;
    pub const TIMESTAMP_ECHO: u8 = 42;
    pub const ELAPSED_TIME: u8 = 43;
    pub const DATA_CHECKSUM: u8 = 44;
    pub const FIRST_CCID_SPECIFIC: u8 = 128;
}

/// The most data that one option holds: its length byte counts type and length too.
pub const MAX_OPTION_DATA: usize = 253;

/// Who speaks in a feature negotiation option: the feature's location (L) or the other end, its remote (R)
/// (RFC 4340 §6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// `Change L`, `Confirm L`: the sender of the option is where the feature is.
    L,
    /// `Change R`, `Confirm R`: the sender of the option is the other end.
    R,
}

/// Time as DCCP's options count it: in units of 10 microseconds, 32 bits (RFC 4340 §13).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ticks(u32);

const NANOS_PER_TICK: u64 = 10_000;

impl Ticks {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// This many units of 10 microseconds.
    pub const fn new(ticks: u32) -> Self {
        Self(ticks)
    }

    /// The number of units.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// An elapsed time, rounded down; what is longer than 42949.67294 s becomes the greatest value (§13.2).
    pub fn elapsed(time: Duration) -> Self {
        Self(u32::try_from(time.as_nanos() / NANOS_PER_TICK).unwrap_or(u32::MAX))
    }

    /// A Timestamp Value of `now`; it wraps every 11.9 hours (§13.1).
    pub fn timestamp(now: Instant) -> Self {
        Self((now.as_nanos() / NANOS_PER_TICK) as u32)
    }

    /// As a length of time.
    pub const fn to_duration(self) -> Duration {
        Duration::from_nanos(self.0 as u64 * NANOS_PER_TICK)
    }

    /// How much later than `earlier` this timestamp is, if less than one wrap.
    pub const fn since(self, earlier: Self) -> Duration {
        Self(self.0.wrapping_sub(earlier.0)).to_duration()
    }
}

/// One option, borrowing its data from the packet (RFC 4340 §5.8, table 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opt<'a> {
    /// 0: fills up; [`Options`] never yields it (§5.8.1).
    Padding,
    /// 1: the next option must be processed; [`Options`] yields it as a mark on that option (§5.8.2).
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
    /// 40: which packets' data did not reach the application; read it with [`drop_blocks`] (§11.7).
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

#[cfg(test)]
mod tests;
