//! Known features: numbers, reconciliation rules, value sizes and legal values (RFC 4340 §6.4, table 4).

/// A feature that this implementation understands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Feature {
    /// 1: the congestion control of the half-connection whose sender is the location (§10).
    Ccid = 1,
    /// 2: whether the location may send short sequence numbers (§7.6.1).
    AllowShortSeqnos = 2,
    /// 3: rough number of packets that the location expects to have in flight (§7.5.2).
    SequenceWindow = 3,
    /// 4: whether the location cannot read ECN bits (§12.1).
    EcnIncapable = 4,
    /// 5: rough number of data packets from the location per acknowledgement (§11.3).
    AckRatio = 5,
    /// 6: whether the location sends Ack Vectors (§11.5).
    SendAckVector = 6,
    /// 7: whether the location sends NDP Counts (§7.7.2).
    SendNdpCount = 7,
    /// 8: minimum checksum coverage that the location accepts (§9.2.1).
    MinChecksumCoverage = 8,
    /// 9: whether the location checks Data Checksums (§9.3.1).
    CheckDataChecksum = 9,
    /// 192: whether the location, an HC-Receiver, sends Loss Event Rate options (RFC 4342 §8.4).
    ///
    /// Treated as unknown until [`Features::prefer`](super::Features::prefer) or `propose` names it: only CCIDs 3 and 4
    /// have it.
    SendLossEventRate = 192,
    /// 125, from the experimental range (§19.4): whether the location accepts retransmissions with the option
    /// [`Repeat`](crate::Opt::Repeat) and delivers them once (1), and also parity with the option
    /// [`Parity`](crate::Opt::Parity) (2).
    TakeRepeats = 125,
    /// 124, from the experimental range (§19.4): whether the location puts ADUs together whose parts come with the option
    /// [`Fragment`](crate::Opt::Fragment).
    TakeFragments = 124,
}

/// Value of [`Feature::TakeRepeats`]: accepts retransmissions.
pub(crate) const TAKES_REPEATS: u64 = 1;
/// Value of [`Feature::TakeRepeats`]: accepts retransmissions and parity.
pub(crate) const TAKES_PARITY: u64 = 2;

/// Reconciliation rule of a feature (§6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// The first value of the server's list that is also in the client's.
    ServerPriority,
    /// The value that the location sets.
    NonNegotiable,
}

impl Feature {
    /// All features, in the order of their numbers.
    pub const ALL: [Self; 12] = [
        Self::Ccid,
        Self::AllowShortSeqnos,
        Self::SequenceWindow,
        Self::EcnIncapable,
        Self::AckRatio,
        Self::SendAckVector,
        Self::SendNdpCount,
        Self::MinChecksumCoverage,
        Self::CheckDataChecksum,
        Self::SendLossEventRate,
        Self::TakeRepeats,
        Self::TakeFragments,
    ];

    /// Index in [`ALL`](Self::ALL).
    pub(super) const fn place(self) -> usize {
        match self {
            Self::SendLossEventRate => 9,
            Self::TakeRepeats => 10,
            Self::TakeFragments => 11,
            // The others are numbered from one.
            _ => self as usize - 1,
        }
    }

    /// The number on the wire.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the feature with this number, if supported.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|feature| feature.number() == number)
    }

    /// Its reconciliation rule.
    pub const fn rule(self) -> Rule {
        match self {
            Self::SequenceWindow | Self::AckRatio => Rule::NonNegotiable,
            _ => Rule::ServerPriority,
        }
    }

    /// Initial value in a new connection.
    pub const fn initial(self) -> u64 {
        match self {
            Self::Ccid | Self::AckRatio => 2,
            Self::SequenceWindow => 100,
            _ => 0,
        }
    }

    /// Whether every implementation must support it.
    pub const fn is_required(self) -> bool {
        matches!(self, Self::Ccid | Self::AllowShortSeqnos | Self::SequenceWindow)
    }

    /// Size of one value in bytes.
    pub const fn width(self) -> usize {
        match self {
            Self::SequenceWindow => 6,
            Self::AckRatio => 2,
            _ => 1,
        }
    }

    /// Whether an endpoint may ask for this value.
    ///
    /// An Ack Ratio of 0 is legal by §11.3 and illegal by §6.6.8; we follow §11.3, as Linux does.
    pub const fn is_legal(self, value: u64) -> bool {
        match self {
            Self::Ccid => value <= 255,
            Self::SequenceWindow => value >= 32 && value < 1 << 46,
            Self::AckRatio => value <= 0xffff,
            Self::MinChecksumCoverage => value <= 15,
            Self::TakeRepeats => value <= 2,
            _ => value <= 1,
        }
    }
}
