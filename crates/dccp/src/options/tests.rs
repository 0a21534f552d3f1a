//! Tests of the option codec: the RFC's encodings, and each rule for options to ignore.

use timeous_core::{Duration, Instant};

use super::*;
use crate::packet_type::PacketType;
use crate::reset::{ResetCode, ResetReason};

fn encoded(opts: &[Opt<'_>]) -> Vec<u8> {
    let mut list = OptionList::new();
    list.push_all(opts).unwrap();
    list.as_bytes().to_vec()
}

#[track_caller]
fn parsed(bytes: &[u8], packet: PacketType) -> Vec<(Opt<'_>, bool)> {
    Options::new(bytes, packet).map(|item| item.map(|item| (item.opt, item.mandatory)).unwrap()).collect()
}

#[track_caller]
fn failed(bytes: &[u8], packet: PacketType) -> (usize, ResetReason) {
    let mut options = Options::new(bytes, packet);
    let mut before = 0;
    loop {
        match options.next().expect("an error") {
            Ok(_) => before += 1,
            Err(error) => {
                assert!(options.next().is_none(), "nothing follows an error");
                return (before, error.reset());
            }
        }
    }
}

/// RFC 4340 §6.5: "Here are the byte encodings of several Change and Confirm options."
#[test]
fn feature_options_are_encoded_as_in_the_rfc() {
    let change = |side, feature, values| Opt::Change { side, feature, values };
    let confirm = |side, feature, values| Opt::Confirm { side, feature, values };
    let table: [(Opt<'_>, &[u8]); 8] = [
        (change(Side::L, 1, &[2, 3]), &[32, 5, 1, 2, 3]),
        (change(Side::L, 3, &[0, 0, 0, 0, 4, 0]), &[32, 9, 3, 0, 0, 0, 0, 4, 0]),
        (confirm(Side::L, 1, &[2, 2, 3]), &[33, 6, 1, 2, 2, 3]),
        (confirm(Side::L, 126, &[]), &[33, 3, 126]),
        (change(Side::R, 1, &[3, 2]), &[34, 5, 1, 3, 2]),
        (confirm(Side::R, 1, &[2, 3, 2]), &[35, 6, 1, 2, 3, 2]),
        (confirm(Side::R, 3, &[0, 0, 0, 0, 4, 0]), &[35, 9, 3, 0, 0, 0, 0, 4, 0]),
        (confirm(Side::R, 126, &[]), &[35, 3, 126]),
    ];
    for (opt, bytes) in table {
        assert_eq!(encoded(&[opt]), bytes);
        assert_eq!(parsed(bytes, PacketType::Ack), [(opt, false)]);
    }
}

#[test]
fn every_option_has_its_layout() {
    let echo = |elapsed| Opt::TimestampEcho { echo: Ticks::new(0x0102_0304), elapsed: Ticks::new(elapsed) };
    let table: [(Opt<'_>, &[u8]); 18] = [
        (Opt::SlowReceiver, &[2]),
        (Opt::InitCookie(&[9, 8]), &[36, 4, 9, 8]),
        (Opt::NdpCount(0), &[37, 3, 0]),
        (Opt::NdpCount(256), &[37, 4, 1, 0]),
        (Opt::NdpCount((1 << 48) - 1), &[37, 8, 255, 255, 255, 255, 255, 255]),
        (Opt::AckVector { nonce: false, vector: &[0, 192] }, &[38, 4, 0, 192]),
        (Opt::AckVector { nonce: true, vector: &[] }, &[39, 2]),
        (Opt::DataDropped(&[0, 160, 3, 162]), &[40, 6, 0, 160, 3, 162]),
        (Opt::Timestamp(Ticks::new(0x0a0b_0c0d)), &[41, 6, 10, 11, 12, 13]),
        (Opt::SentAt(Ticks::new(0x0a0b_0c0d)), &[123, 6, 10, 11, 12, 13]),
        (echo(0), &[42, 6, 1, 2, 3, 4]),
        (echo(0xffff), &[42, 8, 1, 2, 3, 4, 255, 255]),
        (echo(0x1_0000), &[42, 10, 1, 2, 3, 4, 0, 1, 0, 0]),
        (Opt::ElapsedTime(Ticks::new(7)), &[43, 4, 0, 7]),
        (Opt::ElapsedTime(Ticks::new(u32::MAX)), &[43, 6, 255, 255, 255, 255]),
        (Opt::DataChecksum(0xdead_beef), &[44, 6, 0xde, 0xad, 0xbe, 0xef]),
        (Opt::CcidSpecific { kind: 128, data: &[] }, &[128, 2]),
        (Opt::CcidSpecific { kind: 255, data: &[1] }, &[255, 3, 1]),
    ];
    for (opt, bytes) in table {
        assert_eq!(encoded(&[opt]), bytes);
        assert_eq!(parsed(bytes, PacketType::Ack), [(opt, false)]);
    }
    assert_eq!(encoded(&[Opt::Padding, Opt::Mandatory]), [0, 1]);
}

#[test]
fn longer_forms_than_needed_are_read() {
    assert_eq!(parsed(&[37, 6, 0, 0, 0, 5], PacketType::Data), [(Opt::NdpCount(5), false)]);
    assert_eq!(parsed(&[43, 6, 0, 0, 0, 5], PacketType::Ack), [(Opt::ElapsedTime(Ticks::new(5)), false)]);
    let echo = Opt::TimestampEcho { echo: Ticks::new(1), elapsed: Ticks::new(2) };
    assert_eq!(parsed(&[42, 10, 0, 0, 0, 1, 0, 0, 0, 2], PacketType::Data), [(echo, false)]);
}

/// "any Data Checksum option with option length 4 MUST be ignored" (RFC 4340 §5.8), and so on.
#[test]
fn illegal_lengths_are_ignored() {
    let malformed: [&[u8]; 11] = [
        &[44, 4, 1, 2],
        &[44, 7, 1, 2, 3, 4, 5],
        &[37, 2],
        &[37, 9, 1, 2, 3, 4, 5, 6, 7],
        &[41, 5, 1, 2, 3],
        &[42, 5, 1, 2, 3],
        &[42, 7, 1, 2, 3, 4, 5],
        &[42, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        &[43, 3, 1],
        &[43, 5, 1, 2, 3],
        &[32, 2],
    ];
    for option in malformed {
        let bytes = [option, &[2]].concat();
        assert_eq!(parsed(&bytes, PacketType::Ack), [(Opt::SlowReceiver, false)], "{option:?}");
        let bytes = [&[1], option].concat();
        let data = ResetReason::mandatory_error(option[0], &option[2..]);
        assert_eq!(failed(&bytes, PacketType::Ack), (0, data), "{option:?}");
    }
}

#[test]
fn unknown_options_are_ignored_unless_mandatory() {
    let bytes = [3, 31, 45, 2, 127, 5, 1, 2, 3, 2];
    assert_eq!(parsed(&bytes, PacketType::Sync), [(Opt::SlowReceiver, false)]);
    assert_eq!(failed(&[2, 1, 3], PacketType::Sync), (1, ResetReason::mandatory_error(3, &[])));
    assert_eq!(failed(&[1, 127, 5, 7, 8, 9, 2], PacketType::Sync), (0, ResetReason::mandatory_error(127, &[7, 8])));
}

/// "Confirm options … have the same reset conditions whether or not they are Mandatory" (RFC 4340 §6.6.9).
#[test]
fn a_mandatory_confirm_out_of_place_is_ignored() {
    assert_eq!(parsed(&[1, 33, 4, 1, 2, 2], PacketType::Request), [(Opt::SlowReceiver, false)]);
    assert_eq!(parsed(&[1, 35, 2, 2], PacketType::Ack), [(Opt::SlowReceiver, false)]);
    assert_eq!(parsed(&[1, 35, 9, 2], PacketType::Ack), []);
}

/// "options with nonsensical lengths … MUST be ignored, and any option space following" too (RFC 4340 §5.8).
#[test]
fn a_nonsensical_length_ends_the_options() {
    for bytes in [&[2, 44, 1, 2, 2][..], &[2, 44, 0, 2, 2], &[2, 44, 9, 2, 2], &[2, 44], &[2, 200, 5, 0, 0]] {
        assert_eq!(parsed(bytes, PacketType::Ack), [(Opt::SlowReceiver, false)], "{bytes:?}");
    }
    assert_eq!(failed(&[2, 1, 44, 9, 2], PacketType::Ack), (1, ResetReason::mandatory_error(44, &[])));
}

/// RFC 4340 §5.8.2.
#[test]
fn mandatory_marks_exactly_the_next_option() {
    let ack = PacketType::Ack;
    assert_eq!(parsed(&[1, 2, 2], ack), [(Opt::SlowReceiver, true), (Opt::SlowReceiver, false)]);
    assert_eq!(parsed(&[1, 0, 2, 0], ack), [(Opt::SlowReceiver, false)], "Mandatory Padding is two bytes of Padding");
    let dangling = ResetReason { code: ResetCode::OptionError, data: [1, 0, 0] };
    assert_eq!(failed(&[2, 1], ack), (1, dangling));
    assert_eq!(failed(&[1, 1, 2], ack), (0, dangling));
    let item = Options::new(&[1, 200, 5, 7, 8, 9], ack).next().unwrap().unwrap();
    assert_eq!(item.refusal(), ResetReason::mandatory_error(200, &[7, 8]));
    assert_eq!(item.error(), ResetReason::option_error(200, &[7, 8]));
}

/// Table 3's column "DCCP-Data?": what may reset a connection is ignored on Data (RFC 4340 §7.5.5).
#[test]
fn data_packets_ignore_what_they_may_not_carry() {
    let allowed = [2, 37, 41, 42, 44, 128, 255];
    for option in 1..=255 {
        let known = matches!(option, 1 | 2 | 32..=44 | 128..=255);
        if known {
            let expected = allowed.contains(&option) || option >= 128;
            assert_eq!(is_permitted(option, PacketType::Data), expected, "{option}");
        }
    }
    let bytes = [1, 1, 45, 3, 9, 32, 4, 1, 2, 38, 3, 0, 36, 2, 40, 2, 43, 4, 0, 1, 2, 1];
    assert_eq!(parsed(&bytes, PacketType::Data), [(Opt::SlowReceiver, false)]);
}

#[test]
fn requests_ignore_what_needs_an_acknowledgement_number() {
    let bytes = [33, 3, 9, 38, 3, 0, 36, 2, 40, 2, 43, 4, 0, 1, 2];
    assert_eq!(parsed(&bytes, PacketType::Request), [(Opt::SlowReceiver, false)]);
    assert_eq!(parsed(&bytes, PacketType::Response).len(), 6);
    assert_eq!(failed(&[1, 38, 3, 0], PacketType::Request), (0, ResetReason::mandatory_error(38, &[0])));
}

#[test]
fn a_list_takes_what_fits_and_nothing_else() {
    let mut list = OptionList::with_limit(7);
    let timestamp = Opt::Timestamp(Ticks::new(1));
    list.push(&timestamp).unwrap();
    assert_eq!(list.push(&timestamp), Err(ListFull { needed: 6, room: 1 }));
    assert_eq!(list.push_all(&[Opt::Mandatory, Opt::SlowReceiver]), Err(ListFull { needed: 2, room: 1 }));
    assert_eq!(list.as_bytes(), [41, 6, 0, 0, 0, 1]);
    list.push(&Opt::SlowReceiver).unwrap();
    assert_eq!(list.room(), 0);

    list.reset(5_000);
    assert_eq!(list.room(), OptionList::MAX_BYTES);
    assert!(list.push(&Opt::InitCookie(&[0; 254])).is_err(), "no length byte can say it");
    assert!(list.is_empty());
    list.push(&Opt::InitCookie(&[0; 253])).unwrap();
    assert_eq!(list.as_bytes()[1], 255);
    assert!(list.push(&Opt::CcidSpecific { kind: 127, data: &[] }).is_err(), "not a CCID's option type");
}

/// RFC 4340 §13.
#[test]
fn ticks_are_ten_microseconds() {
    assert_eq!(Ticks::elapsed(Duration::from_micros(19)).get(), 1);
    assert_eq!(Ticks::elapsed(Duration::from_secs(43_000)).get(), u32::MAX, "42949.67294 s is the longest");
    let early = Ticks::timestamp(Instant::from_nanos(u64::from(u32::MAX) * 10_000));
    let late = Ticks::timestamp(Instant::from_nanos((u64::from(u32::MAX) + 3) * 10_000));
    assert_eq!(late.since(early), Duration::from_micros(30), "timestamps wrap");
    assert_eq!(Ticks::new(100).to_duration(), Duration::from_millis(1));
}
