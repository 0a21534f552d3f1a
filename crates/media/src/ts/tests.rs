//! Tests of transport streams: built packet by packet, read, packetized, played out.

use proptest::prelude::*;
use timeous_core::{Duration, Instant, Priority, SubStream};

use super::packet::{PACKET_LEN, Packet, pcr_packet};
use super::psi::{Content, Tables};
use super::section::crc;
use super::*;
use crate::jitter::WholeFrameCounts;
use crate::pictures::UnitKind;
use crate::playout::Release;

mod av1;

const PMT: u16 = 0x100;
const VIDEO: u16 = 0x101;
const AUDIO: u16 = 0x102;
/// Stream types: MPEG-2 video, AAC.
const STREAMS: [(u8, u16); 2] = [(0x02, VIDEO), (0x0f, AUDIO)];

/// Multiplexer of a test.
#[derive(Default)]
struct Mux {
    bytes: Vec<u8>,
    counters: std::collections::BTreeMap<u16, u8>,
}

impl Mux {
    /// Adds packets with this payload, the last one stuffed, the first with a clock value.
    fn add(&mut self, pid: u16, mut payload: &[u8], pcr: Option<u64>) {
        let mut starts = true;
        while !payload.is_empty() {
            let counter = self.counters.entry(pid).or_default();
            let clock = pcr.filter(|_| starts).map(|pcr| pcr_packet(pid, 0, pcr)[5..12].to_vec()).unwrap_or_default();
            let room = PACKET_LEN - 4 - if clock.is_empty() { 0 } else { 1 + clock.len() };
            let len = payload.len().min(room);
            let mut adaptation = clock;
            if len < PACKET_LEN - 4 {
                let total = PACKET_LEN - 5 - len;
                if total > 0 && adaptation.is_empty() {
                    adaptation.push(0);
                }
                adaptation.resize(total, 0xff);
                adaptation.insert(0, total as u8);
            }
            let flags = if adaptation.is_empty() { 0x10 } else { 0x30 };
            let [high, low] = pid.to_be_bytes();
            let start = if starts { 0x40 } else { 0 };
            self.bytes.extend([0x47, start | high, low, flags | *counter & 0x0f]);
            self.bytes.extend(adaptation);
            self.bytes.extend(&payload[..len]);
            assert!(self.bytes.len().is_multiple_of(PACKET_LEN));
            *counter = counter.wrapping_add(1);
            (payload, starts) = (&payload[len..], false);
        }
    }

    fn tables(&mut self) {
        self.tables_of(&STREAMS);
    }

    /// Adds tables that name these stream types and PIDs.
    fn tables_of(&mut self, streams: &[(u8, u16)]) {
        let section = |table: u8, body: &[u8]| {
            let mut section = vec![table, 0xb0, (body.len() + 9) as u8, 0, 1, 0xc1, 0, 0];
            section.extend(body);
            let crc = crc(&section);
            section.extend(crc.to_be_bytes());
            [&[0], &section[..]].concat()
        };
        self.add(0, &section(0, &[0, 1, 0xe1, 0]), None);
        let [high, low] = VIDEO.to_be_bytes();
        let mut map = vec![0xe0 | high, low, 0xf0, 0];
        for (kind, pid) in streams {
            let [high, low] = pid.to_be_bytes();
            map.extend([*kind, 0xe0 | high, low, 0xf0, 0]);
        }
        self.add(PMT, &section(2, &map), None);
    }

    /// Adds a picture of MPEG-2 of this coding type, with an unbounded PES packet.
    fn picture(&mut self, coding_type: u8, len: usize, pcr: u64) {
        let mut pes = vec![0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0, 0, 0, 1, 0, 0, coding_type << 3];
        pes.resize(pes.len() + len, 0xaa);
        self.add(VIDEO, &pes, Some(pcr));
    }

    fn sound(&mut self, len: usize) {
        let [high, low] = ((len + 3) as u16).to_be_bytes();
        let mut pes = vec![0, 0, 1, 0xc0, high, low, 0x80, 0, 0];
        pes.resize(pes.len() + len, 0x55);
        self.add(AUDIO, &pes, None);
    }

