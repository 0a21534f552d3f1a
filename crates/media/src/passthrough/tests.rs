//! Tests of RTP passed through: packets of a source, read, packetized, played out.

use proptest::prelude::*;
use timeous_core::{Duration, Instant};

use super::*;
use crate::pictures::UnitKind;
use crate::playout::Release;
use crate::rtp::session::MediaDescription;

const LATENCY: Duration = Duration::from_millis(200);

/// RTP packet.
fn rtp(payload_type: u8, number: u16, timestamp: u32, marker: bool, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x80, payload_type | if marker { 0x80 } else { 0 }];
    packet.extend(number.to_be_bytes());
    packet.extend(timestamp.to_be_bytes());
    packet.extend(7u32.to_be_bytes());
    packet.extend(payload);
    packet
}

fn described(lines: &str) -> MediaDescription {
    MediaDescription::parse(lines).unwrap()
}

fn vp8() -> MediaDescription {
    described("m=video 5004 RTP/AVP 96\na=rtpmap:96 VP8/90000")
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Units of packets that arrive at these times in milliseconds.
fn read(stream: MediaDescription, packets: impl IntoIterator<Item = (u64, Vec<u8>)>) -> Vec<PassthroughUnit> {
    let mut reader = PassthroughReader::new([stream]);
    let mut last = 0;
    for (millis, packet) in packets {
        reader.push(at(millis), 0, &packet).unwrap();
        last = millis;
    }
    reader.handle_timeout(at(last + 1_000));
    std::iter::from_fn(|| reader.next_unit()).collect()
}

/// Packets that are given out, of those units whose frame is neither given up nor lost. Frames are given up before they leave.
fn play(
    units: &[PassthroughUnit],
    mtu: usize,
    is_given_up: impl Fn(u32) -> bool,
    is_lost: impl Fn(u32) -> bool,
) -> Vec<Vec<u8>> {
    let mut packetizer = PassthroughPacketizer::new(mtu, 1, 65_530, 9).unwrap();
    let mut playout = PassthroughPlayout::new(LATENCY, Release::Constant);
    let mut now = Instant::ZERO;
    for unit in units {
        now = unit.captured;
        let packets = packetizer.packetize(unit, unit.captured.as_nanos() * 9 / 100_000, false);
        if is_given_up(unit.frame) {
            if unit.last {
                packetizer.count_given_up(unit.stream);
            }
            continue;
        }
        for (_, packet) in packets.into_iter().filter(|_| !is_lost(unit.frame)) {
            assert!(packet.len() <= mtu && is_passthrough(&packet));
            playout.handle_packet(now, &packet).unwrap();
        }
    }
    playout.handle_timeout(now + LATENCY * 3);
    std::iter::from_fn(|| playout.poll_release()).flat_map(|release| release.packets).collect()
}

fn numbers(packets: &[Vec<u8>]) -> Vec<u16> {
    packets.iter().map(|packet| u16::from_be_bytes([packet[2], packet[3]])).collect()
}

/// Frames of VP8 of two packets, every 40 ms; the first one, and each of these numbers, is a key frame.
fn video(frames: u32, keys: &[u32]) -> Vec<(u64, Vec<u8>)> {
    let packets = (0..frames).flat_map(|frame| {
        let key = u8::from(frame != 0 && !keys.contains(&frame));
        let (number, timestamp) = (2 * frame as u16, 3_600 * frame);
        [rtp(96, number, timestamp, false, &[0x10, key, 1]), rtp(96, number + 1, timestamp, true, &[0x00, 2])]
            .map(|packet| (u64::from(frame) * 40, packet))
    });
    packets.collect()
}

#[test]
fn packets_arrive_as_they_were() {
    let mut odd = rtp(111, 3, 1_920, false, &[9; 3_000]);
    // One CSRC, and padding of four bytes.
    odd[0] = 0xa1;
    odd.splice(12..12, [1, 2, 3, 4]);
    odd.extend([0, 0, 0, 4]);
    let mut extended = rtp(111, 4, 2_880, true, &[0xbe, 0xde, 0, 1, 0x10, 5, 0, 0, 6]);
    extended[0] = 0x90;
    let sent = vec![rtp(111, 1, 0, true, &[1, 2, 3]), rtp(111, 2, 960, false, &[]), odd, extended];
    let stream = described("m=audio 5006 RTP/AVP 111\na=rtpmap:111 opus/48000/2");
    let units = read(stream, (0..).map(|n| n * 20).zip(sent.clone()));
    assert!(units.iter().all(|unit| unit.kind == UnitKind::Audio && unit.last));
    let came = play(&units, 600, |_| false, |_| false);
    assert_eq!(numbers(&came), [0, 1, 2, 3]);
    let without = |packet: &Vec<u8>| [&packet[..2], &packet[4..8], &packet[12..]].concat();
    assert_eq!(came.iter().map(without).collect::<Vec<_>>(), sent.iter().map(without).collect::<Vec<_>>());
}

#[test]
fn a_packet_leaves_in_one_part_once_the_path_carries_it() {
    let stream = described("m=audio 5006 RTP/AVP 111\na=rtpmap:111 opus/48000/2");
    let units = read(stream, [(0, rtp(111, 1, 0, true, &[9; 1_000]))]);
    let mut packetizer = PassthroughPacketizer::new(600, 1, 1, 9).unwrap();
    let mut parts = |mtu| {
        packetizer.resize(mtu);
        packetizer.packetize(&units[0], 0, false).len()
    };
    assert_eq!([600, 1_400, 600, 0].map(&mut parts), [2, 1, 2, 16]);
}

#[test]
fn what_is_given_up_leaves_no_gap_and_what_is_lost_does() {
    let units = read(vp8(), video(12, &[3, 6, 9]));
    assert_eq!(units.len(), 24);
    let whole: Vec<u16> = (0..24).collect();
    assert_eq!(numbers(&play(&units, 1_200, |_| false, |_| false)), whole);
    // Frames are numbered from one: the fifth and the one that needs it are without a picture to refer to.
    let given_up = play(&units, 1_200, |frame| frame == 5, |_| false);
    assert_eq!(numbers(&given_up), (0..20).collect::<Vec<u16>>(), "the key frame follows");
    let lost = numbers(&play(&units, 1_200, |_| false, |frame| frame == 5));
    assert_eq!(lost, (0..8).chain(9..21).collect::<Vec<u16>>());
}

#[test]
fn a_gap_of_the_source_stays_and_another_order_does_not() {
    let mut packets = video(6, &[3]);
    packets.swap(4, 5);
    packets.remove(8);
    let units = read(vp8(), packets);
    let came = play(&units, 1_200, |_| false, |_| false);
    assert_eq!(numbers(&came), (0..8).chain(9..12).collect::<Vec<u16>>());
    assert_eq!(came[4][12..], [0x10, 1, 1], "the first packet of the third frame");
}

#[test]
fn references_follow_the_headers() {
    let mut packets = video(4, &[]);
    // The third frame is one that no other refers to (N).
    packets[4].1[12] |= 0x20;
    let units = read(vp8(), packets);
    let frames: Vec<_> = units.iter().filter(|unit| unit.first == 0).collect();
    assert_eq!(
        frames.iter().map(|unit| unit.kind).collect::<Vec<_>>(),
        [UnitKind::VideoEntry, UnitKind::Video, UnitKind::VideoDisposable, UnitKind::Video]
    );
    let references: Vec<Vec<u32>> =
        frames.iter().map(|unit| unit.references.iter().map(|frame| frame.0).collect()).collect();
    assert_eq!(references, [vec![], vec![1], vec![2], vec![2]]);
}

#[test]
fn a_stream_of_an_unknown_codec_and_without_markers_passes() {
    let packets = (0..40u32).map(|n| (u64::from(n) * 20, rtp(100, n as u16, n * 160, false, &[n as u8; 20])));
    let units = read(MediaDescription::of_payload_type(100), packets);
    let came = play(&units, 1_200, |_| false, |_| false);
    assert_eq!(numbers(&came), (0..40).collect::<Vec<u16>>());
}

#[test]
fn a_codec_is_found_out_by_a_key_frame() {
    let mut reader = PassthroughReader::new([MediaDescription::of_payload_type(96)]);
    let key = [0x10, 0x10, 0x02, 0x00, 0x9d, 0x01, 0x2a, 0x40, 0x01, 0xf0, 0x00];
    reader.push(at(0), 0, &rtp(96, 1, 0, true, &key)).unwrap();
    assert!(reader.take_has_found());
    assert_eq!(reader.descriptions().next().unwrap().codec, "VP8");
    assert_eq!(reader.next_unit().unwrap().kind, UnitKind::VideoEntry);
}

#[test]
fn a_source_that_begins_anew_is_another_source() {
    let mut reader = PassthroughReader::new([vp8()]);
    let mut packets = video(2, &[]);
    packets.extend(video(2, &[]).into_iter().map(|(millis, mut packet)| {
        packet[11] = 8;
        packet[4] = 0x77;
        (millis + 1_000, packet)
    }));
    let mut packetizer = PassthroughPacketizer::new(1_200, 1, 0, 0).unwrap();
    let mut playout = PassthroughPlayout::new(LATENCY, Release::Constant);
    let mut releases = Vec::new();
    for (millis, packet) in packets {
        reader.push(at(millis), 0, &packet).unwrap();
        while let Some(unit) = reader.next_unit() {
            for (_, packet) in packetizer.packetize(&unit, millis * 90, false) {
                playout.handle_timeout(at(millis));
                playout.handle_packet(at(millis), &packet).unwrap();
            }
        }
        releases.extend(std::iter::from_fn(|| playout.poll_release()));
    }
    playout.handle_timeout(at(2_000));
    releases.extend(std::iter::from_fn(|| playout.poll_release()));
    let restarts: Vec<u32> = releases.iter().map(|release| release.restarts - releases[0].restarts).collect();
    assert_eq!(restarts, [0, 0, 1, 1]);
}

proptest! {
    #[test]
    fn no_packets_make_it_panic(
        codec in prop_oneof![Just("H264"), Just("H265"), Just("VP8"), Just("VP9"), Just("AV1"), Just("x")],
        packets in proptest::collection::vec((any::<u16>(), 0u32..5, any::<bool>(), any::<Vec<u8>>()), 0..40),
    ) {
        let stream = described(&format!("m=video 5004 RTP/AVP 96\na=rtpmap:96 {codec}/90000"));
        let packets = packets.into_iter().enumerate().map(|(n, (number, timestamp, marker, payload))| {
            (n as u64, rtp(96, number % 50, timestamp * 3_000, marker, &payload))
        });
        let units = read(stream, packets);
        play(&units, 200, |_| false, |frame| frame % 3 == 0);
    }
}
