//! Multiplexer: samples of elementary streams as a transport stream of one program, with a program clock.

use super::sample::Sample;
use super::track::{Track, TrackFormat};
use crate::rtp::RTP_CLOCK_HZ;
use crate::ts::PACKET_LEN;
use crate::ts::packet::{SYNC, TIME_VALUES};
use crate::ts::section::crc;

/// PIDs of the program's map, and of its first track. Chosen by us.
const MAP_PID: u16 = 0x1000;
const FIRST_PID: u16 = 0x100;
/// Number of the program. Chosen by us.
const PROGRAM: u16 = 1;
/// Time of the first sample, in ticks of 90 kHz: two seconds, so that edit lists and the clock's lead keep times positive.
const ORIGIN: i64 = 2 * RTP_CLOCK_HZ as i64;
/// Delay of the program clock behind decoding times, in the same ticks: 200 ms. Chosen by us: a higher value delays the picture, a
/// lower one leaves a decoder less time for a keyframe.
const CLOCK_LEAD: i64 = 18_000;
/// Longest time between two program clock values, in the same ticks: 80 ms (ISO/IEC 13818-1 §2.7.2: at most 100 ms).
const CLOCK_INTERVAL: i64 = 7_200;
/// Longest time between two tables, in the same ticks: 400 ms (ETSI TR 101 290 §5.2.1: at most 500 ms).
const TABLES_INTERVAL: i64 = 36_000;
/// Stream identifiers of PES packets (§2.4.3.7, table 2-22): video, audio, private.
const VIDEO: u8 = 0xe0;
const AUDIO: u8 = 0xc0;
const PRIVATE: u8 = 0xbd;
/// Registrations (§2.6.8) of formats that have no stream type.
const REGISTRATION: u8 = 0x05;
const LANGUAGE: u8 = 0x0a;

/// Writes samples as a transport stream.
#[derive(Debug)]
pub struct TsMuxer {
    tracks: Vec<Track>,
    /// Continuity counters: of the tracks, then of the two tables.
    counters: Vec<u8>,
    /// Track with the program clock.
    clock: usize,
    clock_at: Option<i64>,
    tables_at: Option<i64>,
}

impl TsMuxer {
    /// Creates a multiplexer of one program.
    pub fn new(tracks: Vec<Track>) -> Self {
        let clock = tracks.iter().position(|track| track.format.is_video()).unwrap_or(0);
        Self { counters: vec![0; tracks.len() + 2], tracks, clock, clock_at: None, tables_at: None }
    }

    /// Tracks of the program.
    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// Writes the next sample as whole packets. Samples come in order of their decoding times.
    pub fn push(&mut self, sample: &Sample) -> Vec<u8> {
        let mut out = Vec::with_capacity(sample.data.len() + sample.data.len() / 16 + 4 * PACKET_LEN);
        let decode = sample.decode + ORIGIN;
        let is_video = self.tracks[sample.track].format.is_video();
        let is_due = self.tables_at.is_none_or(|at| decode - at >= TABLES_INTERVAL);
        if is_due || is_video && sample.is_entry {
            self.tables_at = Some(decode);
            self.tables(&mut out);
        }
        let is_due = self.clock_at.is_none_or(|at| decode - at >= CLOCK_INTERVAL);
        let clock = (sample.track == self.clock || is_due).then(|| (decode - CLOCK_LEAD).max(0));
        if clock.is_some() {
            self.clock_at = Some(decode);
        }
        if let Some(clock) = clock.filter(|_| sample.track != self.clock) {
            // Its own track has nothing to carry it.
            let counter = self.counters[self.clock].wrapping_sub(1);
            packet(&mut out, self.pid(self.clock), counter, false, false, Some(clock), &mut &[][..]);
        }
        let pes = self.pes(sample, decode);
        let mut rest = pes.as_slice();
        let mut is_first = true;
        while !rest.is_empty() {
            let counter = self.counters[sample.track];
            self.counters[sample.track] = counter.wrapping_add(1);
            let clock = clock.filter(|_| is_first && sample.track == self.clock);
            let is_entry = is_first && is_video && sample.is_entry;
            packet(&mut out, self.pid(sample.track), counter, is_first, is_entry, clock, &mut rest);
            is_first = false;
        }
        out
    }

    /// Writes a sample as a container holds it; `None`: it is damaged.
    pub(super) fn push_stored(&mut self, mut sample: Sample) -> Option<Vec<u8>> {
        sample.data = self.tracks[sample.track].format.elementary(sample.data, sample.is_entry)?;
        Some(self.push(&sample))
    }

    fn pid(&self, track: usize) -> u16 {
        FIRST_PID + track as u16
    }

    /// Header of a PES packet, and the sample (§2.4.3.6).
    fn pes(&self, sample: &Sample, decode: i64) -> Vec<u8> {
        let presented = sample.presented + ORIGIN;
        let has_both = presented != decode;
        let times = if has_both { 10 } else { 5 };
        let id = match self.tracks[sample.track].format {
            TrackFormat::H264(_) | TrackFormat::H265(_) | TrackFormat::Mpeg2 { .. } => VIDEO,
            TrackFormat::Aac(_) | TrackFormat::MpegAudio => AUDIO,
            _ => PRIVATE,
        };
        // Only video may leave its length open.
        let len = u16::try_from(3 + times + sample.data.len()).unwrap_or(0);
        let [high, low] = len.to_be_bytes();
        let flags = if has_both { 0xc0 } else { 0x80 };
        let mut pes = vec![0, 0, 1, id, high, low, 0x84, flags, times as u8];
        pes.extend(time_stamp(if has_both { 3 } else { 2 }, presented));
        if has_both {
            pes.extend(time_stamp(1, decode));
        }
        pes.extend_from_slice(&sample.data);
        pes
    }

