//! The Internet checksum over a segment and its pseudo-header (RFC 9293 §3.1, RFC 8200 §8.1).

use std::net::IpAddr;

/// TCP's IP protocol number (IANA).
const PROTOCOL: u64 = 6;

/// Source and destination addresses of a segment, which the checksum covers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Addresses {
    /// Source address of the IP header.
    pub source: IpAddr,
    /// Destination address of the IP header.
    pub destination: IpAddr,
}

impl Addresses {
    /// Returns the addresses of a segment in the other direction.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self { source: self.destination, destination: self.source }
    }
}

/// Returns the complement of the one's complement sum of the segment and its pseudo-header.
///
/// If the Checksum field is zero, the result is the field's value; for a received segment it is zero if the segment is
/// intact.
pub(super) fn checksum(segment: &[u8], addresses: Addresses) -> u16 {
    let mut sum = match (addresses.source, addresses.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => words(&source.octets()) + words(&destination.octets()),
        (source, destination) => [source, destination].map(to_v6).iter().map(|address| words(address)).sum(),
    };
    // The length field has 16 bits in IPv4 and 32 in IPv6; the sum of its words is the same.
    let length = segment.len() as u64;
    sum += PROTOCOL + (length >> 16) + (length & 0xffff) + words(segment);
    !fold(sum)
}

/// Returns the one's complement sum of the 16-bit words of `sum`.
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

fn to_v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// Returns the sum of the big-endian 16-bit words; an odd last byte is padded on the right.
///
/// Most bytes are summed in native byte order and in 32-bit words, and the sum is swapped once at the end: the result
/// is the same (RFC 1071 §2).
fn words(bytes: &[u8]) -> u64 {
    let (quads, rest) = bytes.as_chunks::<4>();
    let native = fold(quads.iter().map(|&quad| u64::from(u32::from_ne_bytes(quad))).sum());
    let (pairs, odd) = rest.as_chunks::<2>();
    let last: u64 = pairs.iter().map(|&pair| u64::from(u16::from_be_bytes(pair))).sum();
    u64::from(u16::from_be(native)) + last + odd.first().map_or(0, |&last| u64::from(last) << 8)
}
