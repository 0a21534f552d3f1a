//! Internet checksum over a packet and its pseudo-header (RFC 4340 §9.1).

use std::net::IpAddr;

use super::encapsulation::Encapsulation;

/// DCCP's IP protocol number (RFC 4340 §19.1).
const PROTOCOL: u16 = 33;

/// Computes the checksum over `packet[..covered]` and the pseudo-header.
///
/// With the Checksum field zero it is the field's value; for an intact received packet it is zero. `None` in UDP, whose
/// own checksum serves (RFC 6773 §3.3).
pub(super) fn checksum(packet: &[u8], covered: usize, encapsulation: Encapsulation) -> Option<u16> {
    let Encapsulation::Native { source, destination } = encapsulation else { return None };
    let mut sum = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => words(&source.octets()) + words(&destination.octets()),
        _ => [source, destination].map(to_v6).iter().map(|address| words(address)).sum(),
    };
    // IPv4's length field has 16 bits and IPv6's 32; the sum is the same.
    let length = packet.len() as u64;
    sum += u64::from(PROTOCOL) + (length >> 16) + (length & 0xffff);
    sum += words(&packet[..covered]);
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    Some(!(sum as u16))
}

fn to_v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// Sum of the big-endian 16-bit words; an odd last byte is padded on the right.
fn words(bytes: &[u8]) -> u64 {
    let (pairs, odd) = bytes.as_chunks::<2>();
    let sum: u64 = pairs.iter().map(|&pair| u64::from(u16::from_be_bytes(pair))).sum();
    sum + odd.first().map_or(0, |&last| u64::from(last) << 8)
}
