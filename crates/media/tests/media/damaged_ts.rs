//! Transport streams with one kind of damage each, through reader, packetizer, playout, recording and FLV: the sound goes on, counters
//! are continuous where the source's are, clock values keep to the playout times, and memory is bounded.

use std::collections::{BTreeMap, BTreeSet};

use timeous_core::{Duration, Instant, Rng};
use timeous_media::container::{NalFormat, Sample, Track, TrackFormat, TsMuxer};
use timeous_media::mp4::TsMp4Writer;
use timeous_media::ts::{ContinuousTimes, PACKET_LEN, TsPacketizer, TsPlayout, TsReader};
use timeous_media::{FrameReader, Release, TsToFlv};

const VIDEO: &[u8] = include_bytes!("../streams/pyramid.h264");
const VIDEO_PID: u16 = 0x100;
const AUDIO_PID: u16 = 0x101;
const MAP_PID: u16 = 0x1000;
/// Ticks of 90 kHz of a picture, and of a frame of sound at 48 kHz.
const PICTURE: i64 = 3_600;
const SOUND: i64 = 1_920;
/// Pictures of the stream, and the one at which damage begins that happens once.
const PICTURES: i64 = 200;
const MIDDLE: usize = 100;
/// Bytes of a frame of sound: its number stands at its end.
const FRAME: usize = 300;

/// What comes in at a time: 40 ms, in packets.
type Chunks = Vec<Vec<u8>>;

/// Stream of H.264 and AAC that begins at a time.
fn stream(begin: i64) -> Chunks {
    let mut reader = FrameReader::new(None);
    reader.push(VIDEO).unwrap();
    reader.finish().unwrap();
    let frames: Vec<_> = std::iter::from_fn(|| reader.next_frame()).collect();
    let formats = [TrackFormat::H264(NalFormat::default()), TrackFormat::MpegAudio];
    let mut muxer = TsMuxer::new(formats.map(|format| Track { format, language: None }).to_vec());
    let (mut chunks, mut sound) = (Vec::new(), 0i64);
    for n in 0..PICTURES {
        let frame = &frames[n as usize % frames.len()];
        let decode = begin + n * PICTURE;
        let presented = decode + 2 * PICTURE;
        let mut chunk =
            muxer.push(&Sample { track: 0, decode, presented, is_entry: frame.entry.is_some(), data: frame.annexb() });
        while sound * SOUND < (n + 1) * PICTURE {
            let decode = begin + sound * SOUND;
            // ADTS: low complexity, 48 kHz, stereo.
            let len = FRAME as u32 + 7;
            let mut data =
                vec![0xff, 0xf1, 0x4c, 0x80 | (len >> 11) as u8, (len >> 3) as u8, (len << 5) as u8 | 0x1f, 0xfc];
            data.extend([0x55; FRAME - 4]);
            data.extend((sound as u32).to_be_bytes());
            chunk.extend(muxer.push(&Sample { track: 1, decode, presented: decode, is_entry: true, data }));
            sound += 1;
        }
        chunks.push(chunk);
    }
    // The multiplexer takes AAC of files only.
    each(&mut chunks, 0, |packet| change_map(packet, |section| section[17] = 0x0f));
    chunks
}

/// Changes the section of a map, if a packet is one.
fn change_map(packet: &mut [u8], change: impl Fn(&mut [u8])) {
    if pid_of(packet) == MAP_PID {
        let len = usize::from(packet[6] & 0x0f) << 8 | usize::from(packet[7]);
        change_section(&mut packet[5..8 + len], change);
    }
}

/// Changes a section, and its checksum.
fn change_section(section: &mut [u8], change: impl Fn(&mut [u8])) {
    change(section);
    let at = section.len() - 4;
    let sum = crc(&section[..at]).to_be_bytes();
    section[at..].copy_from_slice(&sum);
}

fn pid_of(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[1] & 0x1f, packet[2]])
}

/// Place of the clock value in a packet that has one.
fn has_pcr(packet: &[u8]) -> bool {
    packet[3] & 0x20 != 0 && packet[4] >= 7 && packet[5] & 0x10 != 0
}

/// Clock value in ticks of 90 kHz.
fn pcr(packet: &[u8]) -> Option<i64> {
    has_pcr(packet)
        .then(|| i64::from(u32::from_be_bytes(packet[6..10].try_into().unwrap())) << 1 | i64::from(packet[10] >> 7))
}

fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << 24, |crc, _| {
            if crc & 0x8000_0000 == 0 { crc << 1 } else { crc << 1 ^ 0x04c1_1db7 }
        })
    })
}