    /// Ten groups of pictures I B P B P, with sound and tables.
    fn stream() -> Self {
        let mut mux = Self::default();
        for picture in 0..50u64 {
            if picture % 5 == 0 {
                mux.tables();
            }
            let coding_type = [1, 3, 2, 3, 2][(picture % 5) as usize];
            mux.picture(coding_type, 2_000, 27_000_000 * picture / 25);
            mux.sound(300);
        }
        mux
    }
}

/// Payload of a packet with a section of this table, with its version and whether it is in force.
fn section(table: u8, flags: u8, body: &[u8]) -> Vec<u8> {
    let mut section = vec![table, 0xb0, (body.len() + 9) as u8, 0, 1, flags, 0, 0];
    section.extend(body);
    let crc = crc(&section);
    section.extend(crc.to_be_bytes());
    [&[0], &section[..]].concat()
}

#[test]
fn tables_to_come_are_not_in_force_and_the_pid_of_a_map_that_is_gone_carries_something_else() {
    let mut tables = Tables::default();
    let map = |kind: u8| [0xe1, 1, 0xf0, 0, kind, 0xe1, 1, 0xf0, 0];
    tables.push(0, true, &section(0, 0xc1, &[0, 1, 0xe1, 0]));
    tables.push(PMT, true, &section(2, 0xc1, &map(0x02)));
    let video = tables.content(VIDEO);
    assert!(matches!(video, Content::Video(_)));
    tables.push(PMT, true, &section(2, 0xc2, &map(0x0f)));
    assert_eq!(tables.content(VIDEO), video, "it is announced only");
    assert_eq!(tables.content(PMT), Content::Tables);
    tables.push(0, true, &section(0, 0xc3, &[0, 1, 0xe2, 0]));
    assert_eq!((tables.content(PMT), tables.content(0x200)), (Content::Other, Content::Tables));
}

/// AAC in ffmpeg's M2TS, and LPCM of a disc, were data, and given up before video.
#[test]
fn sound_that_the_map_does_not_name_is_known_by_its_stream_id_and_that_of_discs_by_their_types() {
    let map = |info: &[u8], kind: u8| {
        let entry = [kind, 0xe1, 2, 0xf0, 0];
        section(2, 0xc1, &[&[0xe1, 1, 0xf0, info.len() as u8], info, &entry].concat())
    };
    let known = |info: &[u8], kind: u8, stream_id: u8| {
        let mut tables = Tables::default();
        tables.push(0, true, &section(0, 0xc1, &[0, 1, 0xe1, 0]));
        tables.push(PMT, true, &map(info, kind));
        tables.push(AUDIO, true, &[0, 0, 1, stream_id]);
        // The map is repeated.
        tables.push(PMT, true, &map(info, kind));
        (tables.content(AUDIO), tables.stream(AUDIO, false).codec, tables.has_sections(AUDIO))
    };
    let disc = [5, 4, b'H', b'D', b'M', b'V'];
    assert_eq!(known(&disc, 0x06, 0xc0), (Content::Audio, "", false));
    assert_eq!(known(&[], 0x06, 0xbd), (Content::Other, "", false));
    assert_eq!(known(&disc, 0x80, 0xbd), (Content::Audio, "LPCM", false));
    assert_eq!(known(&disc, 0x86, 0xfd), (Content::Audio, "DTS", false));
    assert_eq!(known(&[], 0x86, 0xfd), (Content::Other, "SCTE 35", true));
}

/// Found by a test of the tool: a keyframe and its group were worth more than a subtitle.
#[test]
fn subtitles_are_worth_as_much_as_sound() {
    let mut mux = Mux::default();
    let subtitles = [&[6, 0xe1, 2, 0xf0, 10, 0x59, 8], &[0; 8][..]].concat();
    let tables = [
        (0, section(0, 0xc1, &[0, 1, 0xe1, 0])),
        (PMT, section(2, 0xc1, &[&[0xe1, 2, 0xf0, 0], &subtitles[..]].concat())),
    ];
    for (pid, table) in tables {
        mux.add(pid, &table, None);
    }
    mux.add(AUDIO, &[0, 0, 1, 0xbd, 0, 3, 0x80, 0, 0], None);
    let units = units(&mux.bytes);
    assert_eq!(units.last().map(|unit| unit.substream), Some(SubStream::AUDIO));
}

