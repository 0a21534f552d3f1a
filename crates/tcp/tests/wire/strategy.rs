//! Strategies for any segment that is valid in TCP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use timeous_tcp::{Addresses, Flags, Header, Options, SackBlock, SackBlocks, Seq, Timestamps};

pub(crate) fn any_seq() -> impl Strategy<Value = Seq> {
    any::<u32>().prop_map(Seq::new)
}

pub(crate) fn any_addresses() -> impl Strategy<Value = Addresses> {
    let v4 = any::<(u32, u32)>().prop_map(|(a, b)| (IpAddr::from(Ipv4Addr::from(a)), IpAddr::from(Ipv4Addr::from(b))));
    let v6 =
        any::<(u128, u128)>().prop_map(|(a, b)| (IpAddr::from(Ipv6Addr::from(a)), IpAddr::from(Ipv6Addr::from(b))));
    prop_oneof![v4, v6].prop_map(|(source, destination)| Addresses { source, destination })
}

/// A header and options that are valid in it.
pub(crate) fn any_header() -> impl Strategy<Value = (Header, Options)> {
    let fields = (any::<(u16, u16)>(), any_seq(), of(any_seq()), any::<u8>(), any::<u16>(), of(any::<u16>()));
    let header = fields.prop_map(|(ports, seq, ack, bits, window, urgent)| Header {
        ack,
        flags: Flags::from_bits(bits),
        window,
        urgent,
        ..Header::new(ports.0, ports.1, seq)
    });
    let timestamps = of(any::<(u32, u32)>().prop_map(|(value, echo)| Timestamps { value, echo }));
    let blocks = vec((any_seq(), any_seq()), 0..=SackBlocks::MAX);
    let options = (of(1u16..), of(0u8..=14), any::<bool>(), timestamps, blocks);
    (header, options).prop_map(|(header, (mss, window_scale, sack_permitted, timestamps, blocks))| {
        let syn = header.flags.contains(Flags::SYN);
        let mut options = Options {
            mss: mss.filter(|_| syn),
            window_scale: window_scale.filter(|_| syn),
            sack_permitted: sack_permitted && syn,
            timestamps,
            sack: SackBlocks::default(),
        };
        let room = options.room_for_sack();
        options.sack = blocks.into_iter().take(room).map(|(left, right)| SackBlock { left, right }).collect();
        (header, options)
    })
}
