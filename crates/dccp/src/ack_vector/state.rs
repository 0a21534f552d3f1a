//! The states of Ack Vectors, and how they become one (RFC 4340 §11.4).

/// What the receiver says about one packet (RFC 4340 §11.4, table 6).
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

    /// The reserved state 2 says nothing that we understand, as if the packet had not been mentioned: "not yet
    /// received" (§11.4).
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

    /// The sender's new view of a packet of which it thought `self` and now hears `reported` (§11.4.1).
    ///
    /// Where the table leaves a choice it takes the mark, so that the order of acknowledgements does not matter.
    #[must_use]
    pub const fn updated_by(self, reported: Self) -> Self {
        match (self, reported) {
            (Self::Marked, _) | (_, Self::Marked) => Self::Marked,
            (Self::Received, _) | (_, Self::Received) => Self::Received,
            (Self::Missing, Self::Missing) => Self::Missing,
        }
    }
}

/// The most packets that one byte of the vector stands for.
pub(super) const MAX_RUN: u64 = 64;
