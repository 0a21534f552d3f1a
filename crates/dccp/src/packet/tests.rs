//! Tests of the packet codec: hand-made packets, and each reason to ignore a packet.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;
use crate::options::{ListFull, Opt, OptionList, Ticks};
use crate::reset::ResetCode;
use crate::seq::Seq;
use crate::service::ServiceCode;

const UDP: Encapsulation = Encapsulation::Udp;

fn native() -> Encapsulation {
    Encapsulation::Native {
        source: Ipv4Addr::new(192, 0, 2, 1).into(),
        destination: Ipv4Addr::new(192, 0, 2, 9).into(),
    }
}

fn native6() -> Encapsulation {
    let address = |last| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last).into();
    Encapsulation::Native { source: address(1), destination: address(2) }
}

#[track_caller]
fn packet(header: &Header, options: &[Opt<'_>], payload: &[u8], encapsulation: Encapsulation) -> Vec<u8> {
    let mut out = vec![0xee; 3];
    let start = begin(header, options, &mut out).unwrap();
    out.extend_from_slice(payload);
    finish(&mut out, start, encapsulation).unwrap();
    out.split_off(start)
}

fn seq(n: u64) -> Seq {
    Seq::new(n)
}

fn bodies() -> [Body; 10] {
    let ack = seq(0x0a0b_0c0d_0e0f);
    let service = ServiceCode::from_bytes(*b"fdpz");
    [
        Body::Request { service },
        Body::Response { ack, service },
        Body::Data,
        Body::Ack { ack },
        Body::DataAck { ack },
        Body::CloseReq { ack },
        Body::Close { ack },
        Body::Reset { ack, code: ResetCode::OptionError, data: [32, 1, 2] },
        Body::Sync { ack },
        Body::SyncAck { ack },
    ]
}

/// The figures of RFC 4340 §5.1 to §5.7.
#[test]
fn every_type_has_its_layout() {
    let acked: &[u8] = &[0, 0, 10, 11, 12, 13, 14, 15];
    let service: &[u8] = b"fdpz";
    let own: [&[&[u8]]; 10] = [
        &[service],
        &[acked, service],
        &[],
        &[acked],
        &[acked],
        &[acked],
        &[acked],
        &[acked, &[5, 32, 1, 2]],
        &[acked],
        &[acked],
    ];
    for ((number, body), own) in bodies().into_iter().enumerate().zip(own) {
        let own = own.concat();
        let header = Header { ccval: 3, ..Header::new(0x1112, 0x2122, seq(0x0102_0304_0506), body) };
        let words = (16 + own.len()) as u8 / 4;
        let generic = [0x11, 0x12, 0x21, 0x22, words, 0x30, 0, 0, (number as u8) << 1 | 1, 0, 1, 2, 3, 4, 5, 6];
        let expected = [&generic[..], &own, b"data"].concat();
        assert_eq!(packet(&header, &[], b"data", UDP), expected, "{body:?}");
        let parsed = Packet::parse(&expected, UDP).unwrap();
        assert_eq!(parsed, Packet { header, options: &[], payload: b"data" });
        assert_eq!(header.len(), 16 + own.len());
    }
}

#[test]
fn short_numbers_carry_the_low_24_bits() {
    let body = Body::DataAck { ack: seq(0x0a0b_0c0d_0e0f) };
    let header = Header { extended: false, ..Header::new(1, 2, seq(0x0102_03fd_fe00), body) };
    let bytes = packet(&header, &[], b"x", UDP);
    assert_eq!(bytes, [0, 1, 0, 2, 4, 0, 0, 0, 4 << 1, 0xfd, 0xfe, 0x00, 0, 0x0d, 0x0e, 0x0f, b'x']);

    let parsed = Packet::parse(&bytes, UDP).unwrap().header;
    assert_eq!(parsed.seq, seq(0xfd_fe00));
    assert_eq!(parsed.ack(), Some(seq(0x0d_0e0f)));
    // Both references are a little past a wrap of the low 24 bits that the numbers are a little before, and reverse.
    let wide = parsed.widened(seq(0x0102_0400_0000), seq(0x0a0b_0c0d_0000));
    assert_eq!(wide, header);
    let long = Header { extended: true, ..header };
    assert_eq!(long.widened(seq(5), seq(6)), long, "long numbers are taken as they are");
}

#[test]
fn only_data_ack_and_dataack_may_be_short() {
    for body in bodies() {
        let header = Header { extended: false, ..Header::new(1, 2, seq(9), body) };
        let mut out = vec![1];
        let result = begin(&header, &[], &mut out);
        let packet_type = body.packet_type();
        if matches!(packet_type, PacketType::Data | PacketType::Ack | PacketType::DataAck) {
            assert_eq!(result, Ok(1));
            continue;
        }
        assert_eq!(result, Err(EmitError::ShortNumbers(packet_type)));
        assert_eq!(out, [1], "nothing is left behind");
        let mut bytes = packet(&Header::new(1, 2, seq(9), body), &[], &[], UDP);
        bytes[8] &= !1;
        assert_eq!(Packet::parse(&bytes, UDP), Err(WireError::ShortNumbers(packet_type)));
    }
}

#[test]
fn options_are_padded_to_a_word() {
    let header = Header::new(1, 2, seq(3), Body::Data);
    for count in 0..9 {
        let options = vec![Opt::SlowReceiver; count];
        let bytes = packet(&header, &options, b"!", UDP);
        let parsed = Packet::parse(&bytes, UDP).unwrap();
        assert_eq!(parsed.options.len(), count.next_multiple_of(4));
        assert_eq!(parsed.options().filter(|item| item.unwrap().opt == Opt::SlowReceiver).count(), count);
        assert_eq!(parsed.payload, b"!");
    }
}

#[test]
fn what_dccp_cannot_carry_is_refused() {
    let header = Header::new(1, 2, seq(3), Body::Data);
    let mut out = Vec::new();
    let mut refused = |header: &Header, options: &[Opt<'_>]| {
        let error = begin(header, options, &mut out).unwrap_err();
        assert!(out.is_empty());
        error
    };
    let forbidden = EmitError::Forbidden { kind: 32, packet: PacketType::Data };
    let change = Opt::Change { side: crate::options::Side::L, feature: 1, values: &[2] };
    assert_eq!(refused(&header, &[change]), forbidden);
    assert_eq!(refused(&Header { ccval: 16, ..header }, &[]), EmitError::FourBits { ccval: 16, cscov: 0 });
    assert_eq!(refused(&Header { cscov: 16, ..header }, &[]), EmitError::FourBits { ccval: 0, cscov: 16 });
    let long = Opt::CcidSpecific { kind: 128, data: &[0; 253] };
    assert!(matches!(refused(&header, &[long; 4]), EmitError::Options(_)));
    assert!(matches!(refused(&header, &[Opt::CcidSpecific { kind: 128, data: &[0; 254] }]), EmitError::Options(_)));

    // 1008 bytes of options fit behind the shortest header only.
    let full = [2; OptionList::MAX_BYTES];
    let too_full = EmitError::Options(ListFull { needed: 1008, room: 1004 });
    assert_eq!(begin_encoded(&header, &full, &mut out), Err(too_full));
    assert!(out.is_empty());
    let start = begin_encoded(&Header { extended: false, ..header }, &full, &mut out).unwrap();
    finish(&mut out, start, UDP).unwrap();
    assert_eq!(out[4], 255);
    assert_eq!(Packet::parse(&out, UDP).unwrap().options, full);
}

#[test]
fn finish_needs_a_packet() {
    let mut out = vec![0; 40];
    assert_eq!(finish(&mut out, 41, UDP), Err(EmitError::NotBegun { start: 41 }));
    assert_eq!(finish(&mut out, 38, UDP), Err(EmitError::NotBegun { start: 38 }));
    assert_eq!(finish(&mut out, 0, UDP), Err(EmitError::NotBegun { start: 0 }));
    out[4] = 11;
    assert_eq!(finish(&mut out, 0, UDP), Err(EmitError::NotBegun { start: 0 }));
}

#[test]
fn malformed_packets_are_ignored() {
    let header = Header::new(1, 2, seq(3), Body::Ack { ack: seq(4) });
    let good = packet(&header, &[], &[], UDP);
    let parse = |change: fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        Packet::parse(&bytes, UDP).map(|_| ()).unwrap_err()
    };
    assert_eq!(parse(|b| b.clear()), WireError::TooShort { length: 0 });
    assert_eq!(parse(|b| b.truncate(11)), WireError::TooShort { length: 11 });
    assert_eq!(parse(|b| b[8] = 10 << 1 | 1), WireError::UnknownType(10));
    assert_eq!(parse(|b| b[8] = 15 << 1), WireError::UnknownType(15));
    assert_eq!(parse(|b| b[4] = 5), WireError::OffsetTooSmall { offset: 20, header: 24 });
    assert_eq!(parse(|b| b[4] = 7), WireError::OffsetPastEnd { offset: 28, length: 24 });
    assert_eq!(parse(|b| b.truncate(23)), WireError::OffsetPastEnd { offset: 24, length: 23 });
    assert_eq!(parse(|b| b[5] = 2), WireError::CoveragePastEnd { cscov: 2, data: 0 });
}