#[test]
fn subtitles_and_teletext_are_a_kind_of_their_own() {
    let mut tables = Tables::default();
    tables.push(0, true, &section(0, 0xc1, &[0, 1, 0xe1, 0]));
    // Two private streams with a descriptor of five bytes of teletext, and of eight bytes of DVB subtitles.
    let teletext = [&[6, 0xe1, 1, 0xf0, 7, 0x56, 5], &[0; 5][..]].concat();
    let subtitles = [&[6, 0xe1, 2, 0xf0, 10, 0x59, 8], &[0; 8][..]].concat();
    let map = [&[0xe1, 1, 0xf0, 0], &teletext[..], &subtitles].concat();
    tables.push(PMT, true, &section(2, 0xc1, &map));
    let streams = [VIDEO, AUDIO].map(|pid| tables.stream(pid, false));
    assert!(streams.iter().all(|stream| stream.kind == StreamKind::Subtitles), "{streams:?}");
    assert_eq!(streams.map(|stream| stream.codec), ["teletext", "DVB subtitles"]);
    assert_eq!(tables.stream(VIDEO, true).kind, StreamKind::Clock);
}

#[test]
fn packets_with_time_stamps_or_codes_between_them_are_read() {
    let alone = Mux::stream().bytes;
    let spaced = |before: usize, after: usize| -> Vec<u8> {
        let packets = alone.chunks(PACKET_LEN);
        packets.flat_map(|packet| [&vec![0; before][..], packet, &vec![0x47; after]].concat()).collect()
    };
    for stream in [spaced(4, 0), spaced(0, 16)] {
        assert_eq!(is_transport_stream(&stream[..1_000]), Some(true));
        let mut reader = TsReader::new();
        for chunk in stream.chunks(777) {
            reader.push(chunk).unwrap();
        }
        reader.finish();
        let read: Vec<u8> = std::iter::from_fn(|| reader.next_unit()).flat_map(|unit| unit.packets).collect();
        assert_eq!(read.len(), alone.len());
        assert_eq!(reader.counts().garbage, 0);
    }
}

fn units(bytes: &[u8]) -> Vec<TsUnit> {
    let mut reader = TsReader::new();
    let mut units = Vec::new();
    for chunk in bytes.chunks(1_316) {
        reader.push(chunk).unwrap();
        reader.flush();
        units.extend(std::iter::from_fn(|| reader.next_unit()));
    }
    reader.finish();
    units.extend(std::iter::from_fn(|| reader.next_unit()));
    units
}

/// A multiplexer that had moved the clock to a PID of its own left stuffing at the begin of each picture: the picture was taken for
/// two, of which one was given up, and no picture that was shown was right.
#[test]
fn stuffing_at_the_begin_of_a_pes_packet_does_not_end_it() {
    let mut bytes = Mux::stream().bytes;
    for packet in bytes.chunks_mut(PACKET_LEN) {
        let [pid, begins_with_clock] = [u16::from_be_bytes([packet[1] & 0x1f, packet[2]]), u16::from(packet[5] & 0x10)];
        if pid == VIDEO && packet[3] & 0x20 != 0 && packet[4] > 0 && begins_with_clock != 0 {
            packet[5] = 0;
            packet[6..12].fill(0xff);
        }
    }
    let mut pictures = std::collections::BTreeMap::<u32, usize>::new();
    for unit in units(&bytes).iter().filter(|unit| !matches!(unit.kind, UnitKind::Audio | UnitKind::Tables)) {
        *pictures.entry(unit.frame).or_default() += unit.packets.len();
    }
    assert_eq!(pictures.len(), 50);
    assert!(pictures.values().all(|len| *len > 2_000), "{pictures:?}");
}

/// A picture whose first packet is lost seems to go on with the one before, which had ended.
#[test]
fn a_lost_packet_does_not_make_the_reader_wait_for_ends() {
    let bytes = Mux::stream().bytes;
    let is_begin = |packet: &[u8]| packet[1] & 0x40 != 0 && packet[2] == VIDEO as u8 && packet[1] & 0x1f == 1;
    let fourth = bytes.chunks(PACKET_LEN).enumerate().filter(|(_, packet)| is_begin(packet)).nth(3).unwrap().0;
    let (before, after) = bytes.split_at(fourth * PACKET_LEN);
    let all = units(&[before, &after[PACKET_LEN..]].concat());
    // A unit without packets tells an end that stuffing did not.
    let told = all.iter().filter(|unit| unit.packets.is_empty()).map(|unit| unit.frame).collect::<Vec<_>>();
    assert_eq!(told.len(), 1, "the first picture's: {told:?}");
}

