//! Congestion control identifiers of half-connections (RFC 4340 §10).

use std::fmt;
use std::str::FromStr;

/// Congestion control of one half-connection.
///
/// ```
/// use timeous_dccp::Ccid;
/// assert_eq!("3".parse(), Ok(Ccid::Ccid3));
/// assert_eq!(Ccid::from_number(4), Some(Ccid::Ccid4));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Ccid {
    /// TCP-like congestion control (RFC 4341), the default.
    #[default]
    Ccid2 = 2,
    /// TCP-Friendly Rate Control (RFC 4342), for a smooth rate.
    Ccid3 = 3,
    /// TFRC for small packets (RFC 5622): allows the byte rate of a flow with large packets, headers included.
    Ccid4 = 4,
}

impl Ccid {
    /// All supported CCIDs.
    pub const ALL: [Self; 3] = [Self::Ccid2, Self::Ccid3, Self::Ccid4];

    /// The number on the wire.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the CCID with this number, if supported.
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|ccid| u64::from(ccid.number()) == number)
    }

    /// Whether the receiver reports loss intervals and a rate instead of single packets.
    pub const fn is_rate_based(self) -> bool {
        !matches!(self, Self::Ccid2)
    }
}

impl fmt::Display for Ccid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number().fmt(f)
    }
}

impl FromStr for Ccid {
    type Err = UnknownCcid;

    fn from_str(number: &str) -> Result<Self, Self::Err> {
        let known = number.parse().ok().and_then(Self::from_number);
        known.ok_or_else(|| UnknownCcid(number.to_owned()))
    }
}

/// Error: an unsupported CCID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no CCID {0:?} here: take 2, 3 or 4")]
pub struct UnknownCcid(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_the_number_that_it_shows() {
        for ccid in Ccid::ALL {
            assert_eq!(ccid.to_string().parse(), Ok(ccid));
            assert_eq!(Ccid::from_number(ccid.number().into()), Some(ccid));
        }
        assert!("5".parse::<Ccid>().unwrap_err().to_string().contains("2, 3 or 4"));
    }
}
