//! Reader: finds packets in a byte stream, and makes units that are sent together, one for a part of each PES packet.

use std::collections::{BTreeMap, VecDeque};

use timeous_core::{Duration, FrameId, Priority, References, SubStream};

use super::packet::{
    M2TS_SPACING, MOST_STEP, NULL_PID, PACKET_LEN, PCR_HZ, PCR_VALUES, Packet, SPACINGS, SYNC, elementary_begin,
    sync_at,
};
use super::psi::{Content, Tables};
use super::section::section_len;
use super::stream::{TsStream, number_of};
use super::unit::TsUnit;
use crate::error::MediaError;
use crate::pictures::{Description, UnitKind, VideoFrames};

/// Bytes without a packet after which the source is no transport stream. Chosen by us: more than any damage that a receiver could
/// bridge.
const MOST_GARBAGE: usize = 1 << 20;
/// Packets of a PES packet that wait until its kind is known, at most: more than the bytes in which a slice is looked for.
const MOST_UNDESCRIBED: usize = 96;
/// Packets of a PES packet, at most: 6 MB, which no picture needs; its number is of 16 bits.
const MOST_PACKETS: u16 = 32_000;
/// Packets of a unit, if nothing ends it before. Chosen by us: a multiple of what fits an Ethernet frame (7) and the default datagram (5),
/// so that few datagrams are short; a higher value holds packets back for longer.
const UNIT: usize = 35;
/// Priorities of what is not video. Chosen by us: nothing can be decoded without tables, and a gap in the sound disturbs more than one
/// in the picture. Subtitles are small, and each stays for seconds.
const TABLES: Priority = Priority::HIGHEST;
const AUDIO: Priority = Priority(250);
const OTHER: Priority = Priority(245);

/// Counts of a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TsCounts {
    /// Packets read, null packets included.
    pub packets: u64,
    /// Null packets, which are not sent.
    pub null: u64,
    /// Packets that the source marks as damaged, that come before the start of a PES packet, or twice.
    pub unused: u64,
    /// Bytes between packets.
    pub garbage: u64,
}

/// Reads a transport stream.
///
/// ```
/// use timeous_media::ts::TsReader;
/// let mut reader = TsReader::new();
/// reader.push(&[0x47; 1])?; // bytes from a pipe, a file, or a datagram
/// reader.flush(); // what has come is to be sent now
/// while let Some(unit) = reader.next_unit() {
///     println!("{:?}: {} bytes", unit.kind, unit.packets.len());
/// }
/// # Ok::<(), timeous_media::MediaError>(())
/// ```
#[derive(Debug, Default)]
pub struct TsReader {
    bytes: Vec<u8>,
    /// Bytes since the last packet.
    astray: usize,
    is_synchronous: bool,
    /// Bytes from one packet to the next, and those that are left before the next one.
    spacing: Option<usize>,
    between: usize,
    tables: Tables,
    pids: BTreeMap<u16, Pid>,
    /// Number of PES packets of each elementary stream so far.
    places: BTreeMap<u16, u32>,
    /// Number of PES packets, and of videos, so far.
    frames: u32,
    videos: u8,
    ready: VecDeque<TsUnit>,
    clock: ProgramClock,
    counts: TsCounts,
}

/// State of a PID.
#[derive(Debug)]
struct Pid {
    content: Content,
    stream: TsStream,
    substream: SubStream,
    video: Option<VideoFrames>,
    open: Option<OpenPes>,
    /// Whether a PES packet of unknown length ends with a packet that is stuffed, as far as it has been seen: with a later packet, and
    /// with its first one.
    ends_stuffed: [Option<bool>; 2],
    /// The last packet, against repetitions (ISO/IEC 13818-1 §2.4.3.3).
    last: Option<[u8; PACKET_LEN]>,
}

/// PES packet, or sections, that have not ended.
#[derive(Debug)]
struct OpenPes {
    number: u32,
    /// Number in its elementary stream.
    place: u32,
    description: Option<Description>,
    /// Whether a decoder can start here, by the adaptation field.
    is_random_access: bool,
    /// Packets sent before, and those that wait.
    sent: u16,
    waiting: Vec<u8>,
    /// Elementary stream so far, until the kind is known.
    elementary: Vec<u8>,
    /// Bytes of payload until the end, if its header tells.
    left: Option<usize>,
    /// Whether the last packet was stuffed, of an unknown length, and whether it was the first one.
    is_stuffed: bool,
    is_single: bool,
    has_ended: bool,
}