/// Plays out RTP packets that are captured at their time by the program clock, and arrive 10 ms later.
fn play(units: &[TsUnit], arrives: impl Fn(usize, &TsUnit) -> bool) -> (Vec<u8>, WholeFrameCounts) {
    let (out, playout) = play_out(units, arrives);
    (out, playout.stats())
}

fn play_out(units: &[TsUnit], arrives: impl Fn(usize, &TsUnit) -> bool) -> (Vec<u8>, TsPlayout) {
    let mut packetizer = TsPacketizer::new(1_400, 1, 0xfff0, 0xffff_0000).unwrap();
    let mut playout = TsPlayout::new(Duration::from_millis(100), Release::Constant);
    let mut out = Vec::new();
    let mut now = Instant::ZERO;
    for (index, unit) in units.iter().enumerate() {
        let time = unit.time.unwrap_or_default();
        now = Instant::ZERO + time + Duration::from_millis(10);
        for (_, rtp) in packetizer.packetize(unit, time.as_millis() * 90, false) {
            if arrives(index, unit) {
                playout.handle_packet(now, &rtp).unwrap();
            }
        }
        out.extend(std::iter::from_fn(|| playout.poll_release()).flat_map(|release| release.packets));
    }
    playout.handle_timeout(now + Duration::from_secs(1));
    out.extend(std::iter::from_fn(|| playout.poll_release()).flat_map(|release| release.packets));
    (out, playout)
}

/// Checks that counters are continuous on each PID; returns the number of packets with payload and the clock values.
fn check(bytes: &[u8]) -> (usize, Vec<u64>) {
    let mut counters = std::collections::BTreeMap::new();
    let (mut packets, mut clocks) = (0, Vec::new());
    for packet in bytes.chunks_exact(PACKET_LEN).map(|bytes| Packet::new(bytes).unwrap()) {
        clocks.extend(packet.adaptation().pcr);
        let before = counters.insert(packet.pid(), packet.continuity());
        if packet.has_payload() {
            packets += 1;
            assert!(before.is_none_or(|before| (before + 1) & 0x0f == packet.continuity()), "PID {}", packet.pid());
        }
    }
    (packets, clocks)
}

fn sorted(bytes: &[u8]) -> Vec<&[u8]> {
    let mut packets: Vec<&[u8]> = bytes.chunks_exact(PACKET_LEN).collect();
    packets.sort_unstable();
    packets
}

#[test]
fn units_hold_whole_pes_packets_with_their_kinds_and_references() {
    let mux = Mux::stream();
    let units = units(&mux.bytes);
    let all: Vec<u8> = units.iter().flat_map(|unit| unit.packets.clone()).collect();
    assert_eq!(sorted(&all), sorted(&mux.bytes));
    let pictures: Vec<_> = units.iter().filter(|unit| unit.first == 0 && unit.packets[2] == VIDEO as u8).collect();
    assert_eq!(pictures.len(), 50);
    use UnitKind::{Video, VideoDisposable, VideoEntry};
    for (index, picture) in pictures.iter().enumerate() {
        let kind = [VideoEntry, VideoDisposable, Video, VideoDisposable, Video][index % 5];
        assert_eq!(picture.kind, kind, "picture {index}");
        assert_eq!(picture.references.is_empty(), kind == VideoEntry);
    }
    // The first P picture refers to the I picture.
    assert!(pictures[2].references.iter().eq([timeous_core::FrameId(pictures[0].frame)]));
    let priority = |kind| units.iter().find(|unit| unit.kind == kind).unwrap().priority;
    assert!(priority(UnitKind::Tables) > priority(UnitKind::Audio) && priority(UnitKind::Audio) > priority(VideoEntry));
    assert!(priority(VideoEntry) > priority(Video) && priority(Video) > priority(VideoDisposable));
    assert_eq!(priority(UnitKind::Tables), Priority::HIGHEST);
    let last = units.iter().rev().find_map(|unit| unit.time).unwrap();
    assert_eq!(last, Duration::from_millis(49 * 40));
}

