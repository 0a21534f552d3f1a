//! DCCP packet from arbitrary bytes: an accepted packet is written back with the same bytes, except reserved bits.
#![no_main]

use std::net::{Ipv4Addr, Ipv6Addr};

use libfuzzer_sys::fuzz_target;
use timeous_dccp::{Encapsulation, Packet, packet};

fuzz_target!(|data: &[u8]| {
    let Some((&choice, data)) = data.split_first() else { return };
    let mut datagram = data.to_vec();
    let encapsulation = match choice % 4 {
        0 => Encapsulation::Udp,
        1 => v4(),
        2 => Encapsulation::Native { source: Ipv6Addr::LOCALHOST.into(), destination: Ipv6Addr::UNSPECIFIED.into() },
        _ => {
            // Keep the checksum as it is, nearly always wrong.
            let _ = Packet::parse(&datagram, v4());
            return;
        }
    };
    // Correct the checksum, so that later checks are reached.
    if packet::finish(&mut datagram, 0, encapsulation).is_err() {
        assert!(Packet::parse(&datagram, encapsulation).is_err());
        return;
    }
    let Ok(parsed) = Packet::parse(&datagram, encapsulation) else { return };

    let mut again = Vec::new();
    packet::begin_encoded(&parsed.header, parsed.options, &mut again).unwrap();
    again.extend_from_slice(parsed.payload);
    packet::finish(&mut again, 0, encapsulation).unwrap();
    assert_eq!(Packet::parse(&again, encapsulation), Ok(parsed));

    // Reserved bits are dropped, which changes the checksum; all other bytes must be equal.
    let mut expected = datagram.clone();
    expected[8] &= 0x1f;
    if parsed.header.extended {
        expected[9] = 0;
    }
    if parsed.header.ack().is_some() {
        let reserved = if parsed.header.extended { 16..18 } else { 12..13 };
        expected[reserved].fill(0);
    }
    packet::finish(&mut expected, 0, encapsulation).unwrap();
    assert_eq!(expected, again);
    assert!(parsed.options().count() <= parsed.options.len());
});

fn v4() -> Encapsulation {
    Encapsulation::Native { source: Ipv4Addr::LOCALHOST.into(), destination: Ipv4Addr::BROADCAST.into() }
}
