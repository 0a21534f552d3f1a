//! Sequence numbers: 48 bits with wrap-around, and their 24-bit short form (RFC 4340 §7).

use std::fmt;

/// A DCCP sequence or acknowledgement number, modulo 2^48.
///
/// There is no `Ord`: "greater" is circular (RFC 4340 §3.1), so it is not transitive and must not key a sorted map.
///
/// ```
/// use timeous_dccp::Seq;
/// let last = Seq::new((1 << 48) - 1);
/// assert_eq!(last.next(), Seq::new(0));
/// assert!(last.is_before(last.next()));
/// assert_eq!((last + 5).distance_from(last), 5);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seq(u64);

const MASK: u64 = (1 << 48) - 1;
const HALF: u64 = 1 << 47;
const SHORT_MASK: u32 = (1 << 24) - 1;
const SHORT_HALF: u32 = 1 << 23;

impl Seq {
    /// Number of sequence numbers: 2^48.
    pub const MODULUS: u64 = 1 << 48;

    /// Creates the sequence number `value` modulo 2^48.
    pub const fn new(value: u64) -> Self {
        Self(value & MASK)
    }

    /// Value, below 2^48.
    pub const fn value(self) -> u64 {
        self.0
    }

    /// Low 24 bits, as in short packets.
    pub const fn short(self) -> u32 {
        self.0 as u32 & SHORT_MASK
    }

    /// Next number.
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.0 + 1)
    }

    /// Previous number.
    #[must_use]
    pub const fn prev(self) -> Self {
        Self::new(self.0.wrapping_sub(1))
    }

    /// Number of steps forward from `earlier` to this number: 0 to 2^48 - 1.
    pub const fn distance_from(self, earlier: Self) -> u64 {
        self.0.wrapping_sub(earlier.0) & MASK
    }

    /// Signed distance from `other`, the shorter way round; negative if this number is before it.
    pub const fn offset_from(self, other: Self) -> i64 {
        // Shifted to the top, so that 48-bit arithmetic has a two's complement sign (RFC 4340 §3.1).
        (self.0.wrapping_sub(other.0) << 16) as i64 >> 16
    }

    /// Circular "less than" (RFC 4340 §3.1).
    pub const fn is_before(self, other: Self) -> bool {
        // At half the circle each would be before the other: then neither is "after".
        let ahead = other.distance_from(self);
        ahead != 0 && ahead <= HALF
    }

    /// Circular "greater than" (RFC 4340 §3.1).
    pub const fn is_after(self, other: Self) -> bool {
        self.0 != other.0 && !self.is_before(other)
    }

    /// The later of the two in circular order.
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }

    /// The earlier of the two in circular order.
    #[must_use]
    pub const fn min(self, other: Self) -> Self {
        if self.is_after(other) { other } else { self }
    }

    /// Whether this number is in `low..=high`, a range that may wrap (RFC 4340 §7.5.1).
    pub const fn is_in_window(self, low: Self, high: Self) -> bool {
        self.distance_from(low) <= high.distance_from(low)
    }

    /// `Extend_Sequence_Number` of RFC 4340 §7.6: returns the number nearest to `reference` whose low 24 bits are
    /// `short`.
    ///
    /// The reference is the greatest number received for a Sequence Number, the greatest sent for an
    /// Acknowledgement Number.
    #[must_use]
    pub const fn extend_short(short: u32, reference: Self) -> Self {
        let short = short & SHORT_MASK;
        let low = reference.short();
        let high = reference.0 & !(SHORT_MASK as u64);
        let ahead = short.wrapping_sub(low) & SHORT_MASK;
        let is_circularly_after = ahead != 0 && ahead <= SHORT_HALF;
        let turn = 1 << 24;
        if is_circularly_after && short < low {
            Self::new((high + turn) | short as u64)
        } else if ahead > SHORT_HALF && low < short {
            Self::new(high.wrapping_sub(turn) | short as u64)
        } else {
            Self::new(high | short as u64)
        }
    }
}

impl std::ops::Add<u64> for Seq {
    type Output = Self;
    fn add(self, steps: u64) -> Self {
        Self::new(self.0.wrapping_add(steps))
    }
}

impl std::ops::Sub<u64> for Seq {
    type Output = Self;
    fn sub(self, steps: u64) -> Self {
        Self::new(self.0.wrapping_sub(steps))
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_circular() {
        let top = Seq::new(MASK);
        assert!(top.is_before(Seq::new(3)));
        assert!(Seq::new(3).is_after(top));
        assert!(!top.is_before(top) && !top.is_after(top));
        // Half the circle apart: as two's complement has it (RFC 4340 §3.1).
        let (zero, half) = (Seq::new(0), Seq::new(HALF));
        assert!(zero.is_before(half) && half.is_before(zero) && !zero.is_after(half) && !half.is_after(zero));
        assert!(Seq::new(HALF - 1).is_after(zero) && Seq::new(HALF + 1).is_before(zero));
        assert_eq!(Seq::new(3).offset_from(top), 4);
        assert_eq!(top.offset_from(Seq::new(3)), -4);
        assert_eq!(top.max(Seq::new(0)), Seq::new(0));
        assert_eq!(top.min(Seq::new(0)), top);
        assert_eq!(Seq::new(0) - 1, top);
        assert_eq!(Seq::new(0).prev(), top);
    }

    #[test]
    fn a_window_may_wrap() {
        let (low, high) = (Seq::new(MASK - 1), Seq::new(2));
        for inside in [MASK - 1, MASK, 0, 1, 2] {
            assert!(Seq::new(inside).is_in_window(low, high), "{inside}");
        }
        for outside in [MASK - 2, 3, HALF] {
            assert!(!Seq::new(outside).is_in_window(low, high), "{outside}");
        }
    }

    #[test]
    fn short_numbers_are_extended_to_the_nearest() {
        let near = |reference: u64, steps: i64| {
            let wanted = Seq::new(reference.wrapping_add_signed(steps));
            assert_eq!(Seq::extend_short(wanted.short(), Seq::new(reference)), wanted, "{reference} {steps}");
        };
        for reference in [0, 5, (1 << 24) - 1, 1 << 24, (7 << 24) + 3, (7 << 24) - 3, MASK, MASK - 2, HALF] {
            for steps in [0, 1, -1, 9, -9, (1 << 23) - 1, 1 - (1 << 23), 1 << 23] {
                near(reference, steps);
            }
        }
    }
}
