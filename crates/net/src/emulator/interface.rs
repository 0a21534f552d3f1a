//! IPv4 address of a device, with its network prefix.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use timeous_core::units::UnitError;

/// Address and prefix length, as in `10.77.0.1/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Interface {
    /// The address.
    pub address: Ipv4Addr,
    /// Length of the network prefix in bits.
    pub prefix: u8,
}

impl FromStr for Ipv4Interface {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError::new(text, "an address with its prefix such as 10.77.0.1/24");
        let (address, prefix) = text.split_once('/').ok_or_else(error)?;
        let prefix: u8 = prefix.parse().map_err(|_| error())?;
        let address = address.parse().map_err(|_| error())?;
        if prefix <= 32 { Ok(Self { address, prefix }) } else { Err(error()) }
    }
}

impl fmt::Display for Ipv4Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}
