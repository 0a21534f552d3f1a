//! Kinds of video frames by the headers at their start: which others refer to them, and where decoding can begin.

use std::collections::VecDeque;

use timeous_core::{FrameId, Priority, References};

use super::kind::UnitKind;
use crate::av1::obu::split_up;
use crate::av1::units::{TemporalUnit, Units};
use crate::frame::Frame;
use crate::h264::annexb::unit_starts;
use crate::h264::bits::payload_of;
use crate::h264::reader::FrameReader;
use crate::h264::svc;
use crate::h265::nal::NalHeader;
use crate::h265::pictures::Pictures;

/// Video codec, as far as its headers tell kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VideoCodec {
    Mpeg2,
    H264,
    H265,
    Av1,
    /// Random access points of the transport stream are all that is known.
    Unknown,
}

/// Bytes of a slice that its header surely fits into. Chosen by us: reference lists and weights of 32 references fit.
const SLICE_HEADER: usize = 512;
/// Bytes of a PES packet within which its first slice is looked for. Chosen by us: longer ones have user data that is not waited for.
const MAX_LOOK: usize = 16 << 10;
/// Frames of H.264 whose number in the stream is remembered: more than a decoder can refer to (H.264 §A.3.1: 16).
const REMEMBERED: usize = 64;
/// Priorities below those of tables and audio. Chosen by us, as for raw H.264: entry points, references, frames without.
const ENTRY: Priority = Priority(240);
const REFERENCE: Priority = Priority(128);
const DISPOSABLE: Priority = Priority(16);
/// Largest temporal identifier of H.265 (§7.4.2.2), and how much less each of its layers is worth. Chosen by us: the layers of a stream
/// stay between references and frames without.
const MAX_TEMPORAL: u8 = 6;
const LAYER_STEP: u8 = 8;

/// Description of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    pub(crate) kind: UnitKind,
    pub(crate) references: References,
    pub(crate) priority: Priority,
    /// Temporal layer of a video, and at least one for a frame that no other refers to.
    pub(crate) layer: u8,
    /// Spatial layer; its temporal layers are worth less than all of the one below.
    pub(crate) spatial: u8,
}

impl Description {
    /// Description of a frame that is of no layer.
    pub(crate) fn new(kind: UnitKind, references: References, priority: Priority) -> Self {
        Self { kind, references, priority, layer: u8::from(kind == UnitKind::VideoDisposable), spatial: 0 }
    }

    fn of_layer(self, layer: u8) -> Self {
        Self { layer: self.layer.max(layer), ..self }
    }
}

/// Frames of a video stream so far.
#[derive(Debug)]
pub(crate) struct VideoFrames {
    codec: VideoCodec,
    /// H.264, which has reference lists.
    reader: Option<Box<FrameReader>>,
    /// Numbers in the stream of the latest frames of H.264, by their index there.
    numbers: VecDeque<(u32, u32)>,
    /// The last two reference frames.
    anchors: [Option<u32>; 2],
    /// H.265, which has reference picture sets.
    pictures: Pictures,
    /// AV1, which has reference slots.
    units: Units,
    /// Highest temporal layer of H.265 so far.
    highest_layer: u8,
    /// Whether an entry point has come: what cannot be read refers to the frame before from then on.
    has_entries: bool,
}

impl VideoFrames {
    pub(crate) fn new(codec: VideoCodec) -> Self {
        let reader = (codec == VideoCodec::H264).then(|| Box::new(FrameReader::new(None)));
        let (numbers, anchors) = (VecDeque::new(), [None; 2]);
        let (pictures, units) = (Pictures::default(), Units::default());
        Self { codec, reader, numbers, anchors, pictures, units, highest_layer: 0, has_entries: false }
    }

