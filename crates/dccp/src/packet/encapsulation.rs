//! Encapsulation of DCCP packets: UDP or IP.

use std::net::IpAddr;

/// Encapsulation of a packet, which decides how its checksum is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encapsulation {
    /// UDP, whose checksum protects the packet: the DCCP checksum is sent as zero and ignored (RFC 6773 §3.3).
    Udp,
    /// Native IP, protocol 33: the checksum covers the addresses (RFC 4340 §9.1).
    ///
    /// Both are of one address family; a mixed pair is summed as IPv6 addresses.
    Native {
        /// The address in the IP header's source field.
        source: IpAddr,
        /// The address in the IP header's destination field.
        destination: IpAddr,
    },
}