#[test]
fn what_arrives_whole_is_given_out_as_it_was() {
    let mux = Mux::stream();
    let (out, stats) = play(&units(&mux.bytes), |_, _| true);
    assert_eq!(sorted(&out), sorted(&mux.bytes));
    check(&out);
    assert_eq!((stats.incomplete, stats.late, stats.reference_missing, stats.missing), (0, 0, 0, 0), "{stats:?}");
}

#[test]
fn what_is_given_up_leaves_no_gap_in_the_counters_and_the_clock() {
    let units = units(&Mux::stream().bytes);
    // Every other group of pictures is given up, B pictures are, too.
    let of = |unit: &TsUnit| matches!(unit.kind, UnitKind::Video | UnitKind::VideoDisposable | UnitKind::VideoEntry);
    let entries: Vec<u32> =
        units.iter().filter(|unit| unit.kind == UnitKind::VideoEntry).map(|unit| unit.frame).collect();
    let given_up = |unit: &TsUnit| {
        let group = entries.iter().filter(|entry| **entry <= unit.frame).count();
        of(unit) && (group % 2 == 0 || unit.kind == UnitKind::VideoDisposable)
    };
    let (out, stats) = play(&units, |_, unit| !given_up(unit));
    let (_, clocks) = check(&out);
    assert_eq!(stats.incomplete + stats.reference_missing + stats.late, 0, "{stats:?}");
    assert!(stats.missing > 30, "{stats:?}");
    let sounds =
        out.chunks_exact(PACKET_LEN).filter(|packet| packet[1] & 0x40 != 0 && packet[2] == AUDIO as u8).count();
    assert_eq!(sounds, 50, "all sound");
    // Real values are 40 ms apart; a group that was given up leaves 200 ms, bridged by inserted ones.
    assert!(clocks.is_sorted(), "{clocks:?}");
    let longest = clocks.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(longest <= 27_000_000 / 8, "{} ms", longest / 27_000);
}

#[test]
fn each_stream_has_counts_of_its_own() {
    let units = units(&Mux::stream().bytes);
    // Lost: each fifth of the fifty sounds, but not the last; and a part of a picture.
    let lost_sound = |unit: &TsUnit| unit.kind == UnitKind::Audio && unit.place % 5 == 1;
    let cut = units.iter().position(|unit| unit.kind == UnitKind::VideoDisposable && unit.first > 0).unwrap();
    let (_, playout) = play_out(&units, |index, unit| index != cut && !lost_sound(unit));
    let streams: Vec<_> = playout.streams().collect();
    let told: Vec<_> = streams.iter().map(|(stream, _)| (stream.pid, stream.kind, stream.codec)).collect();
    let tables = |pid| (pid, StreamKind::Tables, "");
    let (video, audio) = ((VIDEO, StreamKind::Video, "MPEG-2 video"), (AUDIO, StreamKind::Audio, "AAC"));
    assert_eq!(told, [tables(0), tables(PMT), video, audio]);
    let [.., (_, video), (_, audio)] = streams[..] else { panic!("{streams:?}") };
    assert_eq!((video.released, video.entries, video.incomplete, video.missing), (49, 10, 1, 0), "{video:?}");
    assert_eq!((audio.released, audio.incomplete, audio.missing), (40, 0, 9), "the first was not noticed: {audio:?}");
    let all = playout.stats();
    assert_eq!(all.released, streams.iter().map(|(_, counts)| counts.released).sum::<u64>());
    assert!(all.bytes > 0 && all.bytes == streams.iter().map(|(_, counts)| counts.bytes).sum::<u64>());
}

