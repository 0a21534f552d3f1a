//! Program association and map tables (PAT, PMT): what each PID of a transport stream carries (ISO/IEC 13818-1 §2.4.4).

use std::collections::{BTreeMap, BTreeSet};

use super::packet::elementary_begin;
use super::section::{Sections, body};
use super::stream::{StreamKind, TsStream};
use crate::av1::obu::begins_temporal_unit;
use crate::pictures::VideoCodec;

/// PID of the program association table (§2.4.3.3, table 2-3).
const PAT_PID: u16 = 0;
/// PIDs below this one carry tables (table 2-3; ETSI EN 300 468 §5.1.3).
const FIRST_FREE_PID: u16 = 0x20;
/// Table identifiers (§2.4.4.4, table 2-31).
const PAT_TABLE: u8 = 0;
const PMT_TABLE: u8 = 2;
/// Bits of a section's version in its sixth byte (§2.4.4.5).
const VERSION: u8 = 0x3e;
/// Descriptor tag of a registration (§2.6.8), and of the extension of ETSI EN 300 468 §6.1.
const REGISTRATION: u8 = 0x05;
const EXTENSION: u8 = 0x7f;
/// Descriptor tags that tell the contents of private PES packets (ETSI EN 300 468 §6.1).
const DESCRIBED: [(u8, Content, &str); 7] = [
    (0x46, Content::Subtitles, "VBI teletext"),
    (0x56, Content::Subtitles, "teletext"),
    (0x59, Content::Subtitles, "DVB subtitles"),
    (0x6a, Content::Audio, "AC-3"),
    (0x7a, Content::Audio, "E-AC-3"),
    (0x7b, Content::Audio, "DTS"),
    (0x7c, Content::Audio, "AAC"),
];
/// Registrations (SMPTE RA) that do.
const REGISTERED: [(&[u8; 4], Content, &str); 8] = [
    (b"HEVC", Content::Video(VideoCodec::H265), "H.265"),
    (b"AV01", Content::Video(VideoCodec::Av1), "AV1"),
    (b"Opus", Content::Audio, "Opus"),
    (b"AC-3", Content::Audio, "AC-3"),
    (b"AC-4", Content::Audio, "AC-4"),
    (b"EAC3", Content::Audio, "E-AC-3"),
    (b"KLVA", Content::Other, "KLV"),
    (b"ID3 ", Content::Other, "ID3"),
];
/// Most programs and elementary streams that are remembered. Chosen by us: a whole multiplex has some dozens; more take memory.
const MAX_PIDS: usize = 512;

/// Contents of a PID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Content {
    /// Tables.
    Tables,
    Video(VideoCodec),
    Audio,
    /// Subtitles and teletext.
    Subtitles,
    /// Data, and PIDs that no table names.
    #[default]
    Other,
}

/// Elementary stream, by a map.
#[derive(Clone, Copy, Debug)]
struct Elementary {
    /// Program whose map names it.
    program: u16,
    /// Stream type (§2.4.4.9).
    kind: u8,
    content: Content,
    codec: &'static str,
}

/// Contents of a stream's PIDs, as far as its tables tell.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    programs: Sections,
    /// Version of the programs.
    version: Option<u8>,
    maps: BTreeMap<u16, Sections>,
    streams: BTreeMap<u16, Elementary>,
    /// PID with the clock of each program.
    clocks: BTreeMap<u16, u16>,
}

impl Tables {
    /// Takes the payload of a packet; it may be of any PID.
    pub(super) fn push(&mut self, pid: u16, starts: bool, payload: &[u8]) {
        if pid == PAT_PID {
            for section in self.programs.push(starts, payload) {
                self.take_programs(&section);
            }
        } else if let Some(map) = self.maps.get_mut(&pid) {
            for section in map.push(starts, payload) {
                self.take_map(&section);
            }
        } else if starts {
            self.begin_pes(pid, payload);
        }
    }

    /// Returns the contents of a PID.
    pub(super) fn content(&self, pid: u16) -> Content {
        if pid < FIRST_FREE_PID || self.maps.contains_key(&pid) {
            return Content::Tables;
        }
        self.streams.get(&pid).map(|stream| stream.content).unwrap_or_default()
    }

    /// Describes the elementary stream of a PID, or its clock alone.
    pub(super) fn stream(&self, pid: u16, is_clock: bool) -> TsStream {
        let codec = self.streams.get(&pid).map_or("", |stream| stream.codec);
        let kind = match self.content(pid) {
            _ if is_clock => StreamKind::Clock,
            Content::Tables => StreamKind::Tables,
            Content::Video(_) => StreamKind::Video,
            Content::Audio => StreamKind::Audio,
            Content::Subtitles => StreamKind::Subtitles,
            Content::Other => StreamKind::Data,
        };
        TsStream { pid, kind, codec: if is_clock { "" } else { codec } }
    }

