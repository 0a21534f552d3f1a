//! Packet states in Ack Vectors, and their combination (RFC 4340 §11.4).

/// State of one packet at the receiver (RFC 4340 §11.4, table 6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketState {
    /// 0: received.
    Received,
    /// 1: received with ECN's Congestion Experienced.
    Marked,
    /// 3: not received yet.
    Missing,
}

impl PacketState {
    /// The two state bits.
    pub(super) const fn bits(self) -> u8 {
        match self {
            Self::Received => 0,
            Self::Marked => 1,
            Self::Missing => 3,
        }
    }

    /// Decodes two state bits. The reserved state 2 counts as if the packet was not mentioned: "not yet received"
    /// (§11.4).
    pub(super) const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Received,
            1 => Self::Marked,
            _ => Self::Missing,
        }
    }

    /// Whether the packet arrived, marked or not.
    pub const fn has_arrived(self) -> bool {
        !matches!(self, Self::Missing)
    }

    /// Combines the sender's view `self` of a packet with the newly `reported` state (§11.4.1).
    ///
    /// Where the table leaves a choice the mark wins, so that the order of acknowledgements does not matter.
    #[must_use]
    pub const fn updated_by(self, reported: Self) -> Self {
        match (self, reported) {
            (Self::Marked, _) | (_, Self::Marked) => Self::Marked,
            (Self::Received, _) | (_, Self::Received) => Self::Received,
            (Self::Missing, Self::Missing) => Self::Missing,
        }
    }
}

/// Maximum number of packets in one byte of the vector: six bits of run length (RFC 4340 §11.4).
pub(super) const MAX_RUN: u64 = 64;