/// "receivers MUST ignore its value" (RFC 4340 §5.1), three times.
#[test]
fn reserved_bits_are_ignored() {
    let header = Header::new(1, 2, seq(3), Body::Ack { ack: seq(4) });
    let mut bytes = packet(&header, &[], &[], UDP);
    bytes[8] |= 0xe0;
    bytes[9] = 0xff;
    bytes[16] = 0xff;
    bytes[17] = 0xff;
    assert_eq!(Packet::parse(&bytes, UDP).unwrap().header, header);
}

/// The sum as RFC 1071 defines it, over a pseudo-header that is laid out byte by byte (RFC 4340 §9.1).
fn reference_sum(parts: &[&[u8]]) -> u16 {
    let mut bytes = parts.concat();
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    bytes.chunks(2).fold(0u16, |sum, pair| {
        let (sum, carry) = sum.overflowing_add(u16::from_be_bytes([pair[0], pair[1]]));
        sum + u16::from(carry)
    })
}

#[test]
fn the_checksum_covers_what_the_rfc_says() {
    let pseudo4 = |length: u8| [192, 0, 2, 1, 192, 0, 2, 9, 0, 33, 0, length].to_vec();
    let pseudo6 = |length: u8| {
        let prefix = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        [&prefix[..], &[1], &prefix, &[2], &[0, 0, 0, length, 0, 0, 0, 33]].concat()
    };
    let payload = b"thirteen byte";
    for (cscov, data) in [(0, 13), (1, 0), (2, 4), (4, 12)] {
        let header = Header { cscov, ..Header::new(5001, 5002, seq(77), Body::DataAck { ack: seq(1 << 47) }) };
        let options = [Opt::Timestamp(Ticks::new(0xfedc_ba98))];
        for (encapsulation, pseudo) in [(native(), pseudo4(45)), (native6(), pseudo6(45))] {
            let bytes = packet(&header, &options, payload, encapsulation);
            assert_eq!(bytes.len(), 45);
            assert_eq!(reference_sum(&[&pseudo, &bytes[..32 + data]]), 0xffff, "{cscov} {encapsulation:?}");
            assert_eq!(Packet::parse(&bytes, encapsulation).unwrap().header, header);
        }
    }
}