#[test]
fn a_part_that_comes_after_its_frame_was_given_up_counts_for_nothing() {
    let units = units(&Mux::stream().bytes);
    let mut packetizer = TsPacketizer::new(1_400, 1, 0, 0).unwrap();
    let mut playout = TsPlayout::new(Duration::from_millis(100), Release::Constant);
    let late = units.iter().position(|unit| unit.first > 0).unwrap();
    let at = |time: Duration| Instant::ZERO + time + Duration::from_millis(10);
    let mut kept = Vec::new();
    for (index, unit) in units.iter().enumerate() {
        let time = unit.time.unwrap_or_default();
        let packets = packetizer.packetize(unit, time.as_millis() * 90, false);
        if index == late {
            kept = packets;
        } else {
            packets.iter().for_each(|(_, rtp)| playout.handle_packet(at(time), rtp).unwrap());
        }
    }
    let (before, end) = (playout.stats(), at(units.last().unwrap().time.unwrap()));
    assert_eq!(before.incomplete, 1, "{before:?}");
    kept.iter().for_each(|(_, rtp)| playout.handle_packet(end, rtp).unwrap());
    playout.handle_timeout(end + Duration::from_secs(1));
    assert_eq!((playout.stats().incomplete, playout.stats().missing), (1, 0), "{:?}", playout.stats());
}

#[test]
fn a_picture_with_a_lost_part_goes_with_all_that_refer_to_it() {
    let units = units(&Mux::stream().bytes);
    let lost = units.iter().position(|unit| unit.kind == UnitKind::VideoEntry && unit.first > 0).unwrap();
    let (out, stats) = play(&units, |index, _| index != lost);
    check(&out);
    // Four of its group, and the B picture after the next I picture, which refers to the P picture before.
    assert_eq!((stats.incomplete, stats.reference_missing), (1, 5), "{stats:?}");
}

#[test]
fn a_source_that_is_joined_within_a_packet_or_damaged_is_found_again() {
    let mut mux = Mux::stream();
    let whole = mux.bytes.len() / PACKET_LEN;
    mux.bytes.drain(..500);
    mux.bytes.drain(20_000..20_100);
    let read: usize = units(&mux.bytes).iter().map(|unit| unit.packets.len() / PACKET_LEN).sum();
    assert!((whole - 60..whole).contains(&read), "{read} of {whole}");
}

#[test]
fn a_megabyte_without_a_packet_is_no_transport_stream() {
    let mut reader = TsReader::new();
    assert_eq!(reader.push(&vec![0; 2 << 20]).unwrap_err(), crate::MediaError::NotTransportStream);
}

#[test]
fn another_senders_packets_are_given_out_as_they_are() {
    let mux = Mux::stream();
    let mut playout = TsPlayout::new(Duration::from_millis(100), Release::Constant);
    let rtp: Vec<u8> = [&[0x80, 33, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9], &mux.bytes[..7 * PACKET_LEN]].concat();
    playout.handle_packet(Instant::ZERO, &rtp).unwrap();
    assert_eq!(playout.poll_release().unwrap().packets.len(), 7 * PACKET_LEN);
}

/// Regression: the clock was corrected between two PES packets, so that the second was due before the first, which was given up.
#[test]
fn a_corrected_clock_gives_up_nothing_that_came() {
    let units = units(&Mux::stream().bytes);
    let mut packetizer = TsPacketizer::new(1_400, 1, 0, 0).unwrap();
    let mut playout = TsPlayout::new(Duration::from_millis(100), Release::Constant);
    for (index, unit) in units.iter().enumerate() {
        // A source that writes five pictures at once.
        let time = Duration::from_millis(unit.time.unwrap_or_default().as_millis() / 200 * 200);
        // The way becomes shorter by 100 µs a unit.
        let way = Duration::from_millis(40).saturating_sub(Duration::from_micros(100 * index as u64));
        let now = Instant::ZERO + time + way;
        while let Some(due) = playout.poll_timeout().filter(|due| *due <= now) {
            playout.handle_timeout(due);
        }
        for (_, rtp) in packetizer.packetize(unit, time.as_millis() * 90, false) {
            playout.handle_packet(now, &rtp).unwrap();
        }
    }
    playout.finish();
    assert_eq!(playout.stats().incomplete, 0, "{:?}", playout.stats());
}

