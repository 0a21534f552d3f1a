//! An IPv4 packet with access to its ECN field.

use std::ops::Deref;
use std::sync::Arc;

use etherparse::Ipv4Header;
use timeous_core::Ecn;

use crate::link::Markable;

/// Byte of the header with the ECN field in its two lowest bits (RFC 3168 §5).
const TRAFFIC_CLASS: usize = 1;
const CHECKSUM: std::ops::Range<usize> = 10..12;

/// The bytes of an IPv4 packet, shared with a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ipv4Packet(Arc<[u8]>);

impl Ipv4Packet {
    /// Wraps an IPv4 packet; `None` if the bytes are something else.
    pub(super) fn new(bytes: &[u8]) -> Option<Self> {
        let is_ipv4 = bytes.len() >= Ipv4Header::MIN_LEN && bytes[0] >> 4 == 4;
        is_ipv4.then(|| Self(bytes.into()))
    }
}

impl Deref for Ipv4Packet {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Markable for Ipv4Packet {
    fn ecn(&self) -> Ecn {
        match self.0[TRAFFIC_CLASS] & 0b11 {
            0b00 => Ecn::NotEct,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    fn mark(&mut self) {
        let bytes = Arc::make_mut(&mut self.0);
        let word = |bytes: &[u8]| u16::from_be_bytes([bytes[0], bytes[1]]);
        let old = word(bytes);
        bytes[TRAFFIC_CLASS] |= Ecn::Ce as u8;
        let checksum = updated(word(&bytes[CHECKSUM]), old, word(bytes));
        bytes[CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Updates a checksum after one covered word has changed (RFC 1624, equation 3).
fn updated(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use etherparse::IpNumber;

    use super::*;

    #[test]
    fn a_mark_leaves_the_checksum_right_and_other_sharers_alone() {
        for ident in 0..=u16::MAX {
            let ecn: u8 = if ident % 2 == 0 { 0b10 } else { 0b01 };
            let mut header = Ipv4Header::new(0, 64, IpNumber::TCP, [10, 77, 0, 1], [10, 77, 0, 2]).unwrap();
            (header.identification, header.ecn) = (ident, ecn.try_into().unwrap());
            header.header_checksum = header.calc_header_checksum();
            let original = Ipv4Packet::new(&header.to_bytes()).unwrap();
            let mut marked = original.clone();
            marked.mark();
            assert_eq!((original.ecn() as u8, marked.ecn()), (ecn, Ecn::Ce));
            let (read, _) = Ipv4Header::from_slice(&marked).unwrap();
            assert_eq!(read.header_checksum, read.calc_header_checksum(), "of {ident}");
        }
    }

    #[test]
    fn what_is_no_ipv4_packet_is_none() {
        assert_eq!(Ipv4Packet::new(&[]), None);
        assert_eq!(Ipv4Packet::new(&[0x45; 19]), None);
        assert_eq!(Ipv4Packet::new(&[0x60; 40]), None);
    }
}