impl TsReader {
    /// Creates a reader.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes bytes of the stream.
    ///
    /// # Errors
    /// [`MediaError::NotTransportStream`]: no packet was found in a megabyte.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), MediaError> {
        let mut pending = std::mem::take(&mut self.bytes);
        pending.extend_from_slice(bytes);
        let mut at = 0;
        loop {
            let between = self.between.min(pending.len() - at);
            (self.between, at) = (self.between - between, at + between);
            if pending.len() - at < PACKET_LEN {
                break;
            }
            if !self.is_synchronous || pending[at] != SYNC {
                self.is_synchronous = false;
                match self.spacing_at(&pending, at) {
                    Some(Some(spacing)) => {
                        // Before the first packet is a time stamp, as before each.
                        if spacing == M2TS_SPACING && self.spacing.is_none() {
                            self.counts.garbage =
                                self.counts.garbage.saturating_sub((M2TS_SPACING - PACKET_LEN) as u64);
                        }
                        self.spacing = Some(spacing);
                    }
                    None => break,
                    Some(None) => {
                        at += 1;
                        self.astray += 1;
                        self.counts.garbage += 1;
                        if self.astray > MOST_GARBAGE {
                            return Err(MediaError::NotTransportStream);
                        }
                        continue;
                    }
                }
            }
            (self.is_synchronous, self.astray) = (true, 0);
            if let Some(packet) = Packet::new(&pending[at..at + PACKET_LEN]) {
                self.take(packet);
            }
            at += PACKET_LEN;
            self.between = self.spacing.map_or(0, |spacing| spacing - PACKET_LEN);
        }
        self.bytes = pending.split_off(at);
        Ok(())
    }

    /// Spacing of packets if they begin at a place, that of the first ones if it is known. `None`: too few bytes.
    fn spacing_at(&self, bytes: &[u8], at: usize) -> Option<Option<usize>> {
        let mut is_known = true;
        for spacing in SPACINGS.into_iter().filter(|spacing| self.spacing.is_none_or(|known| known == *spacing)) {
            match sync_at(bytes, at, spacing) {
                // A time stamp before each packet may look like one.
                Some(true) if spacing == M2TS_SPACING => match sync_at(bytes, at + spacing - PACKET_LEN, spacing) {
                    Some(true) => {}
                    Some(false) => return Some(Some(spacing)),
                    None => is_known = false,
                },
                Some(true) => return Some(Some(spacing)),
                Some(false) => {}
                None => is_known = false,
            }
        }
        is_known.then_some(None)
    }

    /// Makes units of what has come, however few packets wait.
    pub fn flush(&mut self) {
        for pid in self.pids.values_mut() {
            if pid.open.as_ref().is_some_and(|open| !open.waiting.is_empty()) {
                self.ready.extend(pid.unit(false, self.clock.time));
            }
        }
    }

    /// Ends the stream: all open PES packets end.
    pub fn finish(&mut self) {
        for mut pid in std::mem::take(&mut self.pids).into_values() {
            self.ready.extend(pid.end(self.clock.time));
        }
    }

    /// Returns the next unit.
    pub fn next_unit(&mut self) -> Option<TsUnit> {
        self.ready.pop_front()
    }

    /// Counts so far.
    pub fn counts(&self) -> TsCounts {
        self.counts
    }

    /// Time of the program clock since its first value, if the stream has one.
    pub fn time(&self) -> Option<Duration> {
        self.clock.time
    }

    fn take(&mut self, packet: Packet<'_>) {
        self.counts.packets += 1;
        let number = packet.pid();
        if number == NULL_PID {
            self.counts.null += 1;
            return;
        }
        if packet.is_damaged() {
            self.counts.unused += 1;
            return;
        }
        let adaptation = packet.adaptation();
        if let Some(pcr) = adaptation.pcr {
            self.clock.hear(number, pcr, adaptation.is_discontinuous);
        }
        if !packet.is_scrambled() {
            self.tables.push(number, packet.starts(), packet.payload());
        }
        let (content, stream) = (self.tables.content(number), self.tables.stream(number, false));
        let pid = self.pids.entry(number).or_insert_with(|| Pid {
            content,
            stream,
            substream: SubStream::TABLES,
            video: None,
            open: None,
            ends_stuffed: [None; 2],
            last: None,
        });
        if pid.last.as_ref() == Some(packet.bytes()) && packet.has_payload() {
            self.counts.unused += 1;
            return;
        }
        let follows = pid.last.as_ref().is_some_and(|last| last[3].wrapping_add(1) & 0x0f == packet.continuity());
        pid.last = Some(*packet.bytes());
        pid.stream = stream;
        if content != pid.content {
            pid.content = content;
            pid.video = None;
        }
        match content {
            Content::Video(codec) if pid.video.is_none() => {
                pid.video = Some(VideoFrames::new(codec));
                pid.substream = SubStream(self.videos);
                self.videos = (self.videos + 1).min(SubStream::AUDIO.0 - 1);
            }
            // A keyframe's group must not outweigh them either: they are not repeated, as tables are.
            Content::Audio | Content::Subtitles => pid.substream = SubStream::AUDIO,
            _ => {}
        }
        let now = self.clock.time;
        if packet.has_payload() && follows {
            pid.learn_end(packet.starts());
        }
        if packet.has_payload() && packet.starts() {
            self.ready.extend(pid.end(now));
        } else if packet.has_payload() && pid.open.is_none() {
            // The stream was joined within a PES packet.
            self.counts.unused += 1;
            return;
        }
        // It goes on after all: what follows needs what came before.
        let before = pid.open.as_ref().filter(|open| open.has_ended || open.sent >= MOST_PACKETS);
        let before = before.map(|open| open.number).filter(|_| !packet.starts());
        if packet.has_payload() && !packet.starts() && before.is_none() {
            return self.ready.extend(pid.take(packet, now));
        }
        self.frames += 1;
        let place = self.places.entry(number_of(number, packet.has_payload())).or_default();
        *place = place.wrapping_add(1);
        let mut open = OpenPes::new(self.frames, *place, adaptation.is_random_access);
        if !packet.has_payload() {
            // The clock alone: useful by itself.
            open.waiting.extend_from_slice(packet.bytes());
            open.description = Some(Description::new(UnitKind::Tables, References::NONE, TABLES));
            let stream = self.tables.stream(number, true);
            let substream = pid.substream;
            return self.ready.extend(open.unit(Content::Tables, stream, substream, None, true, now));
        }
        if let Some(before) = before {
            let kind = if matches!(content, Content::Video(_)) { UnitKind::Video } else { UnitKind::Other };
            let references = References::from([FrameId(before)]);
            open.description = Some(Description::new(kind, references, OTHER));
        } else if self.tables.has_sections(number) {
            open.left = sections_end(packet.payload());
        } else {
            open.left = pes_end(packet.payload()).filter(|_| !packet.is_scrambled());
        }
        pid.open = Some(open);
        self.ready.extend(pid.take(packet, now));
    }
}

