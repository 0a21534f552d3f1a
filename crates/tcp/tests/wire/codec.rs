//! Properties of the segment codec, compared with another TCP library.

use std::net::IpAddr;

use etherparse::{TcpHeaderSlice, TcpOptionElement};
use proptest::collection::vec;
use proptest::prelude::*;
use timeous_tcp::{Addresses, Flags, Header, Options, Segment, WireError, segment};

use crate::strategy::{any_addresses, any_header};

pub(crate) fn emit(header: &Header, options: &Options, payload: &[u8], addresses: Addresses) -> Vec<u8> {
    let mut bytes = Vec::new();
    let start = segment::begin(header, options, &mut bytes).unwrap();
    bytes.extend_from_slice(payload);
    segment::finish(&mut bytes, start, addresses).unwrap();
    bytes
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        (header, options) in any_header(),
        addresses in any_addresses(),
        payload in vec(any::<u8>(), 0..100),
    ) {
        let bytes = emit(&header, &options, &payload, addresses);
        prop_assert_eq!(bytes.len(), 20 + options.len() + payload.len());
        let read = Segment::parse(&bytes, addresses).unwrap();
        prop_assert_eq!(read, Segment { header, options, payload: &payload });
    }

    #[test]
    fn a_segment_may_stand_anywhere_in_the_buffer(
        (header, options) in any_header(),
        addresses in any_addresses(),
        before in vec(any::<u8>(), 0..40),
    ) {
        let mut bytes = before.clone();
        let start = segment::begin(&header, &options, &mut bytes).unwrap();
        segment::finish(&mut bytes, start, addresses).unwrap();
        prop_assert_eq!(&bytes[..start], &before);
        prop_assert_eq!(&bytes[start..], emit(&header, &options, &[], addresses));
    }

    #[test]
    fn another_library_reads_the_same(
        (header, options) in any_header(),
        addresses in any_addresses(),
        payload in vec(any::<u8>(), 0..100),
    ) {
        let bytes = emit(&header, &options, &payload, addresses);
        let other = TcpHeaderSlice::from_slice(&bytes).unwrap();
        prop_assert_eq!((other.source_port(), other.destination_port()), (header.source_port, header.dest_port));
        prop_assert_eq!(other.sequence_number(), header.seq.value());
        prop_assert_eq!(other.ack().then(|| other.acknowledgment_number()), header.ack.map(|ack| ack.value()));
        prop_assert_eq!(other.urg().then(|| other.urgent_pointer()), header.urgent);
        prop_assert_eq!(other.window_size(), header.window);
        let flags = Flags::when(other.fin(), Flags::FIN)
            | Flags::when(other.syn(), Flags::SYN)
            | Flags::when(other.rst(), Flags::RST)
            | Flags::when(other.psh(), Flags::PSH)
            | Flags::when(other.ece(), Flags::ECE)
            | Flags::when(other.cwr(), Flags::CWR);
        prop_assert_eq!(flags, header.flags);
        let checksum = match (addresses.source, addresses.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                other.calc_checksum_ipv4_raw(source.octets(), destination.octets(), &payload)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                other.calc_checksum_ipv6_raw(source.octets(), destination.octets(), &payload)
            }
            _ => unreachable!("both are of one family"),
        };
        prop_assert_eq!(checksum.unwrap(), other.checksum());
        let mut expected = Vec::new();
        let sack: Vec<_> = options.sack.iter().map(|block| (block.left.value(), block.right.value())).collect();
        expected.extend(options.mss.map(TcpOptionElement::MaximumSegmentSize));
        expected.extend(options.sack_permitted.then_some(TcpOptionElement::SelectiveAcknowledgementPermitted));
        expected.extend(options.timestamps.map(|ts| TcpOptionElement::Timestamp(ts.value, ts.echo)));
        expected.extend(options.window_scale.map(TcpOptionElement::WindowScale));
        if let Some((&first, others)) = sack.split_first() {
            let mut rest = [None; 3];
            rest.iter_mut().zip(others).for_each(|(slot, &block)| *slot = Some(block));
            expected.push(TcpOptionElement::SelectiveAcknowledgement(first, rest));
        }
        let read: Result<Vec<_>, _> =
            other.options_iterator().filter(|option| *option != Ok(TcpOptionElement::Noop)).collect();
        prop_assert_eq!(read.unwrap(), expected);
    }

    #[test]
    fn a_flipped_bit_is_seen(
        (header, options) in any_header(),
        addresses in any_addresses(),
        payload in vec(any::<u8>(), 0..100),
        bit in any::<prop::sample::Index>(),
    ) {
        let mut bytes = emit(&header, &options, &payload, addresses);
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        match Segment::parse(&bytes, addresses).unwrap_err() {
            WireError::Checksum => {}
            WireError::OffsetTooSmall { .. } | WireError::OffsetPastEnd { .. } => prop_assert_eq!(bit / 8, 12),
            error => prop_assert!(false, "{}", error),
        }
    }

    /// Parsed segments are written so that they are parsed to the same values.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..90)) {
        let Ok(read) = Segment::parse_trusted(&bytes) else { return Ok(()) };
        let addresses = Addresses { source: IpAddr::from([127, 0, 0, 1]), destination: IpAddr::from([127, 0, 0, 2]) };
        let mut again = Vec::new();
        // Four SACK blocks beside a timestamp fit only into a crafted header.
        if segment::begin(&read.header, &read.options, &mut again).is_ok() {
            again.extend_from_slice(read.payload);
            segment::finish(&mut again, 0, addresses).unwrap();
            prop_assert_eq!(Segment::parse(&again, addresses).unwrap(), read);
        }
    }
}
