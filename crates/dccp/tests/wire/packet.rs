//! Property tests of the packet codec.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;
use timeous_dccp::{Body, Encapsulation, Header, Opt, Packet, PacketType, ResetCode, Seq, ServiceCode, packet};

use crate::options::{any_option, any_type};

fn any_seq() -> impl Strategy<Value = Seq> {
    any::<u64>().prop_map(Seq::new)
}

fn any_body() -> impl Strategy<Value = Body> {
    (any_type(), any_seq(), any::<u32>(), any::<u8>(), any::<[u8; 3]>()).prop_map(|(kind, ack, service, code, data)| {
        let service = ServiceCode::new(service);
        match kind {
            PacketType::Request => Body::Request { service },
            PacketType::Response => Body::Response { ack, service },
            PacketType::Data => Body::Data,
            PacketType::Ack => Body::Ack { ack },
            PacketType::DataAck => Body::DataAck { ack },
            PacketType::CloseReq => Body::CloseReq { ack },
            PacketType::Close => Body::Close { ack },
            PacketType::Reset => Body::Reset { ack, code: ResetCode::from(code), data },
            PacketType::Sync => Body::Sync { ack },
            PacketType::SyncAck => Body::SyncAck { ack },
        }
    })
}

fn any_header() -> impl Strategy<Value = Header> {
    (any::<(u16, u16)>(), 0..16u8, any_seq(), any::<bool>(), any_body()).prop_map(
        |(ports, ccval, seq, extended, body)| {
            let extended = extended || !body.packet_type().may_be_short();
            Header { ccval, extended, ..Header::new(ports.0, ports.1, seq, body) }
        },
    )
}

fn any_encapsulation() -> impl Strategy<Value = Encapsulation> {
    let v4 = any::<(u32, u32)>().prop_map(|(a, b)| (IpAddr::from(Ipv4Addr::from(a)), IpAddr::from(Ipv4Addr::from(b))));
    let v6 =
        any::<(u128, u128)>().prop_map(|(a, b)| (IpAddr::from(Ipv6Addr::from(a)), IpAddr::from(Ipv6Addr::from(b))));
    let native = |(source, destination)| Encapsulation::Native { source, destination };
    prop_oneof![Just(Encapsulation::Udp), v4.prop_map(native), v6.prop_map(native)]
}

/// The header as its receiver gets it: short numbers have lost their high half.
fn narrowed(header: &Header) -> Header {
    if header.extended {
        return *header;
    }
    let short = |seq: Seq| Seq::new(u64::from(seq.short()));
    let body = match header.body {
        Body::Ack { ack } => Body::Ack { ack: short(ack) },
        Body::DataAck { ack } => Body::DataAck { ack: short(ack) },
        other => other,
    };
    Header { seq: short(header.seq), body, ..*header }
}

proptest! {
    /// Every packet is read back as it was written, and again to the same bytes.
    #[test]
    fn packets_are_read_back(
        header in any_header(),
        options in vec(any_option(), 0..4),
        payload in vec(any::<u8>(), 0..100),
        coverage in 0..16u8,
        encapsulation in any_encapsulation(),
    ) {
        let kind = header.packet_type();
        let header = Header { cscov: coverage.min(payload.len() as u8 / 4 + 1), ..header };
        let options: Vec<Opt<'_>> = options.iter().map(|o| o.opt()).filter(|o| o.is_permitted_on(kind)).collect();
        let mut datagram = Vec::new();
        let start = packet::begin(&header, &options, &mut datagram).unwrap();
        datagram.extend_from_slice(&payload);
        packet::finish(&mut datagram, start, encapsulation).unwrap();

        let parsed = Packet::parse(&datagram, encapsulation).unwrap();
        prop_assert_eq!(parsed.header, narrowed(&header));
        prop_assert_eq!(parsed.payload, payload.as_slice());
        let read: Vec<Opt<'_>> = parsed.options().map(|item| item.unwrap().opt).collect();
        prop_assert_eq!(read, options);

        let mut again = Vec::new();
        packet::begin_encoded(&parsed.header, parsed.options, &mut again).unwrap();
        again.extend_from_slice(parsed.payload);
        packet::finish(&mut again, 0, encapsulation).unwrap();
        prop_assert_eq!(&again, &datagram);
    }

    /// Whatever the bytes, nothing panics, and what is accepted is inside the datagram.
    #[test]
    fn any_bytes_can_be_parsed(
        mut bytes in vec(any::<u8>(), 0..80),
        words in 0..24u8,
        packet_type in 0..32u8,
        encapsulation in any_encapsulation(),
    ) {
        if let [_, _, _, _, offset, _, _, _, kind, ..] = bytes.as_mut_slice() {
            (*offset, *kind) = (words, packet_type);
        }
        if let Ok(packet) = Packet::parse(&bytes, encapsulation) {
            prop_assert_eq!(packet.header.len() + packet.options.len() + packet.payload.len(), bytes.len());
            prop_assert_eq!(packet.options().take(1_000).count() < 1_000, true);
        }
    }

    /// A single flipped bit in a fully covered native packet never goes unnoticed.
    #[test]
    fn every_flipped_bit_is_noticed(header in any_header(), payload in vec(any::<u8>(), 0..20), at in any::<prop::sample::Index>(), bit in 0..8) {
        let encapsulation = Encapsulation::Native {
            source: Ipv4Addr::LOCALHOST.into(),
            destination: Ipv4Addr::new(10, 0, 0, 1).into(),
        };
        let mut datagram = Vec::new();
        packet::begin(&header, &[], &mut datagram).unwrap();
        datagram.extend_from_slice(&payload);
        packet::finish(&mut datagram, 0, encapsulation).unwrap();
        let at = at.index(datagram.len());
        // A flipped CsCov changes what the sum covers, so that the data left out may make up for it.
        prop_assume!(!(at == 5 && bit < 4));
        datagram[at] ^= 1u8 << bit;
        prop_assert!(Packet::parse(&datagram, encapsulation).is_err(), "byte {}", at);
    }
}