    /// Describes the frame `number` by the beginning of its bytes. `None`: more bytes are needed, unless these are `all`.
    pub(crate) fn describe(
        &mut self,
        number: u32,
        bytes: &[u8],
        is_random_access: bool,
        all: bool,
    ) -> Option<Description> {
        let all = all || bytes.len() > MAX_LOOK;
        match self.codec {
            VideoCodec::H264 => self.describe_h264(number, bytes, is_random_access, all),
            VideoCodec::H265 => self.describe_h265(number, bytes, is_random_access, all),
            VideoCodec::Mpeg2 => self.describe_mpeg2(number, bytes, is_random_access, all),
            VideoCodec::Av1 => self.describe_av1(number, bytes, is_random_access, all),
            VideoCodec::Unknown => Some(self.describe_unknown(number, is_random_access)),
        }
    }

    fn describe_h264(&mut self, number: u32, bytes: &[u8], is_entry: bool, all: bool) -> Option<Description> {
        // Types 1 and 5: slices (H.264 table 7-1).
        let slice = unit_starts(bytes).find(|at| matches!(bytes[*at] & 0x1f, 1 | 5));
        let enough = slice.map(|at| at + SLICE_HEADER);
        if !all && enough.is_none_or(|enough| bytes.len() < enough) {
            return None;
        }
        let end = enough.map_or(bytes.len(), |enough| enough.min(bytes.len()));
        let reader = self.reader.as_mut().expect("a stream of H.264 has one");
        let frame = match (slice, reader.push_access_unit(&bytes[..end])) {
            (Some(_), Ok(())) => reader.next_frame(),
            _ => None,
        };
        while reader.next_frame().is_some() {}
        let description = match frame {
            Some(frame) => self.described_by_reader(number, &frame),
            // It cannot be read, such as before the first parameter sets.
            None => self.describe_unknown(number, is_entry),
        };
        let layer = unit_starts(&bytes[..end]).find_map(|at| svc::temporal_layer(&bytes[at..]));
        Some(description.of_layer(layer.unwrap_or(0)))
    }

    fn described_by_reader(&mut self, number: u32, frame: &Frame) -> Description {
        let mut references = References::NONE;
        for id in frame.references.iter() {
            let known = self.numbers.iter().find(|(index, _)| id.0 == index.wrapping_add(1).max(1));
            if let Some((_, number)) = known {
                // A frame refers to at most as many as fit.
                let _ = references.push(FrameId(*number));
            }
        }
        self.numbers.push_back((frame.index, number));
        if self.numbers.len() > REMEMBERED {
            self.numbers.pop_front();
        }
        self.has_entries |= frame.entry.is_some();
        if frame.reference {
            self.anchor(number);
        }
        let kind = match (frame.entry, frame.reference) {
            (Some(_), _) => UnitKind::VideoEntry,
            (None, true) => UnitKind::Video,
            (None, false) => UnitKind::VideoDisposable,
        };
        Description::new(kind, references, frame.priority.min(ENTRY))
    }

    fn describe_h265(&mut self, number: u32, bytes: &[u8], is_entry: bool, all: bool) -> Option<Description> {
        let slice = unit_starts(bytes).find(|at| NalHeader::read(&bytes[*at..]).is_some_and(NalHeader::is_slice));
        let enough = slice.map(|at| at + SLICE_HEADER);
        if !all && enough.is_none_or(|enough| bytes.len() < enough) {
            return None;
        }
        let end = enough.map_or(bytes.len(), |enough| enough.min(bytes.len()));
        let Some(picture) = self.pictures.read(number, &bytes[..end]) else {
            let header = slice.and_then(|at| NalHeader::read(&bytes[at..]));
            let description = self.describe_unknown(number, is_entry || header.is_some_and(NalHeader::is_irap));
            return Some(description.of_layer(header.map_or(0, |header| header.temporal)));
        };
        if picture.header.is_irap() {
            return Some(self.entry(number));
        }
        let (references, layer) = (picture.references, picture.header.temporal.min(MAX_TEMPORAL));
        self.highest_layer = self.highest_layer.max(layer);
        // Pictures of higher layers may refer to it all the same.
        if picture.header.is_sublayer_non_reference() && layer == self.highest_layer {
            return Some(Description::new(UnitKind::VideoDisposable, references, DISPOSABLE).of_layer(layer));
        }
        self.anchor(number);
        let priority = Priority(REFERENCE.0 - LAYER_STEP * layer);
        Some(Description::new(UnitKind::Video, references, priority).of_layer(layer))
    }

