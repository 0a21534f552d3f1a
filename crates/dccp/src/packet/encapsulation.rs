//! What a packet travels in.

use std::net::IpAddr;

/// How a packet travels, which decides what its checksum is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encapsulation {
    /// In UDP, whose checksum protects it: the DCCP checksum is sent as zero and ignored (RFC 6773 §3.3).
    Udp,
    /// In IP, as protocol 33: the addresses are part of the checksum (RFC 4340 §9.1).
    ///
    /// The two are of one family; should they not be, they are summed as IPv6 addresses.
    Native {
        /// The address in the IP header's source field.
        source: IpAddr,
        /// The address in the IP header's destination field.
        destination: IpAddr,
    },
}
