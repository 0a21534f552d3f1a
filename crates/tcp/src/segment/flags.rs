//! The control bits of a header (RFC 9293 §3.1, RFC 3168 §6.1).

use std::fmt;

/// Control bits, without ACK and URG: [`Header::ack`](super::Header::ack) and [`Header::urgent`](super::Header::urgent)
/// tell whether their fields are valid.
///
/// ```
/// use timeous_tcp::Flags;
/// let flags = Flags::SYN | Flags::ECE | Flags::CWR;
/// assert!(flags.contains(Flags::SYN) && !flags.contains(Flags::FIN));
/// assert!(flags.contains(Flags::ECE | Flags::CWR));
/// assert_eq!(format!("{flags:?}"), "SYN|ECE|CWR");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u8);

impl Flags {
    /// No bit set.
    pub const NONE: Self = Self(0);
    /// No more data from sender.
    pub const FIN: Self = Self(1);
    /// Synchronize sequence numbers.
    pub const SYN: Self = Self(2);
    /// Reset the connection.
    pub const RST: Self = Self(4);
    /// Push: the sender has no more data to add to this segment.
    pub const PSH: Self = Self(8);
    /// ECN-Echo (RFC 3168 §6.1).
    pub const ECE: Self = Self(64);
    /// Congestion window reduced (RFC 3168 §6.1).
    pub const CWR: Self = Self(128);

    pub(super) const ACK_BIT: u8 = 16;
    pub(super) const URG_BIT: u8 = 32;

    const NAMES: [(Self, &'static str); 6] = [
        (Self::FIN, "FIN"),
        (Self::SYN, "SYN"),
        (Self::RST, "RST"),
        (Self::PSH, "PSH"),
        (Self::ECE, "ECE"),
        (Self::CWR, "CWR"),
    ];

    /// Reads the bits from the header's byte 13, without ACK and URG.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & !(Self::ACK_BIT | Self::URG_BIT))
    }

    /// Returns the bits as in the header's byte 13.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns whether all bits of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether any bit of `other` is set.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns `flag` if `condition` holds, else no bits.
    #[must_use]
    pub const fn when(condition: bool, flag: Self) -> Self {
        if condition { flag } else { Self::NONE }
    }
}

impl std::ops::BitOr for Flags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (_, name) in Self::NAMES.iter().filter(|(flag, _)| self.contains(*flag)) {
            write!(f, "{separator}{name}")?;
            separator = "|";
        }
        if separator.is_empty() { f.write_str("-") } else { Ok(()) }
    }
}