impl Pid {
    /// Takes a packet of the open PES packet; returns a unit if enough has come.
    fn take(&mut self, packet: Packet<'_>, time: Option<Duration>) -> Option<TsUnit> {
        let is_video = self.video.is_some();
        let open = self.open.as_mut()?;
        open.take(packet, is_video);
        // Only the end needs stuffing. A multiplexer may stuff others, where a clock was taken out: it is believed once it has been seen.
        open.has_ended |= open.is_stuffed && self.ends_stuffed[usize::from(packet.starts())] == Some(true);
        let ends = open.has_ended;
        if ends || open.waiting.len() >= UNIT * PACKET_LEN { self.unit(ends, time) } else { None }
    }

    /// Learns from the packet after one that was stuffed, which begins another PES packet or not, whether that one was the end.
    fn learn_end(&mut self, begins: bool) {
        if let Some(open) = self.open.as_ref().filter(|open| open.is_stuffed) {
            let ends = &mut self.ends_stuffed[usize::from(open.is_single)];
            *ends = Some(begins && ends.unwrap_or(true));
        }
    }

    /// Ends the open PES packet.
    fn end(&mut self, time: Option<Duration>) -> Option<TsUnit> {
        if self.open.as_ref()?.has_ended { None } else { self.unit(true, time) }
    }

