//! Congestion control identifiers: which control a half-connection has (RFC 4340 §10).

use std::fmt;
use std::str::FromStr;

/// The congestion control of one half-connection.
///
/// ```
/// use timeous_dccp::Ccid;
/// assert_eq!("3".parse(), Ok(Ccid::Ccid3));
/// assert_eq!(Ccid::from_number(4), Some(Ccid::Ccid4));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Ccid {
    /// TCP-like congestion control (RFC 4341), where every connection starts.
    #[default]
    Ccid2 = 2,
    /// TCP-Friendly Rate Control (RFC 4342), for streams that should be smooth.
    Ccid3 = 3,
    /// The same for small packets (RFC 5622): it gets the bytes of a flow of large ones, headers counted.
    Ccid4 = 4,
}

impl Ccid {
    /// All that there are here.
    pub const ALL: [Self; 3] = [Self::Ccid2, Self::Ccid3, Self::Ccid4];

    /// The number on the wire.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The one with this number, if we have it.
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|ccid| u64::from(ccid.number()) == number)
    }

    /// Whether the receiver tells loss intervals and a rate, rather than each packet.
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

/// A number that is none of ours.
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