    fn describe_av1(&mut self, number: u32, bytes: &[u8], is_entry: bool, all: bool) -> Option<Description> {
        let obus: Vec<Vec<u8>> = if bytes.starts_with(&[0, 0, 1]) {
            // Start codes have emulation prevention, too (Carriage of AV1 in MPEG-2 TS).
            let ends = unit_starts(bytes).skip(1).map(|at| at - 3).chain([bytes.len()]);
            let units = unit_starts(bytes).zip(ends).filter_map(|(at, end)| bytes.get(at..end));
            units
                .filter(|unit| !unit.is_empty())
                .map(|unit| [&unit[..1], &payload_of(unit, SLICE_HEADER)].concat())
                .collect()
        } else {
            split_up(bytes).map(<[u8]>::to_vec).collect()
        };
        let unit = self.units.read(number, obus.iter().map(Vec::as_slice), all)?;
        let TemporalUnit { is_disposable, references: Some(known), .. } = unit else {
            return Some(self.describe_unknown(number, is_entry));
        };
        if unit.is_entry {
            return Some(self.entry(number));
        }
        let mut references = References::NONE;
        // Of more than fit, the newest: they refer to the others, or came after them.
        for reference in known.into_iter().take(References::MAX) {
            let _ = references.push(FrameId(reference));
        }
        let layer = unit.temporal.min(MAX_TEMPORAL);
        if is_disposable {
            return Some(Description::new(UnitKind::VideoDisposable, references, DISPOSABLE).of_layer(layer));
        }
        self.anchor(number);
        let priority = Priority(REFERENCE.0 - LAYER_STEP * layer);
        Some(Description::new(UnitKind::Video, references, priority).of_layer(layer))
    }

    fn describe_mpeg2(&mut self, number: u32, bytes: &[u8], is_entry: bool, all: bool) -> Option<Description> {
        // Picture start code, then temporal reference and coding type (ISO/IEC 13818-2 §6.2.3).
        let picture = unit_starts(bytes).find(|at| bytes[*at] == 0 && bytes.get(at + 2).is_some());
        let Some(at) = picture else { return all.then(|| self.describe_unknown(number, is_entry)) };
        let frames = |frames: &[Option<u32>]| {
            let mut references = References::NONE;
            for frame in frames.iter().flatten() {
                let _ = references.push(FrameId(*frame));
            }
            references
        };
        match bytes[at + 2] >> 3 & 7 {
            1 => Some(self.entry(number)),
            2 => {
                let references = frames(&self.anchors[..1]);
                self.anchor(number);
                Some(Description::new(UnitKind::Video, references, REFERENCE))
            }
            _ => {
                let references = frames(&self.anchors);
                Some(Description::new(UnitKind::VideoDisposable, references, DISPOSABLE))
            }
        }
    }

    /// Describes a frame by the random access points of the transport stream: others refer to the frame before.
    fn describe_unknown(&mut self, number: u32, is_entry: bool) -> Description {
        if is_entry {
            return self.entry(number);
        }
        let before = self.anchors[0].filter(|_| self.has_entries);
        let references = before.map_or(References::NONE, |before| References::from([FrameId(before)]));
        self.anchor(number);
        Description::new(UnitKind::Video, references, REFERENCE)
    }

    fn entry(&mut self, number: u32) -> Description {
        self.has_entries = true;
        self.anchor(number);
        Description::new(UnitKind::VideoEntry, References::NONE, ENTRY)
    }

    fn anchor(&mut self, number: u32) {
        self.anchors = [Some(number), self.anchors[0]];
    }
}