    /// Makes a unit of what waits.
    fn unit(&mut self, ends: bool, time: Option<Duration>) -> Option<TsUnit> {
        self.open.as_mut()?.unit(self.content, self.stream, self.substream, self.video.as_mut(), ends, time)
    }
}

impl OpenPes {
    fn new(number: u32, place: u32, is_random_access: bool) -> Self {
        Self {
            number,
            place,
            description: None,
            is_random_access,
            sent: 0,
            waiting: Vec::new(),
            elementary: Vec::new(),
            left: None,
            is_stuffed: false,
            is_single: false,
            has_ended: false,
        }
    }

    fn take(&mut self, packet: Packet<'_>, is_video: bool) {
        let payload = packet.payload();
        if is_video && self.description.is_none() && !packet.is_scrambled() {
            let begin = if packet.starts() { elementary_begin(payload) } else { 0 };
            self.elementary.extend_from_slice(payload.get(begin..).unwrap_or_default());
        }
        self.waiting.extend_from_slice(packet.bytes());
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(payload.len());
            self.has_ended = *left == 0;
        } else {
            self.is_stuffed = packet.adaptation().is_stuffed;
            self.is_single = packet.starts();
        }
    }

    /// Makes a unit of what waits, unless the kind of the PES packet is not known yet.
    fn unit(
        &mut self,
        content: Content,
        stream: TsStream,
        substream: SubStream,
        video: Option<&mut VideoFrames>,
        ends: bool,
        time: Option<Duration>,
    ) -> Option<TsUnit> {
        let description = match self.description {
            Some(known) => known,
            None => {
                let other = |kind, priority| Description::new(kind, References::NONE, priority);
                let all = ends || self.waiting.len() >= MOST_UNDESCRIBED * PACKET_LEN;
                let described = match (content, video) {
                    (Content::Video(_), Some(video)) => {
                        video.describe(self.number, &self.elementary, self.is_random_access, all)?
                    }
                    (Content::Tables, _) => other(UnitKind::Tables, TABLES),
                    (Content::Audio, _) => other(UnitKind::Audio, AUDIO),
                    (Content::Subtitles, _) => other(UnitKind::Subtitles, OTHER),
                    _ => other(UnitKind::Other, OTHER),
                };
                self.elementary = Vec::new();
                *self.description.insert(described)
            }
        };
        self.has_ended |= ends;
        let packets = std::mem::take(&mut self.waiting);
        let first = self.sent;
        self.sent += (packets.len() / PACKET_LEN) as u16;
        let Description { kind, references, priority, layer, .. } = description;
        Some(TsUnit {
            frame: self.number,
            stream,
            place: self.place,
            first,
            last: self.has_ended,
            kind,
            references,
            priority,
            substream,
            layer,
            time,
            packets,
        })
    }
}

/// Length of the payload until the end of a PES packet, if its header tells (§2.4.3.7); video may leave it open.
fn pes_end(payload: &[u8]) -> Option<usize> {
    match *payload {
        [0, 0, 1, _, high, low, ..] if (high, low) != (0, 0) => Some(6 + usize::from(u16::from_be_bytes([high, low]))),
        _ => None,
    }
}

/// Length of the payload until the end of the sections that begin in it, if the last one ends in it or its length is known.
fn sections_end(payload: &[u8]) -> Option<usize> {
    let mut at = 1 + usize::from(*payload.first()?);
    while let Some(len) = payload.get(at..).and_then(section_len) {
        at += len;
        if at >= payload.len() {
            return Some(at);
        }
    }
    // Stuffing up to the end of this packet.
    Some(payload.len())
}

/// Program clock of the stream: that of the PID whose clock came first.
#[derive(Debug, Default)]
struct ProgramClock {
    pid: Option<u16>,
    last: u64,
    ticks: u64,
    time: Option<Duration>,
}

impl ProgramClock {
    fn hear(&mut self, pid: u16, pcr: u64, is_discontinuous: bool) {
        if *self.pid.get_or_insert(pid) != pid {
            return;
        }
        let step = (pcr + PCR_VALUES - self.last) % PCR_VALUES;
        // A clock that begins anew goes on where it was.
        let is_step = self.time.is_none() || is_discontinuous || step > MOST_STEP;
        self.ticks += if is_step { 0 } else { step };
        self.last = pcr;
        self.time = Some(Duration::from_nanos(self.ticks * 1_000 / (PCR_HZ / 1_000_000)));
    }
}
