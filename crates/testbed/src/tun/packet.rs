//! IPv4 headers of TCP segments: parsing and writing.

use std::net::{IpAddr, Ipv4Addr};

use etherparse::{IpNumber, Ipv4Header, Ipv4HeaderSlice};
use timeous_core::Ecn;
use timeous_tcp::Outgoing;

/// Hop limit of our packets: the recommended default TTL (RFC 1700).
const HOP_LIMIT: u8 = 64;

/// A received TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival<'a> {
    pub(super) source: Ipv4Addr,
    pub(super) destination: Ipv4Addr,
    pub(super) ecn: Ecn,
    pub(super) segment: &'a [u8],
}

impl<'a> Arrival<'a> {
    /// Parses a packet; `None` for anything else, including fragments: our segments fit, and the kernel learns the MTU
    /// for its own.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let header = Ipv4HeaderSlice::from_slice(bytes).ok()?;
        if header.protocol() != IpNumber::TCP || header.is_fragmenting_payload() {
            return None;
        }
        let segment = bytes.get(header.slice().len()..usize::from(header.total_len()))?;
        let ecn = match header.ecn().value() {
            0b00 => Ecn::NotEct,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::Ce,
        };
        Some(Self { source: header.source_addr(), destination: header.destination_addr(), ecn, segment })
    }
}

/// Writer of IPv4 headers.
#[derive(Debug, Default)]
pub(super) struct Writer {
    ident: u16,
    packet: Vec<u8>,
}

impl Writer {
    /// Returns the packet of a segment; `None` if it is not for IPv4, or too long.
    pub(super) fn packet(&mut self, outgoing: &Outgoing, segment: &[u8]) -> Option<&[u8]> {
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (outgoing.from.ip(), outgoing.to.ip()) else {
            return None;
        };
        let len = u16::try_from(segment.len()).ok()?;
        let mut header = Ipv4Header::new(len, HOP_LIMIT, IpNumber::TCP, source.octets(), destination.octets()).ok()?;
        header.identification = self.ident;
        header.ecn = (outgoing.transmit.ecn as u8).try_into().ok()?;
        header.header_checksum = header.calc_header_checksum();
        self.ident = self.ident.wrapping_add(1);
        self.packet.clear();
        self.packet.extend_from_slice(&header.to_bytes());
        self.packet.extend_from_slice(segment);
        Some(&self.packet)
    }
}

#[cfg(test)]
mod tests {
    use timeous_core::Transmit;

    use super::*;

    fn outgoing(from: &str, to: &str, ecn: Ecn) -> Outgoing {
        let transmit = Transmit { ecn, adu: None };
        Outgoing { from: from.parse().unwrap(), to: to.parse().unwrap(), connection: None, transmit }
    }

    #[test]
    fn what_is_written_is_read_back_with_its_mark() {
        let mut writer = Writer::default();
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            let packet = writer.packet(&outgoing("10.78.0.2:1", "10.77.0.2:2", ecn), b"segment").unwrap();
            let (header, _) = Ipv4Header::from_slice(packet).unwrap();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            assert!(header.dont_fragment);
            let (source, destination) = (Ipv4Addr::new(10, 78, 0, 2), Ipv4Addr::new(10, 77, 0, 2));
            assert_eq!(Arrival::parse(packet), Some(Arrival { source, destination, ecn, segment: b"segment" }));
        }
    }

    #[test]
    fn what_is_not_a_whole_segment_is_none() {
        let mut writer = Writer::default();
        let whole = writer.packet(&outgoing("10.78.0.2:1", "10.77.0.2:2", Ecn::NotEct), b"segment").unwrap().to_vec();
        for len in 0..whole.len() {
            assert_eq!(Arrival::parse(&whole[..len]), None, "cut to {len}");
        }
        let changed = |place: usize, byte: u8| {
            let mut packet = whole.clone();
            packet[place] = byte;
            packet
        };
        assert_eq!(Arrival::parse(&changed(0, 0x65)), None, "another version");
        assert_eq!(Arrival::parse(&changed(9, 17)), None, "another protocol");
        assert_eq!(Arrival::parse(&changed(6, 0x20)), None, "a fragment");
        let padded = [&whole[..], &[0; 6]].concat();
        assert_eq!(Arrival::parse(&padded).unwrap().segment, b"segment", "what follows is not the segment's");
        assert_eq!(writer.packet(&outgoing("[::1]:1", "10.77.0.2:2", Ecn::NotEct), b"").map(<[u8]>::len), None);
    }
}
