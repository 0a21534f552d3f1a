//! Program association and map tables (PAT, PMT): what each PID of a transport stream carries (ISO/IEC 13818-1 §2.4.4).

use std::collections::{BTreeMap, BTreeSet};

use super::codec::VideoCodec;
use super::section::{Sections, body};

/// PID of the program association table (§2.4.3.3, table 2-3).
const PAT_PID: u16 = 0;
/// PIDs below this one carry tables (table 2-3; ETSI EN 300 468 §5.1.3).
const FIRST_FREE_PID: u16 = 0x20;
/// Table identifiers (§2.4.4.4, table 2-31).
const PAT_TABLE: u8 = 0;
const PMT_TABLE: u8 = 2;
/// Bits of a section's version in its sixth byte (§2.4.4.5).
const VERSION: u8 = 0x3e;
/// Descriptor tags: registration (§2.6.8); AC-3, Enhanced AC-3, DTS, AAC and the extension (ETSI EN 300 468 §6.1).
const REGISTRATION: u8 = 0x05;
const AUDIO_DESCRIPTORS: [u8; 4] = [0x6a, 0x7a, 0x7b, 0x7c];
const EXTENSION: u8 = 0x7f;
/// Most programs and elementary streams that are remembered. Chosen by us: a whole multiplex has some dozens; more take memory.
const MAX_PIDS: usize = 512;

/// Contents of a PID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Content {
    /// Tables.
    Tables,
    Video(VideoCodec),
    Audio,
    /// Subtitles, teletext and data, and PIDs that no table names.
    #[default]
    Other,
}

/// Contents of a stream's PIDs, as far as its tables tell.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    programs: Sections,
    /// Version of the programs.
    version: Option<u8>,
    maps: BTreeMap<u16, Sections>,
    streams: BTreeMap<u16, Content>,
    /// Stream types of PIDs (§2.4.4.9), by their maps.
    types: BTreeMap<u16, u8>,
    /// PIDs of sections, which have no PES packets.
    sections: BTreeSet<u16>,
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
        }
    }

    /// Returns the contents of a PID.
    pub(super) fn content(&self, pid: u16) -> Content {
        if pid < FIRST_FREE_PID || self.maps.contains_key(&pid) {
            return Content::Tables;
        }
        self.streams.get(&pid).copied().unwrap_or_default()
    }

    /// Stream type of a PID (§2.4.4.9), if a map names it.
    pub(super) fn stream_type(&self, pid: u16) -> Option<u8> {
        self.types.get(&pid).copied()
    }

    /// Whether a map has come.
    pub(super) fn has_maps(&self) -> bool {
        !self.types.is_empty()
    }

    /// PIDs that maps name with this stream type, from the lowest.
    pub(super) fn of_type(&self, kind: u8) -> impl Iterator<Item = u16> + '_ {
        self.types.iter().filter(move |(_, of)| **of == kind).map(|(pid, _)| *pid)
    }

    /// Whether a PID carries sections, not PES packets.
    pub(super) fn has_sections(&self, pid: u16) -> bool {
        self.content(pid) == Content::Tables || self.sections.contains(&pid)
    }

    fn take_programs(&mut self, section: &[u8]) {
        if section.first() != Some(&PAT_TABLE) || !is_current(section) {
            return;
        }
        let version = section[5] & VERSION;
        if self.version.replace(version).is_some_and(|before| before != version) {
            // Other maps may be at other PIDs, and their old ones may carry something else.
            self.maps.clear();
        }
        for entry in body(section).chunks_exact(4) {
            let (program, pid) = (u16::from_be_bytes([entry[0], entry[1]]), pid_of(entry[2], entry[3]));
            // Program zero names the network information table, which is a table, too.
            if self.maps.len() < MAX_PIDS && (program > 0 || pid >= FIRST_FREE_PID) {
                self.maps.entry(pid).or_default();
            }
        }
    }

    fn take_map(&mut self, section: &[u8]) {
        let [_, _, high, low, rest @ ..] = body(section) else { return };
        if section.first() != Some(&PMT_TABLE) || !is_current(section) {
            return;
        }
        let mut entries = rest.get(length(*high, *low)..).unwrap_or_default();
        while let [kind, pid_high, pid_low, len_high, len_low, rest @ ..] = entries {
            let len = length(*len_high, *len_low).min(rest.len());
            let (descriptors, after) = rest.split_at(len);
            let pid = pid_of(*pid_high, *pid_low);
            if self.streams.len() < MAX_PIDS || self.streams.contains_key(&pid) {
                self.streams.insert(pid, content_of(*kind, descriptors));
                self.types.insert(pid, *kind);
                if is_sections(*kind) {
                    self.sections.insert(pid);
                } else {
                    self.sections.remove(&pid);
                }
            }
            entries = after;
        }
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

/// Contents of an elementary stream, by its type (§2.4.4.9, table 2-34; ATSC A/53 part 3 for 0x81 and 0x87) and descriptors.
fn content_of(kind: u8, descriptors: &[u8]) -> Content {
    match kind {
        0x01 | 0x02 => Content::Video(VideoCodec::Mpeg2),
        0x1b => Content::Video(VideoCodec::H264),
        0x24 => Content::Video(VideoCodec::H265),
        // MPEG-4 part 2, VVC, EVC, and others known by random access points only.
        0x10 | 0x33..=0x35 | 0xea => Content::Video(VideoCodec::Unknown),
        0x03 | 0x04 | 0x0f | 0x11 | 0x1c | 0x2d | 0x2e | 0x81 | 0x82 | 0x84..=0x85 | 0x87 => Content::Audio,
        0x06 => private(descriptors),
        _ => Content::Other,
    }
}

/// Contents of private PES packets, by their descriptors.
fn private(mut descriptors: &[u8]) -> Content {
    while let [tag, len, rest @ ..] = descriptors {
        let (data, after) = rest.split_at(usize::from(*len).min(rest.len()));
        match (*tag, data) {
            (REGISTRATION, [b'H', b'E', b'V', b'C', ..]) => return Content::Video(VideoCodec::H265),
            (REGISTRATION, [b'A', b'V', b'0', b'1', ..]) => return Content::Video(VideoCodec::Unknown),
            (
                REGISTRATION,
                [b'O', b'p', b'u', b's', ..] | [b'A', b'C', b'-', b'3' | b'4', ..] | [b'E', b'A', b'C', b'3', ..],
            ) => {
                return Content::Audio;
            }
            (EXTENSION, [0x80 | 0x15 | 0x0e | 0x0f, ..]) => return Content::Audio,
            (tag, _) if AUDIO_DESCRIPTORS.contains(&tag) => return Content::Audio,
            _ => descriptors = after,
        }
    }
    Content::Other
}
