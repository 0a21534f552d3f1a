//! Segments written and parsed, and invalid ones.

use super::*;
use crate::seq::Seq;

const ADDRESSES: Addresses = Addresses {
    source: std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)),
    destination: std::net::IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 7)),
};

fn emitted(header: &Header, options: &Options, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let start = begin(header, options, &mut bytes).unwrap();
    bytes.extend_from_slice(payload);
    finish(&mut bytes, start, ADDRESSES).unwrap();
    bytes
}

fn syn() -> Header {
    Header { flags: Flags::SYN, window: 0xffff, ..Header::new(40_000, 80, Seq::new(1)) }
}

/// Builds a header with these raw option bytes, padded with zeros; its checksum is zero.
fn raw(flags: u8, options: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 20];
    bytes.extend_from_slice(options);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes[12] = (bytes.len() as u8 / 4) << 4;
    bytes[13] = flags;
    bytes
}

#[test]
fn a_syn_looks_as_everybody_writes_it() {
    let options = Options {
        mss: Some(1_460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some(Timestamps { value: 1, echo: 0 }),
        sack: SackBlocks::default(),
    };
    let bytes = emitted(&syn(), &options, &[]);
    let expected = [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7];
    assert_eq!(bytes[20..], expected);
    assert_eq!(Segment::parse(&bytes, ADDRESSES).unwrap().options, options);
}

#[test]
fn what_tcp_cannot_carry_is_refused_and_leaves_nothing_behind() {
    let mut out = vec![7];
    let block = SackBlock { left: Seq::new(1), right: Seq::new(2) };
    let mut options = Options {
        timestamps: Some(Timestamps::default()),
        sack: [block; 4].into_iter().collect(),
        ..Options::default()
    };
    let plain = Header::new(1, 2, Seq::new(3));
    assert_eq!(options.room_for_sack(), 3);
    assert_eq!(begin(&plain, &options, &mut out), Err(EmitError::OptionsTooLong { needed: 48 }));
    options.sack.truncate(3);
    assert_eq!(begin(&plain, &options, &mut Vec::new()), Ok(0));
    let options = Options { mss: Some(5), ..Options::default() };
    assert_eq!(begin(&plain, &options, &mut out), Err(EmitError::OnlyOnSyn));
    let options = Options { window_scale: Some(15), ..Options::default() };
    assert_eq!(begin(&syn(), &options, &mut out), Err(EmitError::WindowScale { shift: 15 }));
    assert_eq!(out, [7]);
    assert_eq!(finish(&mut out, 0, ADDRESSES), Err(EmitError::NotBegun { start: 0 }));
    assert_eq!(add_flags(&mut out, 9, Flags::FIN), Err(EmitError::NotBegun { start: 9 }));
}

#[test]
fn flags_may_be_set_when_the_payload_is_known() {
    let mut bytes = vec![1, 2, 3];
    let start = begin(&Header::new(1, 2, Seq::new(3)), &Options::default(), &mut bytes).unwrap();
    bytes.push(9);
    add_flags(&mut bytes, start, Flags::PSH | Flags::FIN).unwrap();
    finish(&mut bytes, start, ADDRESSES).unwrap();
    let segment = Segment::parse(&bytes[start..], ADDRESSES).unwrap();
    assert_eq!(segment.header.flags, Flags::PSH | Flags::FIN);
    assert_eq!(segment.seq_len(), 2);
}

#[test]
fn a_handshakes_options_count_on_a_syn_only() {
    // "A Window Scale option in a segment without a SYN bit MUST be ignored" (RFC 7323 §2.2).
    let options = [2, 4, 5, 180, 3, 3, 7, 4, 2];
    assert_eq!(Segment::parse_trusted(&raw(16, &options)).unwrap().options, Options::default());
    let heard = Segment::parse_trusted(&raw(2, &options)).unwrap().options;
    assert_eq!((heard.mss, heard.window_scale, heard.sack_permitted), (Some(1_460), Some(7), true));
}

#[test]
fn odd_options_are_passed_over() {
    let of = |options: &[u8]| Segment::parse_trusted(&raw(2, options)).unwrap().options;
    let mss = Options { mss: Some(256), ..Options::default() };
    assert_eq!(of(&[254, 5, 1, 2, 3, 2, 4, 1, 0]), mss, "unknown");
    assert_eq!(of(&[2, 4, 1, 0, 254, 0, 3, 3, 7]), mss, "a length of zero ends the reading");
    assert_eq!(of(&[2, 4, 1, 0, 254, 30, 3, 3, 7]), mss, "so does one past the end");
    assert_eq!(of(&[2, 4, 1, 0, 0, 3, 3, 7]), mss, "nothing follows the end of the list");
    assert_eq!(of(&[2, 4, 1, 0, 3, 4, 7, 7]), mss, "a window scale of four bytes");
    assert_eq!(of(&[2, 4, 1, 0, 2, 4, 0, 0]), mss, "a greatest segment of nothing");
    assert_eq!(of(&[2, 4, 1, 0, 5, 9, 0, 0, 0, 0, 0, 0, 0]), mss, "a torn SACK block");
    assert_eq!(of(&[3, 3, 200]).window_scale, Some(14), "RFC 7323 §2.3");
    assert_eq!(of(&[2]), Options::default(), "a type without a length");
}

#[test]
fn broken_headers_are_told_apart() {
    let bytes = emitted(&syn(), &Options::default(), b"abc");
    assert_eq!(Segment::parse(&bytes[..19], ADDRESSES), Err(WireError::TooShort { length: 19 }));
    assert_eq!(Segment::parse(&bytes, ADDRESSES.reversed()).map(|s| s.payload), Ok(&b"abc"[..]), "sums commute");
    let elsewhere = Addresses { source: [192, 0, 2, 9].into(), ..ADDRESSES };
    assert_eq!(Segment::parse(&bytes, elsewhere), Err(WireError::Checksum));
    let with_offset = |words: u8| {
        let mut broken = bytes.clone();
        broken[12] = words << 4;
        Segment::parse(&broken, ADDRESSES).unwrap_err()
    };
    assert_eq!(with_offset(4), WireError::OffsetTooSmall { offset: 16 });
    assert_eq!(with_offset(6), WireError::OffsetPastEnd { offset: 24, length: 23 });
    let mut flipped = bytes;
    flipped[22] ^= 1;
    assert_eq!(Segment::parse(&flipped, ADDRESSES), Err(WireError::Checksum));
}
