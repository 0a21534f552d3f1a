//! Tests of RTP passed through: packets of a source, read, packetized, played out.

use proptest::prelude::*;
use timeous_core::{Duration, Instant};

use super::dependency::tests::{of_template, with_structure};
use super::*;
use crate::av1::obu;
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

/// Found by a test of the tool: a player missed the first packets of frames that counted as complete.
#[test]
fn packets_of_another_stream_may_come_between_those_of_a_frame() {
    let mut reader = PassthroughReader::new([vp8(), MediaDescription::of_payload_type(0)]);
    let pictures = video(10, &[]);
    for (n, (millis, packet)) in (0..).zip(&pictures) {
        reader.push(at(*millis), 0, packet).unwrap();
        reader.push(at(*millis), 1, &rtp(0, n, u32::from(n) * 160, n == 0, &[n as u8; 160])).unwrap();
    }
    let units: Vec<_> = std::iter::from_fn(|| reader.next_unit()).collect();
    let came = play(&units, 1_200, |_| false, |_| false);
    let of = |kind: u8| came.iter().filter(move |packet| packet[1] & 0x7f == kind);
    assert!(of(96).map(|packet| &packet[12..]).eq(pictures.iter().map(|(_, packet)| &packet[12..])));
    assert_eq!(of(0).count(), pictures.len());
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

/// A frame that was given up while later ones were queued, whose packets did not count it, left a gap.
#[test]
fn a_frame_that_is_given_up_behind_those_that_follow_leaves_no_gap() {
    let units = read(vp8(), video(12, &(0..12).collect::<Vec<_>>()));
    let mut packetizer = PassthroughPacketizer::new(1_200, 1, 0, 0).unwrap();
    let mut playout = PassthroughPlayout::new(LATENCY, Release::Constant);
    for unit in &units {
        let packets = packetizer.packetize(unit, unit.captured.as_nanos() * 9 / 100_000, false);
        // The sixth frame is queued when the fifth is given up.
        if unit.frame == 6 && unit.last {
            packetizer.count_given_up(unit.stream);
        }
        for (_, packet) in packets.into_iter().filter(|_| unit.frame != 5) {
            playout.handle_packet(unit.captured, &packet).unwrap();
        }
    }
    playout.handle_timeout(units.last().unwrap().captured + LATENCY * 3);
    let came: Vec<_> = std::iter::from_fn(|| playout.poll_release()).flat_map(|release| release.packets).collect();
    assert_eq!(numbers(&came), (0..22).collect::<Vec<u16>>());
}

/// Plays frames of one sender, of which the fifth is lost and then a packet of another one comes late, with 50 frames given up.
fn play_with_a_late_packet(late_ssrc: u32, late_number: u16) -> (Vec<u16>, Vec<u32>) {
    let units = read(vp8(), video(12, &[3, 6, 9]));
    let mut before = PassthroughPacketizer::new(1_200, late_ssrc, late_number, 0).unwrap();
    let mut first = before.packetize(&units[0], 0, false);
    (0..50).for_each(|_| before.count_given_up(0));
    let (_, late) = before.packetize(&units[1], 0, false).pop().unwrap();
    let mut packetizer = PassthroughPacketizer::new(1_200, 1, 0, 0).unwrap();
    let mut playout = PassthroughPlayout::new(LATENCY, Release::Constant);
    playout.handle_packet(Instant::ZERO, &first.pop().unwrap().1).unwrap();
    for unit in &units {
        let packets = packetizer.packetize(unit, unit.captured.as_nanos() * 9 / 100_000, false);
        for (_, packet) in packets.into_iter().filter(|_| unit.frame != 5) {
            // The first far from all others counts as a stray one.
            let _ = playout.handle_packet(unit.captured, &packet);
        }
        if unit.frame == 2 && unit.last {
            assert!(playout.handle_packet(unit.captured, &late).is_err());
        }
    }
    playout.handle_timeout(units.last().unwrap().captured + LATENCY * 3);
    let came: Vec<_> = std::iter::from_fn(|| playout.poll_release()).collect();
    let restarts = came.iter().map(|release| release.restarts).collect();
    (numbers(&came.into_iter().flat_map(|release| release.packets).collect::<Vec<_>>()), restarts)
}

/// It set the count of frames given up, so that what was lost left no gap.
#[test]
fn a_late_packet_of_the_sender_before_a_restart_counts_nothing() {
    let (numbers, _) = play_with_a_late_packet(1, 30_000);
    assert_eq!(numbers.windows(2).filter(|pair| pair[1] != pair[0] + 1).count(), 1, "{numbers:?}");
}

/// It was taken for another restart, and the frames that waited were dropped.
#[test]
fn a_late_packet_of_another_source_is_no_restart() {
    let (numbers, restarts) = play_with_a_late_packet(2, 30_000);
    assert!(restarts.last().is_some_and(|last| *last == 2), "{restarts:?}");
    assert_eq!(numbers.windows(2).filter(|pair| pair[1] != pair[0] + 1).count(), 1, "{numbers:?}");
}

#[test]
fn hundreds_of_frames_in_a_row_are_counted_whether_given_up_or_lost() {
    // Each frame is a key frame, so that those after a gap can be decoded.
    let keys: Vec<u32> = (0..900).collect();
    let units = read(vp8(), video(900, &keys));
    let given_up = |frame: u32| (100..500).contains(&frame) && !frame.is_multiple_of(4) || (520..620).contains(&frame);
    let is_lost = |frame: u32| (100..500).contains(&frame) && frame.is_multiple_of(4);
    let numbers = numbers(&play(&units, 1_200, given_up, is_lost));
    let gaps: Vec<u16> = numbers.windows(2).map(|pair| pair[1] - pair[0] - 1).filter(|gap| *gap > 0).collect();
    let lost = (100..500).filter(|frame| is_lost(*frame)).count() as u16;
    // The gap is bounded, since a receiver takes a larger one for another stream.
    assert_eq!(gaps, [lost.min(64)], "of frames that were given up there is no gap, before and after");
    let mut playout = PassthroughPlayout::new(LATENCY, Release::Constant);
    let mut packetizer = PassthroughPacketizer::new(1_200, 1, 0, 0).unwrap();
    for unit in &units {
        for (_, packet) in packetizer.packetize(unit, unit.captured.as_nanos() * 9 / 100_000, false) {
            if !(100..500).contains(&unit.frame) {
                playout.handle_packet(unit.captured, &packet).unwrap();
            }
        }
    }
    let [(_, counts)] = playout.streams().collect::<Vec<_>>()[..] else { panic!("one stream") };
    assert_eq!(counts.missing, 400);
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

/// Found with ffmpeg's H.264 and AAC by an SDP, restarted: the sound began anew after the first picture, which counted as another
/// restart, and pictures up to the next keyframe were without what they refer to.
#[test]
fn streams_of_a_source_begin_anew_together() {
    let opus = described("m=audio 5006 RTP/AVP 97\na=rtpmap:97 opus/48000/2");
    let mut reader = PassthroughReader::new([vp8(), opus]);
    let sound = |number: u16, source: u8| {
        let mut packet = rtp(97, number, 960 * u32::from(number), false, &[1, 2, 3]);
        packet[11] = source;
        packet
    };
    let picture = |mut packet: Vec<u8>, source: u8| {
        packet[11] = source;
        packet
    };
    let mut seen = Vec::new();
    let mut take = |reader: &mut PassthroughReader, millis, stream, packet: Vec<u8>| {
        reader.push(at(millis), stream, &packet).unwrap();
        seen.extend(std::iter::from_fn(|| reader.next_unit()).map(|unit| (unit.stream, unit.restarts)));
        reader.take_has_restarted()
    };
    for (source, begin) in [(7, 0), (8, 3_000), (9, 20_000)] {
        let mut told = 0;
        for (number, (millis, packet)) in (u16::from(source) * 40..).zip(video(3, &[])) {
            told += u32::from(take(&mut reader, begin + millis, 0, picture(packet, source)));
            told += u32::from(take(&mut reader, begin + millis + 10, 1, sound(number, source)));
        }
        assert_eq!(told, u32::from(source > 7));
    }
    let of = |restart| seen.iter().filter(|(_, restarts)| *restarts == restart).count();
    assert_eq!([of(0), of(1), of(2), of(3)], [12, 12, 12, 0], "{seen:?}");
    // Sound alone.
    reader.push(at(40_000), 1, &sound(5_000, 10)).unwrap();
    assert!(reader.take_has_restarted());
}

/// All packets of a source that restarted with the same SSRC and lower numbers counted as repeated or late.
#[test]
fn a_source_that_begins_anew_with_lower_numbers_is_followed() {
    let mut reader = PassthroughReader::new([described("m=audio 5006 RTP/AVP 97\na=rtpmap:97 opus/48000/2")]);
    for (begin, first) in [(0, 3_000), (5_000, 3_000), (10_000, 2_500)] {
        for number in 0..100u16 {
            let packet = rtp(97, first + number, 960 * u32::from(number), false, &[1, 2, 3]);
            reader.push(at(begin + 20 * u64::from(number)), 0, &packet).unwrap();
        }
        assert_eq!(std::iter::from_fn(|| reader.next_unit()).count(), 100, "{begin}");
        assert_eq!(reader.take_has_restarted(), begin > 0, "{begin}");
    }
}

/// Payload descriptor of VP9 (RFC 9628 §4.2): picture, temporal and spatial layer, whether the frame refers to earlier pictures and to
/// the layer below; then two bytes.
fn vp9(picture: u8, (temporal, spatial): (u8, u8), is_predicted: bool, starts: bool, ends: bool) -> Vec<u8> {
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let first = 0xa0 | flag(is_predicted, 0x40) | flag(starts, 0x08) | flag(ends, 0x04);
    vec![first, picture, temporal << 5 | spatial << 1 | u8::from(spatial > 0), 0, picture, spatial]
}

/// Pictures of VP9 in three spatial layers and two temporal ones, each layer in two packets, every 40 ms.
fn spatial_layers(pictures: u8) -> Vec<(u64, Vec<u8>)> {
    let mut packets = Vec::new();
    for picture in 0..pictures {
        for spatial in 0..3 {
            for half in 0..2 {
                let layers = (picture % 2, spatial);
                let payload = vp9(picture, layers, picture > 0, half == 0, half == 1);
                let (number, timestamp) = (packets.len() as u16, 3_600 * u32::from(picture));
                let is_last = spatial == 2 && half == 1;
                packets.push((u64::from(picture) * 40, rtp(98, number, timestamp, is_last, &payload)));
            }
        }
    }
    packets
}

fn svc_stream() -> MediaDescription {
    described("m=video 5004 RTP/AVP 98\na=rtpmap:98 VP9/90000")
}

#[test]
fn each_spatial_layer_of_a_picture_is_a_frame_that_refers_to_the_one_below() {
    let units = read(svc_stream(), spatial_layers(4));
    let frames: Vec<_> = units.iter().filter(|unit| unit.first == 0).collect();
    let references = |unit: &PassthroughUnit| unit.references.iter().map(|frame| frame.0).collect::<Vec<_>>();
    let first: Vec<_> = frames[..6].iter().map(|unit| (unit.kind, references(unit))).collect();
    let (entry, video) = (UnitKind::VideoEntry, UnitKind::Video);
    let expected = [
        (entry, vec![]),
        (video, vec![1]),
        (video, vec![2]),
        (video, vec![1]),
        (video, vec![2, 4]),
        (video, vec![3, 5]),
    ];
    assert_eq!(first, expected);
    // In the third picture, of the lower temporal layer again, nothing refers to the second one.
    assert_eq!(frames[6..9].iter().map(|unit| references(unit)).collect::<Vec<_>>(), [vec![1], vec![2, 7], vec![3, 8]]);
    // From the base: both temporal layers of the lowest spatial one, then those of the next.
    assert_eq!(frames[9..].iter().map(|unit| unit.layer).collect::<Vec<_>>(), [1, 3, 5]);
    assert_eq!(frames[6..9].iter().map(|unit| unit.layer).collect::<Vec<_>>(), [0, 2, 4]);
    assert!(frames.chunks(3).all(|picture| picture.iter().all(|unit| unit.captured == picture[0].captured)));
    assert!(units.iter().filter(|unit| unit.last).map(|unit| unit.is_below).eq([true, true, false].repeat(4)));
}

/// Frames of an encoder in pairs, as two spatial layers of each temporal unit.
#[test]
fn spatial_layers_of_av1_refer_to_what_their_headers_tell() {
    let mut packets = Vec::new();
    let mut payload = Vec::new();
    for obu in obu::units(include_bytes!("../../tests/streams/av1-realtime.obu")) {
        let mut bytes = obu.without_size();
        match obu.kind {
            obu::TEMPORAL_DELIMITER => continue,
            obu::FRAME => {}
            // An element with its length before it.
            _ => {
                payload.push(bytes.len() as u8);
                payload.extend(bytes);
                continue;
            }
        }
        let n = packets.len() as u32;
        let spatial = (n % 2) as u8;
        bytes[0] |= 0x04;
        bytes.insert(1, spatial << 3);
        let count = if payload.is_empty() { 0x10 } else { 0x20 };
        let payload = [&[count][..], &std::mem::take(&mut payload), &bytes].concat();
        packets.push((u64::from(n / 2) * 40, rtp(96, n as u16, 3_600 * (n / 2), spatial == 1, &payload)));
    }
    let units = read(described("m=video 5004 RTP/AVP 96\na=rtpmap:96 AV1/90000"), packets);
    let frames: Vec<_> = units.iter().filter(|unit| unit.first == 0).collect();
    // As of the plain stream (av1/tests.rs), whatever picture they are of.
    let references: [&[u32]; 10] =
        [&[], &[1], &[2, 1], &[3, 1], &[4, 1], &[5, 2, 1], &[6, 3, 1], &[7, 4, 2, 1], &[8, 5, 3, 1], &[9, 6, 4, 1]];
    let of = |unit: &PassthroughUnit| unit.references.iter().map(|frame| frame.0).collect::<Vec<_>>();
    assert_eq!(frames[..10].iter().map(|unit| of(unit)).collect::<Vec<_>>(), references);
    assert!(frames.len() == 20 && frames.iter().all(|unit| unit.layer == u8::from(unit.frame % 2 == 0)));
    assert!(units.iter().filter(|unit| unit.last).all(|unit| unit.is_below == (unit.frame % 2 == 1)));
}

/// RTP packet with a header extension element of identifier 12.
fn rtp_with(element: &[u8], packet: &[u8]) -> Vec<u8> {
    let (profile, bytes) = crate::rtp::extension::write(12, element);
    let words = (bytes.len() / 4) as u16;
    [&[packet[0] | 0x10], &packet[1..12], &profile.to_be_bytes(), &words.to_be_bytes(), &bytes, &packet[12..]].concat()
}

/// Frames of an encoder whose OBUs have no extension, with a descriptor of three temporal layers; then with an upper spatial layer for
/// each frame.
#[test]
fn layers_of_av1_are_those_of_its_dependency_descriptor() {
    let lines = "m=video 5004 RTP/AVP 96\na=rtpmap:96 AV1/90000\na=extmap:12/sendonly \
                 https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension";
    for has_upper in [false, true] {
        let mut packets = Vec::new();
        let mut payload = Vec::new();
        for obu in obu::units(include_bytes!("../../tests/streams/av1-realtime.obu")) {
            let bytes = obu.without_size();
            match obu.kind {
                obu::TEMPORAL_DELIMITER => continue,
                obu::FRAME => {}
                _ => {
                    payload.push(bytes.len() as u8);
                    payload.extend(bytes);
                    continue;
                }
            }
            let n = packets.len() as u32;
            let (picture, is_upper) = if has_upper { (n / 2, n % 2 == 1) } else { (n, false) };
            let template = if is_upper { 45 } else { [41, 43, 42, 44][picture as usize % 4] };
            let element = if n == 0 { with_structure(40, has_upper) } else { of_template(template) };
            let count = if payload.is_empty() { 0x10 } else { 0x20 };
            let payload = [&[count][..], &std::mem::take(&mut payload), &bytes].concat();
            let packet = rtp(96, n as u16, 3_600 * picture, is_upper == has_upper, &payload);
            packets.push((u64::from(picture) * 40, rtp_with(&element, &packet)));
        }
        let units = read(described(lines), packets);
        let first: Vec<_> = units.iter().filter(|unit| unit.first == 0).collect();
        assert_eq!(first.len(), 20);
        let layers: Vec<u8> = first.iter().map(|unit| unit.layer).collect();
        if has_upper {
            // The base, then both layers of later pictures: temporal ones of the lower spatial one, then the upper one.
            assert!(units.iter().filter(|unit| unit.last).map(|unit| unit.is_below).eq([true, false].repeat(10)));
            assert!(layers[10..].chunks(2).all(|picture| picture[0] < picture[1]), "{layers:?}");
        } else {
            assert_eq!(layers[4..12], [0, 2, 1, 2, 0, 2, 1, 2], "{layers:?}");
            assert!(first[4..].iter().all(|unit| (unit.kind == UnitKind::VideoDisposable) == (unit.layer == 2)));
        }
    }
}

#[test]
fn a_picture_without_its_upper_layers_ends_with_a_marker() {
    let units = read(svc_stream(), spatial_layers(6));
    // The top layer is given up from the second picture on, and in the last picture the one below it, too.
    let given_up = |frame: u32| frame > 3 && frame.is_multiple_of(3) || frame == 17;
    let came = play(&units, 1_200, given_up, |_| false);
    assert_eq!(numbers(&came), (0..came.len() as u16).collect::<Vec<_>>(), "no gap");
    let layers: Vec<(u8, u8, bool)> =
        came.iter().map(|packet| (packet[16], packet[17], packet[1] & 0x80 != 0)).collect();
    for picture in 0..6 {
        let of: Vec<_> = layers.iter().filter(|(of, ..)| *of == picture).collect();
        let top = if picture == 0 {
            2
        } else if picture == 5 {
            0
        } else {
            1
        };
        assert_eq!(of.len(), 2 * (usize::from(top) + 1), "picture {picture}");
        let (last, others) = of.split_last().unwrap();
        assert!(last.2 && last.1 == top && others.iter().all(|packet| !packet.2), "picture {picture}: {of:?}");
    }
    // Released at once, too.
    let mut packetizer = PassthroughPacketizer::new(1_200, 1, 0, 0).unwrap();
    let mut playout = PassthroughPlayout::new(LATENCY, Release::Immediate);
    let mut markers = Vec::new();
    for unit in units.iter().filter(|unit| unit.frame <= 6) {
        for (_, packet) in packetizer.packetize(unit, unit.captured.as_nanos() * 9 / 100_000, false) {
            playout.handle_packet(unit.captured, &packet).unwrap();
        }
        let packets = std::iter::from_fn(|| playout.poll_release()).flat_map(|release| release.packets);
        markers.extend(packets.map(|packet| packet[1] & 0x80 != 0));
    }
    assert_eq!(markers, [false, false, false, false, false, true].repeat(2));
}

#[test]
fn layers_of_a_picture_that_was_cut_off_are_decodable_up_to_the_gap() {
    let mut packets = spatial_layers(3);
    // The second packet of the second picture's middle layer does not come.
    packets.remove(6 + 3);
    let units = read(svc_stream(), packets);
    let is_lost = |frame: u32| frame == 5;
    let came = play(&units, 1_200, |_| false, is_lost);
    let count = |picture: u8| came.iter().filter(|packet| packet[16] == picture).count();
    assert_eq!([0, 1, 2].map(count), [6, 2, 6], "the third refers to the first");
}

#[test]
fn upper_layers_of_h264_are_frames_by_the_headers_of_their_nal_units() {
    let stream = described("m=video 5004 RTP/AVP 96\na=rtpmap:96 H264-SVC/90000");
    // Prefix unit and slice of the base, slices of a layer in better quality, and of a larger picture, in two fragments.
    let picture = |is_idr: bool| {
        let (idr, own) = if is_idr { (0x40, 0x65) } else { (0, 0x41) };
        [
            vec![0x6e, 0x80 | idr, 0x00, 0x07],
            vec![own, 0x88, 0x80],
            vec![0x74, 0x80 | idr, 0x01, 0x07, 1],
            vec![0x7c, 0x94, 0x80 | idr, 0x10, 0x07, 1],
            vec![0x7c, 0x54, 2],
        ]
    };
    let packets =
        (0..2u32).flat_map(|n| picture(n == 0).into_iter().zip(0u32..).map(move |(payload, at)| (n, at, payload)));
    let packets =
        packets.map(|(n, at, payload)| (u64::from(n) * 40, rtp(96, (5 * n + at) as u16, 3_600 * n, at == 4, &payload)));
    let units = read(stream, packets);
    let frames: Vec<_> = units.iter().filter(|unit| unit.first == 0).collect();
    assert_eq!(frames.iter().map(|unit| unit.layer).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2]);
    let references: Vec<Vec<u32>> =
        frames.iter().map(|unit| unit.references.iter().map(|frame| frame.0).collect()).collect();
    assert_eq!(references[1..3], [vec![1], vec![2]], "of the first picture");
    assert_eq!(references[4..], [vec![2, 4], vec![3, 5]], "of the second");
    assert_eq!(units.iter().filter(|unit| unit.frame == 3 && !unit.packet.is_empty()).count(), 2);
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