    /// Stream type of a PID (§2.4.4.9), if a map names it.
    pub(super) fn stream_type(&self, pid: u16) -> Option<u8> {
        self.streams.get(&pid).map(|stream| stream.kind)
    }

    /// Whether a map has come.
    pub(super) fn has_maps(&self) -> bool {
        !self.streams.is_empty()
    }

    /// PIDs that maps name with this stream type, from the lowest.
    pub(super) fn of_type(&self, kind: u8) -> impl Iterator<Item = u16> + '_ {
        self.streams.iter().filter(move |(_, of)| of.kind == kind).map(|(pid, _)| *pid)
    }

    /// Whether a PID carries a program's clock, or may, as no map has come.
    pub(super) fn has_clock(&self, pid: u16) -> bool {
        self.clocks.is_empty() || self.clocks.values().any(|clock| *clock == pid)
    }

    /// Program of a PID, if a map names it, and the PID of its clock. Of programs with one clock it is the first.
    pub(super) fn program_of(&self, pid: u16) -> Option<(u16, u16)> {
        let of_stream = self.streams.get(&pid).and_then(|stream| self.clocks.get(&stream.program));
        let clock = of_stream.copied().unwrap_or(pid);
        self.clocks.iter().find(|(_, of)| **of == clock).map(|(program, _)| (*program, clock))
    }

    /// Whether a program is there.
    pub(super) fn has_program(&self, program: u16) -> bool {
        self.clocks.contains_key(&program)
    }

    /// Elementary streams that maps name.
    pub(super) fn streams(&self) -> impl Iterator<Item = TsStream> + '_ {
        self.streams.keys().map(|pid| self.stream(*pid, false))
    }

    /// Whether a PID carries sections, not PES packets.
    pub(super) fn has_sections(&self, pid: u16) -> bool {
        let content = self.content(pid);
        content == Content::Tables || content != Content::Audio && self.stream_type(pid).is_some_and(is_sections)
    }

    /// Takes the beginning of a PES packet: a stream of which the map tells nothing is sound or video, if its stream ID says so
    /// (§2.4.3.7, table 2-22). ffmpeg writes AV1 so, and other video that has no stream type.
    fn begin_pes(&mut self, pid: u16, payload: &[u8]) {
        let [0, 0, 1, id @ 0xc0..=0xef, ..] = payload else { return };
        let Some(stream) = self.streams.get_mut(&pid) else { return };
        if (stream.content, stream.codec) != (Content::Other, "") {
            return;
        }
        let is_av1 = || payload.get(elementary_begin(payload)..).is_some_and(begins_temporal_unit);
        (stream.content, stream.codec) = match id {
            ..=0xdf => (Content::Audio, ""),
            _ if is_av1() => (Content::Video(VideoCodec::Av1), "AV1"),
            _ => (Content::Video(VideoCodec::Unknown), ""),
        };
    }

    fn take_programs(&mut self, section: &[u8]) {
        if section.first() != Some(&PAT_TABLE) || !is_current(section) {
            return;
        }
        let version = section[5] & VERSION;
        let entries = body(section).chunks_exact(4);
        let programs = entries.map(|entry| (u16::from_be_bytes([entry[0], entry[1]]), pid_of(entry[2], entry[3])));
        if self.version.replace(version).is_some_and(|before| before != version) {
            // Other maps may be at other PIDs, and their old ones may carry something else.
            self.maps.clear();
            let is_there = |of: u16| programs.clone().any(|(program, _)| program == of);
            self.streams.retain(|_, stream| is_there(stream.program));
            self.clocks.retain(|program, _| is_there(*program));
        }
        for (program, pid) in programs {
            // Program zero names the network information table, which is a table, too.
            if self.maps.len() < MAX_PIDS && (program > 0 || pid >= FIRST_FREE_PID) {
                self.maps.entry(pid).or_default();
            }
        }
    }

    fn take_map(&mut self, section: &[u8]) {
        let [clock_high, clock_low, high, low, rest @ ..] = body(section) else { return };
        if section.first() != Some(&PMT_TABLE) || !is_current(section) {
            return;
        }
        let program = u16::from_be_bytes([section[3], section[4]]);
        if self.clocks.len() < MAX_PIDS || self.clocks.contains_key(&program) {
            self.clocks.insert(program, pid_of(*clock_high, *clock_low));
        }
        // What this map named before, and does not name now, is gone.
        let mut gone: BTreeSet<u16> =
            self.streams.iter().filter(|(_, stream)| stream.program == program).map(|(pid, _)| *pid).collect();
        let (program_info, mut entries) = rest.split_at(length(*high, *low).min(rest.len()));
        let is_blu_ray = descriptors(program_info).any(|(tag, data)| tag == REGISTRATION && data.starts_with(b"HDMV"));
        while let [kind, pid_high, pid_low, len_high, len_low, rest @ ..] = entries {
            let len = length(*len_high, *len_low).min(rest.len());
            let (info, after) = rest.split_at(len);
            let pid = pid_of(*pid_high, *pid_low);
            if self.streams.len() < MAX_PIDS || self.streams.contains_key(&pid) {
                let known = blu_ray(*kind).filter(|_| is_blu_ray);
                let (content, codec) = known.unwrap_or_else(|| content_of(*kind, info));
                // Each repetition of the map would forget what the stream's PES packets told.
                let told = self.streams.get(&pid).filter(|before| before.kind == *kind && codec.is_empty());
                let (content, codec) = told.map_or((content, codec), |before| (before.content, before.codec));
                self.streams.insert(pid, Elementary { program, kind: *kind, content, codec });
                gone.remove(&pid);
            }
            entries = after;
        }
        self.streams.retain(|pid, _| !gone.contains(pid));
    }
}

