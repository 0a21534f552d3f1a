//! Sequence numbers: 32 bits that wrap (RFC 9293 §3.4).

use std::fmt;

/// A TCP sequence or acknowledgement number, modulo 2^32.
///
/// There is no `Ord`: "less than" is circular (RFC 9293 §3.4), so it is not transitive and must not key a sorted map.
/// Two numbers half the circle apart are each before the other and after it; a window never reaches that far
/// (RFC 7323 §2.3), so nothing that passed a window check meets this.
///
/// ```
/// use timeous_tcp::Seq;
/// let last = Seq::new(u32::MAX);
/// assert_eq!(last + 1, Seq::new(0));
/// assert!(last.is_before(last + 1));
/// assert_eq!((last + 5).distance_from(last), 5);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seq(u32);

impl Seq {
    /// Creates the sequence number `value`.
    pub const fn new(value: u32) -> Self {
        Self(value)
    }

    /// Returns the number.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// Returns the forward distance from `earlier` to this number.
    pub const fn distance_from(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Returns the signed distance from `other`, negative if this number is before: the shorter way round.
    pub const fn offset_from(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// Circular "less than".
    pub const fn is_before(self, other: Self) -> bool {
        self.offset_from(other) < 0
    }

    /// Circular "greater than".
    pub const fn is_after(self, other: Self) -> bool {
        other.offset_from(self) < 0
    }

    /// Circular "less than or equal".
    pub const fn is_at_or_before(self, other: Self) -> bool {
        self.0 == other.0 || self.is_before(other)
    }

    /// Circular "greater than or equal".
    pub const fn is_at_or_after(self, other: Self) -> bool {
        self.0 == other.0 || self.is_after(other)
    }

    /// Returns the later of the two in circular order.
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }

    /// Returns the earlier of the two in circular order.
    #[must_use]
    pub const fn min(self, other: Self) -> Self {
        if self.is_after(other) { other } else { self }
    }

    /// Returns whether this number is one of the `len` numbers from `start` on, a range that may wrap.
    pub const fn is_within(self, start: Self, len: u32) -> bool {
        self.distance_from(start) < len
    }
}

impl std::ops::Add<u32> for Seq {
    type Output = Self;
    fn add(self, steps: u32) -> Self {
        Self(self.0.wrapping_add(steps))
    }
}

impl std::ops::AddAssign<u32> for Seq {
    fn add_assign(&mut self, steps: u32) {
        *self = *self + steps;
    }
}

impl std::ops::Sub<u32> for Seq {
    type Output = Self;
    fn sub(self, steps: u32) -> Self {
        Self(self.0.wrapping_sub(steps))
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
        let top = Seq::new(u32::MAX);
        assert!(top.is_before(Seq::new(3)) && !top.is_after(Seq::new(3)));
        assert!(Seq::new(3).is_after(top) && Seq::new(3).is_at_or_after(top));
        assert!(!top.is_before(top) && !top.is_after(top) && top.is_at_or_before(top) && top.is_at_or_after(top));
        assert_eq!(Seq::new(3).offset_from(top), 4);
        assert_eq!(top.offset_from(Seq::new(3)), -4);
        assert_eq!(top.max(Seq::new(0)), Seq::new(0));
        assert_eq!(top.min(Seq::new(0)), top);
        assert_eq!(Seq::new(0) - 1, top);
    }

    #[test]
    fn a_stretch_may_wrap() {
        let start = Seq::new(u32::MAX - 1);
        for inside in [u32::MAX - 1, u32::MAX, 0, 1, 2] {
            assert!(Seq::new(inside).is_within(start, 5), "{inside}");
        }
        for outside in [u32::MAX - 2, 3, 1 << 31] {
            assert!(!Seq::new(outside).is_within(start, 5), "{outside}");
        }
        assert!(!start.is_within(start, 0));
    }
}