/// IPv6's pseudo-header has 32 bits for the length (RFC 4340 §9.1).
#[test]
fn a_jumbogram_has_a_checksum_too() {
    let header = Header { cscov: 1, ..Header::new(5001, 5002, seq(77), Body::Data) };
    let bytes = packet(&header, &[], &[0; 0x2_0000], native6());
    let addresses = [
        [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
    ];
    let pseudo = [&addresses.concat()[..], &[0, 2, 0, 16, 0, 0, 0, 33]].concat();
    assert_eq!(reference_sum(&[&pseudo, &bytes[..16]]), 0xffff);
}

#[test]
fn a_packet_can_be_finished_again() {
    let mut bytes = packet(&Header::new(1, 2, seq(3), Body::Data), &[], b"late", native());
    let first = bytes.clone();
    finish(&mut bytes, 0, native()).unwrap();
    assert_eq!(bytes, first);
    finish(&mut bytes, 0, UDP).unwrap();
    assert_eq!(bytes[6..8], [0, 0]);
}

#[test]
fn a_damaged_byte_is_noticed_where_it_is_covered() {
    let header = Header { cscov: 2, ..Header::new(5001, 5002, seq(77), Body::Data) };
    let good = packet(&header, &[], b"covered or not", native());
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        let is_ignored = Packet::parse(&bytes, native()).is_err();
        assert_eq!(is_ignored, at < 16 + 4, "byte {at}");
    }
    assert_eq!(Packet::parse(&good, native6()), Err(WireError::Checksum), "other addresses");
    assert!(Packet::parse(&good, UDP).is_ok(), "in UDP the field is ignored (RFC 6773 §3.3)");
}

#[test]
fn coverage_past_the_data_is_refused_by_the_sender() {
    let header = Header { cscov: 3, ..Header::new(1, 2, seq(3), Body::Data) };
    let mut out = Vec::new();
    let start = begin(&header, &[], &mut out).unwrap();
    out.extend_from_slice(b"1234567");
    assert_eq!(finish(&mut out, start, UDP), Err(EmitError::CoveragePastEnd { cscov: 3, data: 7 }));
    out.push(b'8');
    assert_eq!(finish(&mut out, start, UDP), Ok(()));
}

#[test]
fn types_have_numbers_and_names() {
    for (number, packet_type) in PacketType::ALL.into_iter().enumerate() {
        assert_eq!(usize::from(packet_type.number()), number);
        assert_eq!(PacketType::from_number(number as u8), Some(packet_type));
    }
    assert_eq!(PacketType::from_number(10), None);
    assert_eq!(PacketType::DataAck.to_string(), "DCCP-DataAck");
}