/// Found beside builds: an encoder that stands still writes several pictures at once, and the clock values of the first ones were behind
/// those that had been inserted meanwhile.
#[test]
fn clock_values_never_go_back_behind_a_source_that_stood_still() {
    let units = units(&Mux::stream().bytes);
    let mut packetizer = TsPacketizer::new(1_400, 1, 0, 0).unwrap();
    let mut playout = TsPlayout::new(Duration::from_millis(800), Release::Constant);
    let (mut clocks, mut inserted) = (Vec::new(), 0);
    for unit in &units {
        let time = Duration::from_millis(unit.time.unwrap_or_default().as_millis() / 400 * 400);
        let now = Instant::ZERO + time;
        while let Some(due) = playout.poll_timeout().filter(|due| *due <= now) {
            playout.handle_timeout(due);
        }
        for (_, rtp) in packetizer.packetize(unit, time.as_millis() * 90, false) {
            playout.handle_packet(now, &rtp).unwrap();
        }
        while let Some(release) = playout.poll_release() {
            for packet in release.packets.chunks_exact(PACKET_LEN).filter_map(Packet::new) {
                inserted += usize::from(!packet.has_payload());
                clocks.extend(packet.adaptation().pcr);
            }
        }
    }
    assert!(inserted > 5 && clocks.len() > 20, "{inserted} of {} were inserted", clocks.len());
    assert!(clocks.is_sorted(), "{clocks:?}");
}

/// A keyframe over a narrow link: nothing waited before its first packet came, and for 160 ms there was no clock value.
#[test]
fn clock_values_are_inserted_before_a_picture_that_comes_at_the_last_moment() {
    let units = units(&Mux::stream().bytes);
    let mut packetizer = TsPacketizer::new(1_400, 1, 0, 0).unwrap();
    let mut playout = TsPlayout::new(Duration::from_millis(200), Release::Constant);
    let mut clocks = Vec::new();
    for unit in &units {
        let time = Duration::from_millis(unit.time.unwrap_or_default().as_millis());
        let (given_up, late) = (400..600, 600..800);
        let way = Duration::from_millis(if late.contains(&time.as_millis()) { 195 } else { 0 });
        let now = Instant::ZERO + time + way;
        while let Some(due) = playout.poll_timeout().filter(|due| *due <= now) {
            playout.handle_timeout(due);
        }
        for (_, rtp) in packetizer.packetize(unit, time.as_millis() * 90, false) {
            if !given_up.contains(&time.as_millis()) {
                playout.handle_packet(now, &rtp).unwrap();
            }
        }
        while let Some(release) = playout.poll_release() {
            let packets = release.packets.chunks_exact(PACKET_LEN).filter_map(Packet::new);
            clocks.extend(packets.filter_map(|packet| packet.adaptation().pcr));
        }
    }
    let longest = clocks.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) / 27_000).max();
    assert!(clocks.is_sorted() && longest <= Some(100), "{longest:?} ms");
    // Whoever wakes up late is not asked to at once again, for ever.
    let late = Instant::ZERO + Duration::from_secs(60);
    playout.handle_timeout(late);
    assert!(playout.poll_timeout().is_none_or(|due| due > late), "{:?}", playout.poll_timeout());
}

/// A source that is played in a loop, or started again: clock values went back without a word, at which players stop for seconds.
#[test]
fn a_clock_that_begins_anew_is_marked() {
    let once = Mux::stream().bytes;
    for times in 1..4 {
        let (out, stats) = play(&units(&once.repeat(times)), |_, _| true);
        assert_eq!(stats.released as usize, times * 120, "{stats:?}");
        let with_clock =
            out.chunks_exact(PACKET_LEN).filter(|bytes| Packet::new(bytes).unwrap().adaptation().pcr.is_some());
        let marked: Vec<bool> = with_clock.map(|bytes| bytes[5] & 0x80 != 0).collect();
        assert_eq!(marked.iter().filter(|marked| **marked).count(), times - 1, "of {}", marked.len());
        assert!(!marked[0]);
    }
}