/// Changes each packet in place.
fn each(chunks: &mut Chunks, from: usize, mut change: impl FnMut(&mut [u8])) {
    chunks[from..].iter_mut().flat_map(|chunk| chunk.chunks_exact_mut(PACKET_LEN)).for_each(&mut change);
}

/// Replaces each packet by bytes.
fn replace(chunks: &mut Chunks, mut by: impl FnMut(&[u8]) -> Vec<u8>) {
    for chunk in chunks {
        *chunk = chunk.chunks_exact(PACKET_LEN).flat_map(&mut by).collect();
    }
}

/// What is expected of a stream.
#[derive(Clone)]
struct Case {
    name: &'static str,
    chunks: Chunks,
    /// Frames of sound that may be missing, of 375, and among the last second.
    missing: usize,
    missing_at_end: usize,
    /// Gaps in the counters that the source has itself, at most.
    gaps: usize,
    /// Steps of the program clock that are the source's own.
    jumps: usize,
    /// Whether a recording and FLV, which hold one stream of each kind, are to have the sound of the last second.
    is_readable: bool,
}

/// Stream from which nothing may be missing.
fn case(name: &'static str, chunks: Chunks) -> Case {
    Case { name, chunks, missing: 0, missing_at_end: 0, gaps: 0, jumps: 0, is_readable: true }
}

fn with(name: &'static str, change: &mut dyn FnMut(&mut Chunks)) -> Case {
    let mut chunks = stream(0);
    change(&mut chunks);
    case(name, chunks)
}

/// Damage in many places.
fn damaged() -> Vec<Case> {
    let mut rng = Rng::from_seed(7);
    let mut all = vec![case("as it was", stream(0))];
    let mut flipped = with("bit flips", &mut |chunks| {
        each(chunks, 0, |packet| {
            if rng.chance(0.02) {
                packet[rng.below(PACKET_LEN as u64) as usize] ^= 1 << rng.below(8);
            }
        });
    });
    (flipped.missing, flipped.missing_at_end, flipped.gaps, flipped.jumps) = (40, 6, 40, 0);
    all.push(flipped);
    let mut rng = Rng::from_seed(8);
    let mut lost = with("lost packets", &mut |chunks| {
        replace(chunks, |packet| if rng.chance(0.02) { Vec::new() } else { packet.to_vec() });
    });
    (lost.missing, lost.missing_at_end, lost.gaps) = (40, 6, 40);
    all.push(lost);
    let mut count = 0;
    all.push(with("repeated packets", &mut |chunks| {
        replace(chunks, |packet| {
            count += 1;
            packet.repeat(1 + usize::from(count % 10 == 0))
        });
    }));
    let mut swapped = with("reordered packets", &mut |chunks| {
        for chunk in chunks.iter_mut().step_by(10).filter(|chunk| chunk.len() > 4 * PACKET_LEN) {
            let (first, second) = chunk[PACKET_LEN..].split_at_mut(PACKET_LEN);
            first.swap_with_slice(&mut second[..PACKET_LEN]);
        }
    });
    (swapped.missing, swapped.missing_at_end, swapped.gaps, swapped.jumps) = (4, 0, 20, 0);
    all.push(swapped);
    let mut cut = with("cut within a packet", &mut |chunks| drop(chunks[MIDDLE].drain(250..300)));
    (cut.missing, cut.gaps) = (3, 3);
    all.push(cut);
    all
}

