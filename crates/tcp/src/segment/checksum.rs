//! The Internet checksum over a segment and its pseudo-header (RFC 9293 §3.1, RFC 8200 §8.1).

use std::net::IpAddr;

/// TCP's IP protocol number.
const PROTOCOL: u64 = 6;

/// The addresses that a segment travels between: the checksum covers them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Addresses {
    /// The IP header's source.
    pub source: IpAddr,
    /// The IP header's destination.
    pub destination: IpAddr,
}

impl Addresses {
    /// Those of a segment that goes back.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self { source: self.destination, destination: self.source }
    }
}

/// The one's complement sum of the segment and its pseudo-header, complemented.
///
/// A segment with its Checksum field zero gives the field's value; a received one gives zero if it is intact.
pub(super) fn checksum(segment: &[u8], addresses: Addresses) -> u16 {
    let mut sum = match (addresses.source, addresses.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => words(&source.octets()) + words(&destination.octets()),
        (source, destination) => [source, destination].map(to_v6).iter().map(|address| words(address)).sum(),
    };
    // IPv4's length has 16 bits and IPv6's 32; summed in words they are the same.
    let length = segment.len() as u64;
    sum += PROTOCOL + (length >> 16) + (length & 0xffff) + words(segment);
    !fold(sum)
}

/// The one's complement sum of the 16-bit words of `sum`.
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

/// The sum of the big-endian 16-bit words; an odd last byte is padded on the right.
///
/// Most of it is summed in the machine's own order and in greater words, and turned round once at the end: that comes to
/// the same (RFC 1071 §2).
fn words(bytes: &[u8]) -> u64 {
    let (quads, rest) = bytes.as_chunks::<4>();
    let native = fold(quads.iter().map(|&quad| u64::from(u32::from_ne_bytes(quad))).sum());
    let (pairs, odd) = rest.as_chunks::<2>();
    let last: u64 = pairs.iter().map(|&pair| u64::from(u16::from_be_bytes(pair))).sum();
    u64::from(u16::from_be(native)) + last + odd.first().map_or(0, |&last| u64::from(last) << 8)
}