/// Found by reading: after half a minute without a sender the clock of the next one was not marked.
#[test]
fn the_clock_of_another_sender_is_marked_however_long_the_break() {
    let units = units(&Mux::stream().bytes);
    for seconds in [1, 60] {
        let mut playout = TsPlayout::new(Duration::from_millis(100), Release::Constant);
        let (mut now, mut marked) = (Instant::ZERO, Vec::new());
        for ssrc in 1..3 {
            let mut packetizer = TsPacketizer::new(1_400, ssrc, 0, 0).unwrap();
            let begin = now + Duration::from_secs(seconds);
            while now < begin {
                now += Duration::from_millis(50);
                playout.handle_timeout(now);
            }
            for unit in &units {
                now = begin + unit.time.unwrap_or_default();
                for (_, rtp) in packetizer.packetize(unit, unit.time.unwrap_or_default().as_millis() * 90, false) {
                    playout.handle_packet(now, &rtp).unwrap();
                }
            }
            now += Duration::from_millis(500);
            playout.handle_timeout(now);
            let packets: Vec<u8> =
                std::iter::from_fn(|| playout.poll_release()).flat_map(|release| release.packets).collect();
            let packets = packets.chunks_exact(PACKET_LEN).filter_map(Packet::new).map(Packet::adaptation);
            let clocks: Vec<bool> = packets.filter(|of| of.pcr.is_some()).map(|of| of.is_discontinuous).collect();
            marked.push((clocks[0], clocks[1..].contains(&true)));
        }
        assert_eq!(marked, [(false, false), (true, false)], "after {seconds} s");
    }
}

#[test]
fn a_pid_is_a_clock_while_a_map_names_it() {
    let mut tables = Tables::default();
    assert!(tables.has_clock(VIDEO), "no map has come");
    tables.push(0, true, &section(0, 0xc1, &[0, 1, 0xe1, 0]));
    for (pid, version) in [(VIDEO, 0xc1), (AUDIO, 0xc3)] {
        let [high, low] = pid.to_be_bytes();
        tables.push(PMT, true, &section(2, version, &[0xe0 | high, low, 0xf0, 0]));
        assert_eq!([VIDEO, AUDIO].map(|of| tables.has_clock(of)), [VIDEO, AUDIO].map(|of| of == pid));
    }
}

/// Found by reading: the clock of the sender before was kept, and what the next one sent was late, or due in hours.
#[test]
fn another_sender_has_a_clock_of_its_own() {
    let units = units(&Mux::stream().bytes);
    let mut playout = TsPlayout::new(Duration::from_millis(100), Release::Constant);
    let (mut now, mut released) = (Instant::ZERO, 0);
    for (ssrc, first_timestamp) in [(1, 900_000_000), (2, 0), (3, 500_000_000)] {
        let mut packetizer = TsPacketizer::new(1_400, ssrc, 0, first_timestamp).unwrap();
        let begin = now + Duration::from_secs(1);
        for unit in &units {
            let time = unit.time.unwrap_or_default();
            now = begin + time;
            for (_, rtp) in packetizer.packetize(unit, time.as_millis() * 90, false) {
                playout.handle_packet(now, &rtp).unwrap();
            }
        }
        playout.handle_timeout(now + Duration::from_millis(500));
        let (all, stats) = (playout.stats().released - released, playout.stats());
        assert_eq!(stats.entries, 10 * u64::from(ssrc), "{stats:?}");
        assert_eq!((all, stats.late), (units.iter().filter(|unit| unit.last).count() as u64, 0), "{stats:?}");
        released = stats.released;
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(mut bytes: Vec<u8>, flips: Vec<(u16, u8)>) {
        let mut reader = TsReader::new();
        bytes.extend(Mux::stream().bytes);
        for (at, to) in flips {
            let at = usize::from(at) % bytes.len();
            bytes[at] = to;
        }
        let _ = reader.push(&bytes);
        reader.flush();
        reader.finish();
        let mut playout = TsPlayout::new(Duration::from_millis(100), Release::Constant);
        let mut packetizer = TsPacketizer::new(1_200, 1, 0, 0).unwrap();
        while let Some(unit) = reader.next_unit() {
            for (_, rtp) in packetizer.packetize(&unit, 0, false) {
                playout.handle_packet(Instant::ZERO, &rtp).unwrap();
            }
        }
        playout.finish();
        while playout.poll_release().is_some() {}
    }

    #[test]
    fn no_packet_makes_the_playout_panic(packets: Vec<Vec<u8>>) {
        let mut playout = TsPlayout::new(Duration::from_millis(100), Release::Immediate);
        for mut packet in packets {
            if packet.len() > 2 {
                (packet[0], packet[1]) = (0x90, 33);
            }
            let _ = playout.handle_packet(Instant::ZERO, &packet);
        }
        playout.handle_timeout(Instant::ZERO + Duration::from_secs(9));
    }
}