/// Changes in the middle of the stream.
fn changed() -> Vec<Case> {
    let mut all = vec![with("a new version of the map, with other PIDs", &mut |chunks| {
        each(chunks, MIDDLE, |packet| match pid_of(packet) {
            MAP_PID => change_map(packet, |section| {
                section[5] = section[5] & !0x3e | 2;
                // PIDs of the clock and of both streams: 0x100 becomes 0x300, 0x101 0x301.
                [8, 13, 18].into_iter().for_each(|at| section[at] |= 2);
            }),
            VIDEO_PID | AUDIO_PID => packet[1] |= 2,
            _ => {}
        });
    })];
    all.push(with("a new version of the programs", &mut |chunks| {
        each(chunks, MIDDLE, |packet| {
            if pid_of(packet) == 0 {
                change_section(&mut packet[5..21], |section| section[5] = section[5] & !0x3e | 2);
            }
        });
    }));
    for (name, step) in [("its clock jumps by an hour", 324_000_000), ("its clock goes back", -360_000)] {
        let mut jumps = case(name, stream(0));
        let begin = (MIDDLE as i64) * PICTURE + step;
        jumps.chunks = stream(400_000).into_iter().take(MIDDLE).collect();
        // The number of its sound goes on.
        jumps.chunks.extend(stream(400_000 + begin - MIDDLE as i64 * PICTURE).into_iter().skip(MIDDLE));
        jumps.jumps = 1;
        all.push(jumps);
    }
    all.push(case("the 33 bits of its clock wrap", stream((1 << 33) - 180_000 - MIDDLE as i64 * PICTURE)));
    let mut rests = with("the source stands still for a second, and marks it", &mut |chunks| {
        chunks[MIDDLE..MIDDLE + 25].iter_mut().for_each(Vec::clear);
        let mut marked = BTreeSet::new();
        each(chunks, MIDDLE + 25, |packet| {
            // Other counters behind it.
            if packet[3] & 0x10 != 0 {
                packet[3] = packet[3] & 0xf0 | packet[3].wrapping_add(5) & 0x0f;
            }
            if packet[3] & 0x20 != 0 && packet[4] > 0 && marked.insert(pid_of(packet)) {
                packet[5] |= 0x80;
            }
        });
    });
    (rests.missing, rests.gaps, rests.jumps) = (47, 4, 1);
    all.push(rests);
    let mut scrambled = with("scrambled", &mut |chunks| {
        each(chunks, MIDDLE, |packet| {
            if [VIDEO_PID, AUDIO_PID].contains(&pid_of(packet)) {
                packet[3] |= 0x80;
            }
        });
    });
    scrambled.is_readable = false;
    all.push(scrambled);
    all
}

/// Bytes between the packets, and packets that never end.
fn framed() -> Vec<Case> {
    let mut all = Vec::new();
    let mut rng = Rng::from_seed(9);
    let mut count = 0;
    let mut garbage = with("garbage between packets", &mut |chunks| {
        replace(chunks, |packet| {
            count += 1;
            let len = if count % 50 == 0 { 1 + rng.below(700) } else { 0 };
            [(0..len).map(|_| rng.below(256) as u8).collect(), packet.to_vec()].concat()
        });
    });
    (garbage.missing, garbage.missing_at_end, garbage.gaps, garbage.jumps) = (4, 1, 8, 0);
    all.push(garbage);
    all.push(with("204 bytes", &mut |chunks| replace(chunks, |packet| [packet, &[0x47; 16]].concat())));
    all.push(with("192 bytes", &mut |chunks| replace(chunks, |packet| [&[0x47, 1, 2, 3], packet].concat())));
    let mut endless = with("a picture that never ends", &mut |chunks| {
        let mut counter = None;
        for chunk in &mut chunks[MIDDLE..] {
            // Its packets begin nothing, and there are more.
            let mut more = Vec::new();
            for packet in chunk.chunks_exact_mut(PACKET_LEN).filter(|packet| pid_of(packet) == VIDEO_PID) {
                packet[1] &= !0x40;
                let next = counter.map_or(packet[3] & 0x0f, |counter: u8| counter.wrapping_add(1) & 0x0f);
                packet[3] = packet[3] & 0xf0 | next;
                counter = Some(next);
            }
            for _ in 0..1_000 {
                let next = counter.map_or(0, |counter| counter.wrapping_add(1) & 0x0f);
                counter = Some(next);
                more.extend([&[0x47, 1, 0, 0x10 | next][..], &[7; 184]].concat());
            }
            chunk.extend(more);
        }
    });
    (endless.gaps, endless.is_readable) = (2, false);
    all.push(endless);
    all
}

/// What came out.
#[derive(Default)]
struct Came {
    /// Numbers of the frames of sound, in a transport stream, in FLV, and in a recording.
    sound: BTreeSet<u32>,
    in_flv: BTreeSet<u32>,
    in_file: BTreeSet<u32>,
    gaps: usize,
    jumps: usize,
    longest: Duration,
}

fn number(frame: &[u8]) -> Option<u32> {
    (frame.len() >= FRAME && frame[frame.len() - FRAME..frame.len() - 4].iter().all(|byte| *byte == 0x55))
        .then(|| u32::from_be_bytes(frame[frame.len() - 4..].try_into().unwrap()))
}

impl Came {
    fn tags(&mut self, mut tags: &[u8]) {
        while let [kind, a, b, c, _, _, _, _, _, _, _, rest @ ..] = tags {
            let len = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
            self.in_flv.extend(number(&rest[..len]).filter(|_| *kind == 8));
            tags = &rest[len + 4..];
        }
    }
}

