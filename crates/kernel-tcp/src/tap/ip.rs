//! IP around TCP segments, as a tap sees it.

use std::net::IpAddr;

use etherparse::{IpNumber, Ipv4HeaderSlice, Ipv6HeaderSlice};
use timeous_tcp::Addresses;

/// Returns the TCP segment in an IP packet, as far as it was captured; `None` for anything else, including fragments.
pub(super) fn segment(packet: &[u8]) -> Option<(Addresses, &[u8])> {
    match packet.first()? >> 4 {
        4 => {
            let header = Ipv4HeaderSlice::from_slice(packet).ok()?;
            if header.protocol() != IpNumber::TCP || header.is_fragmenting_payload() {
                return None;
            }
            let (source, destination) = (IpAddr::V4(header.source_addr()), IpAddr::V4(header.destination_addr()));
            let end = packet.len().min(header.total_len().into());
            Some((Addresses { source, destination }, packet.get(header.slice().len()..end)?))
        }
        6 => {
            let header = Ipv6HeaderSlice::from_slice(packet).ok()?;
            // IPv6 extension headers are rare, and then a segment is only not seen.
            if header.next_header() != IpNumber::TCP {
                return None;
            }
            let (source, destination) = (IpAddr::V6(header.source_addr()), IpAddr::V6(header.destination_addr()));
            let begin = header.slice().len();
            let end = packet.len().min(begin + usize::from(header.payload_length()));
            Some((Addresses { source, destination }, packet.get(begin..end)?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{Ipv4Header, Ipv6Header};

    use super::*;

    #[test]
    fn what_lies_behind_the_header_is_the_segment_and_what_the_device_added_is_none_of_it() {
        let four = Ipv4Header::new(5, 64, IpNumber::TCP, [10, 0, 0, 1], [10, 0, 0, 2]).unwrap();
        let packet = [&four.to_bytes()[..], b"12345padding"].concat();
        let (addresses, bytes) = segment(&packet).unwrap();
        assert_eq!((addresses.source.to_string().as_str(), bytes), ("10.0.0.1", &b"12345"[..]));
        assert_eq!(segment(&packet[..23]).unwrap().1, b"123", "it was cut off");
        assert_eq!(segment(&packet[..19]), None);

        let header = |next_header| Ipv6Header { next_header, payload_length: 5, source: [1; 16], ..Default::default() };
        let packet = [&header(IpNumber::TCP).to_bytes()[..], b"12345padding"].concat();
        assert_eq!(segment(&packet).unwrap().1, b"12345");
        assert_eq!(segment(&header(IpNumber::UDP).to_bytes()), None);
        let fragment = Ipv4Header { more_fragments: true, ..four };
        assert_eq!(segment(&[&fragment.to_bytes()[..], b"12345"].concat()), None);
        assert_eq!(segment(&[]), None);
    }
}