    fn tables(&mut self, out: &mut Vec<u8>) {
        let [high, low] = PROGRAM.to_be_bytes();
        let [map_high, map_low] = MAP_PID.to_be_bytes();
        self.section(out, 0, 0, &[high, low, 0xe0 | map_high, map_low]);
        let [high, low] = self.pid(self.clock).to_be_bytes();
        let mut map = vec![0xe0 | high, low, 0xf0, 0];
        for (index, track) in self.tracks.iter().enumerate() {
            let [high, low] = self.pid(index).to_be_bytes();
            let (kind, mut descriptors) = stream_type(&track.format);
            if let Some(language) = track.language {
                descriptors.extend([LANGUAGE, 4]);
                descriptors.extend(language);
                descriptors.push(0);
            }
            map.extend([kind, 0xe0 | high, low, 0xf0, descriptors.len() as u8]);
            map.extend(descriptors);
        }
        self.section(out, MAP_PID, 2, &map);
    }

    /// Writes a section (§2.4.4) of a table with this body.
    fn section(&mut self, out: &mut Vec<u8>, pid: u16, table: u8, body: &[u8]) {
        let [high, low] = (body.len() as u16 + 9).to_be_bytes();
        let [program_high, program_low] = PROGRAM.to_be_bytes();
        // After the pointer: current version zero, section zero of zero.
        let mut section = vec![0, table, 0xb0 | high, low, program_high, program_low, 0xc1, 0, 0];
        section.extend_from_slice(body);
        section.extend(crc(&section[1..]).to_be_bytes());
        // Stuffed by itself, not in the adaptation field: sections may end anywhere.
        let len = section.len().next_multiple_of(PACKET_LEN - 4);
        section.resize(len, 0xff);
        let counter = self.tracks.len() + usize::from(table > 0);
        let (mut rest, mut is_first) = (section.as_slice(), true);
        while !rest.is_empty() {
            packet(out, pid, self.counters[counter], is_first, false, None, &mut rest);
            self.counters[counter] = self.counters[counter].wrapping_add(1);
            is_first = false;
        }
    }
}

/// Stream type (§2.4.4.9, table 2-34; ATSC A/52 annex A for AC-3) and descriptors of a format.
fn stream_type(format: &TrackFormat) -> (u8, Vec<u8>) {
    let registered = |name: &[u8; 4]| [&[REGISTRATION, 4], &name[..]].concat();
    match format {
        TrackFormat::Mpeg2 { .. } => (0x02, Vec::new()),
        TrackFormat::H264(_) => (0x1b, Vec::new()),
        TrackFormat::H265(_) => (0x24, registered(b"HEVC")),
        TrackFormat::MpegAudio => (0x03, Vec::new()),
        TrackFormat::Aac(_) => (0x0f, Vec::new()),
        TrackFormat::Ac3 => (0x81, registered(b"AC-3")),
        TrackFormat::Eac3 => (0x87, registered(b"EAC3")),
        TrackFormat::Opus { channels } => {
            // The extension descriptor with the channel configuration, as ffmpeg and GStreamer have it.
            (0x06, [&registered(b"Opus")[..], &[0x7f, 2, 0x80, *channels]].concat())
        }
        TrackFormat::Av1 { .. } => (0x06, registered(b"AV01")),
        TrackFormat::Vp8 | TrackFormat::Vp9 => (0x06, Vec::new()),
    }
}

/// Time stamp of 33 bits with markers (§2.4.3.7).
fn time_stamp(prefix: u8, time: i64) -> [u8; 5] {
    let time = time.rem_euclid(TIME_VALUES);
    [
        prefix << 4 | (time >> 29) as u8 & 0x0e | 1,
        (time >> 22) as u8,
        (time >> 14) as u8 | 1,
        (time >> 7) as u8,
        (time << 1) as u8 | 1,
    ]
}

/// Writes a packet with as much of `rest` as fits, which may be nothing if it has a clock.
fn packet(
    out: &mut Vec<u8>,
    pid: u16,
    counter: u8,
    starts: bool,
    is_entry: bool,
    clock: Option<i64>,
    rest: &mut &[u8],
) {
    let mut adaptation = Vec::new();
    if clock.is_some() || is_entry {
        adaptation.push(if is_entry { 0x40 } else { 0 } | if clock.is_some() { 0x10 } else { 0 });
        if let Some(clock) = clock {
            let base = clock.rem_euclid(TIME_VALUES);
            adaptation.extend([(base >> 25) as u8, (base >> 17) as u8, (base >> 9) as u8, (base >> 1) as u8]);
            adaptation.extend([((base & 1) << 7) as u8 | 0x7e, 0]);
        }
    }
    let used = if adaptation.is_empty() { 0 } else { 1 + adaptation.len() };
    let len = rest.len().min(PACKET_LEN - 4 - used);
    // Of 183 bytes the field's length alone is left.
    if used + len < PACKET_LEN - 4 {
        if adaptation.is_empty() && PACKET_LEN - 5 - len > 0 {
            adaptation.push(0);
        }
        adaptation.resize(PACKET_LEN - 5 - len, 0xff);
    }
    let has_adaptation = len < PACKET_LEN - 4;
    let [high, low] = pid.to_be_bytes();
    let control = if has_adaptation { 0x20 } else { 0 } | if len > 0 { 0x10 } else { 0 };
    out.extend([SYNC, if starts { 0x40 } else { 0 } | high, low, control | counter & 0x0f]);
    if has_adaptation {
        out.push(adaptation.len() as u8);
        out.extend(adaptation);
    }
    let (now, after) = rest.split_at(len);
    out.extend_from_slice(now);
    *rest = after;
}