fn send(case: &Case) -> Came {
    let mut reader = TsReader::new();
    let mut packetizer = TsPacketizer::new(1_400, 1, 0xfff0, 0).unwrap();
    let mut playout = TsPlayout::new(Duration::from_millis(300), Release::Constant);
    let (mut recording, mut flv, mut came) = (TsMp4Writer::default(), TsToFlv::default(), Came::default());
    let mut continuous = ContinuousTimes::default();
    let (mut counters, mut clocks, mut open) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let (mut now, mut file) = (Instant::ZERO, Vec::new());
    let (mut read, mut sent) = (0, 0);
    for step in 0..case.chunks.len() + 50 {
        now += Duration::from_millis(40);
        if let Some(chunk) = case.chunks.get(step) {
            read += chunk.len();
            reader.push(chunk).unwrap();
        } else {
            reader.finish();
        }
        while let Some(unit) = reader.next_unit() {
            sent += unit.packets.len();
            if let Some((_, tags)) = flv.tags(&unit) {
                came.tags(&tags);
            }
            for (_, rtp) in packetizer.packetize(&unit, now.as_nanos() * 9 / 100_000, false) {
                playout.handle_packet(now + Duration::from_millis(20), &rtp).unwrap();
            }
        }
        assert!(read < sent + 300 * PACKET_LEN + read / 5, "{}: {read} bytes read, {sent} sent", case.name);
        playout.handle_timeout(now);
        while let Some(release) = playout.poll_release() {
            let _not_expressible = recording.push(&continuous.push(release.clone()).packets);
            file.extend(recording.take());
            for packet in release.packets.chunks_exact(PACKET_LEN) {
                assert_eq!(packet[0], 0x47);
                let (pid, payload) = (pid_of(packet), packet[3] & 0x10 != 0);
                let before = counters.insert(pid, packet[3] & 0x0f);
                let expected = before.map(|before: u8| before.wrapping_add(u8::from(payload)) & 0x0f);
                came.gaps += usize::from(expected.is_some_and(|expected| expected != packet[3] & 0x0f));
                if let Some(value) = pcr(packet) {
                    let at = release.playout_at;
                    if let Some((before, then)) = clocks.insert(pid, (value, at)) {
                        let passed = at.saturating_since(then);
                        came.longest = came.longest.max(passed);
                        let step = (value - before).rem_euclid(1 << 33);
                        let expected = passed.as_nanos() as i64 * 9 / 100_000;
                        came.jumps += usize::from((step - expected).abs() > 9_000);
                    }
                }
                let begin = if packet[3] & 0x20 != 0 { 5 + usize::from(packet[4]) } else { 4 };
                let data: &mut Vec<u8> = open.entry(pid).or_default();
                if packet[1] & 0x40 != 0 {
                    data.clear();
                }
                data.extend(packet.get(begin..).unwrap_or_default());
                came.sound.extend(number(data).filter(|_| payload));
            }
        }
    }
    assert!(!playout.holds_packets(), "{}", case.name);
    recording.finish();
    file.extend(recording.take());
    let mut rest = &file[..];
    while let Some(at) = rest.windows(FRAME - 4).position(|bytes| bytes.iter().all(|byte| *byte == 0x55)) {
        came.in_file.extend(number(&rest[at..at + FRAME]));
        rest = &rest[at + FRAME..];
    }
    came
}

#[test]
fn each_kind_of_damage_leaves_the_sound_and_the_clock() {
    let all = PICTURES as u32 * PICTURE as u32 / SOUND as u32;
    let mut failed = Vec::new();
    for case in [damaged(), changed(), framed()].concat() {
        let came = send(&case);
        let missing = |sound: &BTreeSet<u32>, from| (from..all).filter(|n| !sound.contains(n)).count();
        let (lost, at_end) = (missing(&came.sound, 0), missing(&came.sound, all - 47));
        let [in_flv, in_file] = [&came.in_flv, &came.in_file].map(|sound| missing(sound, all - 47));
        let line = format!(
            "{}: {lost} of {all} frames of sound missing, {at_end} of the last second, {in_flv} of it in FLV, \
             {in_file} in a recording, {} gaps, {} jumps, longest without clock {:?}",
            case.name, came.gaps, came.jumps, came.longest
        );
        println!("{line}");
        let is_right = lost <= case.missing
            && at_end <= case.missing_at_end
            && came.gaps <= case.gaps
            && came.jumps <= case.jumps
            && (!case.is_readable || in_flv.max(in_file) <= case.missing_at_end);
        if !is_right {
            failed.push(line);
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