/// Whether a section is in force, not to come (`current_next_indicator`, §2.4.4.5).
fn is_current(section: &[u8]) -> bool {
    section.get(5).is_some_and(|flags| flags & 1 != 0)
}

fn pid_of(high: u8, low: u8) -> u16 {
    u16::from_be_bytes([high & 0x1f, low])
}

fn length(high: u8, low: u8) -> usize {
    usize::from(u16::from_be_bytes([high & 0x0f, low]))
}

/// Stream types that are carried in sections: private and DSM-CC sections, SCTE 35 (§2.4.4.9, table 2-34).
fn is_sections(kind: u8) -> bool {
    matches!(kind, 0x05 | 0x0a..=0x0d | 0x86)
}

/// Contents of an elementary stream, by its type (§2.4.4.9, table 2-34; ATSC A/53 part 3 from 0x81 on) and descriptors, and its codec.
fn content_of(kind: u8, descriptors: &[u8]) -> (Content, &'static str) {
    let unknown = Content::Video(VideoCodec::Unknown);
    match kind {
        0x01 => (Content::Video(VideoCodec::Mpeg2), "MPEG-1 video"),
        0x02 => (Content::Video(VideoCodec::Mpeg2), "MPEG-2 video"),
        0x1b => (Content::Video(VideoCodec::H264), "H.264"),
        0x24 => (Content::Video(VideoCodec::H265), "H.265"),
        // Known by random access points only.
        0x10 => (unknown, "MPEG-4 video"),
        0x33 | 0x34 => (unknown, "VVC"),
        0x35 => (unknown, "EVC"),
        0xea => (unknown, "VC-1"),
        0x03 | 0x04 => (Content::Audio, "MPEG audio"),
        0x0f => (Content::Audio, "AAC"),
        0x11 => (Content::Audio, "AAC (LATM)"),
        0x1c | 0x2d | 0x2e => (Content::Audio, "MPEG-4 audio"),
        0x81 => (Content::Audio, "AC-3"),
        0x82 | 0x85 => (Content::Audio, "DTS"),
        0x84 | 0x87 => (Content::Audio, "E-AC-3"),
        0x06 => private(descriptors),
        0x86 => (Content::Other, "SCTE 35"),
        0x90 => (Content::Subtitles, "PGS"),
        _ => (Content::Other, ""),
    }
}

/// Contents by the stream types that only Blu-ray discs and AVCHD cameras use, and their codec: programs with the registration `HDMV`
/// (types as in ffmpeg's `HDMV_types`).
fn blu_ray(kind: u8) -> Option<(Content, &'static str)> {
    Some(match kind {
        0x80 => (Content::Audio, "LPCM"),
        0x83 => (Content::Audio, "TrueHD"),
        0x86 | 0xa2 => (Content::Audio, "DTS"),
        0xa1 => (Content::Audio, "E-AC-3"),
        0x92 => (Content::Subtitles, "text"),
        _ => return None,
    })
}

/// Descriptors: tags and data (§2.6).
fn descriptors(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let [tag, len, rest @ ..] = bytes else { return None };
        let (data, after) = rest.split_at(usize::from(*len).min(rest.len()));
        bytes = after;
        Some((*tag, data))
    })
}

/// Contents of private PES packets, by their descriptors.
fn private(bytes: &[u8]) -> (Content, &'static str) {
    for (tag, data) in descriptors(bytes) {
        let registered = REGISTERED.iter().find(|(name, ..)| tag == REGISTRATION && data.starts_with(&name[..]));
        let described = DESCRIBED.iter().find(|(known, ..)| *known == tag);
        match (registered, described, data) {
            (Some(&(_, content, codec)), ..) | (_, Some(&(_, content, codec)), _) => return (content, codec),
            (.., [0x80, ..]) if tag == EXTENSION => return (Content::Audio, "Opus"),
            (.., [0x15, ..]) if tag == EXTENSION => return (Content::Audio, "AC-4"),
            (.., [0x0e | 0x0f, ..]) if tag == EXTENSION => return (Content::Audio, "DTS"),
            _ => {}
        }
    }
    (Content::Other, "")
}
