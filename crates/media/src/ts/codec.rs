//! Kinds of video frames in PES packets, by the headers at their start: which others refer to them, and where decoding can begin.

use std::collections::VecDeque;

use timeous_core::{FrameId, Priority, References};

use super::unit::TsKind;
use crate::frame::Frame;
use crate::h264::reader::FrameReader;

/// Video codec, as far as its headers tell kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VideoCodec {
    Mpeg2,
    H264,
    H265,
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
/// Largest temporal identifier of H.265 (§7.4.2.2).
const TEMPORAL_LAYERS: usize = 7;

/// Description of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Description {
    pub(super) kind: TsKind,
    pub(super) references: References,
    pub(super) priority: Priority,
}

/// Frames of a video stream so far.
#[derive(Debug)]
pub(super) struct VideoFrames {
    codec: VideoCodec,
    /// H.264, which has reference lists.
    reader: Option<Box<FrameReader>>,
    /// Numbers in the stream of the latest frames of H.264, by their index there.
    numbers: VecDeque<(u32, u32)>,
    /// The last two reference frames.
    anchors: [Option<u32>; 2],
    /// The last reference frame of each temporal layer.
    layers: [Option<u32>; TEMPORAL_LAYERS],
    /// Whether the stream has marked a random access point.
    has_entries: bool,
}

impl VideoFrames {
    pub(super) fn new(codec: VideoCodec) -> Self {
        let reader = (codec == VideoCodec::H264).then(|| Box::new(FrameReader::new(None)));
        let (numbers, anchors, layers) = (VecDeque::new(), [None; 2], [None; TEMPORAL_LAYERS]);
        Self { codec, reader, numbers, anchors, layers, has_entries: false }
    }

    /// Describes the frame `number` by the beginning of its bytes. `None`: more bytes are needed, unless these are `all`.
    pub(super) fn describe(
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
            VideoCodec::Unknown => Some(self.describe_unknown(number, is_random_access)),
        }
    }

    fn describe_h264(&mut self, number: u32, bytes: &[u8], is_entry: bool, all: bool) -> Option<Description> {
        // Types 1 and 5: slices (H.264 table 7-1).
        let slice = nal_starts(bytes).find(|at| matches!(bytes[*at] & 0x1f, 1 | 5));
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
        Some(match frame {
            Some(frame) => self.described_by_reader(number, &frame),
            // It cannot be read, such as before the first parameter sets.
            None => self.describe_unknown(number, is_entry),
        })
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
        if frame.reference {
            self.anchor(number);
        }
        let kind = match (frame.entry, frame.reference) {
            (Some(_), _) => TsKind::VideoEntry,
            (None, true) => TsKind::Video,
            (None, false) => TsKind::VideoDisposable,
        };
        Description { kind, references, priority: frame.priority.min(ENTRY) }
    }

    fn describe_h265(&mut self, number: u32, bytes: &[u8], is_entry: bool, all: bool) -> Option<Description> {
        // Types below 32: slices, of two bytes of header (H.265 §7.3.1.2, table 7-1).
        let slice = nal_starts(bytes).find(|at| bytes.get(at + 1).is_some() && bytes[*at] >> 1 & 0x3f < 32);
        let Some(at) = slice else { return all.then(|| self.describe_unknown(number, is_entry)) };
        let (kind, layer) = (bytes[at] >> 1 & 0x3f, usize::from(bytes[at + 1] & 7).saturating_sub(1));
        let layer = layer.min(TEMPORAL_LAYERS - 1);
        // IRAP pictures (§7.4.2.2).
        if (16..=23).contains(&kind) {
            self.layers = [None; TEMPORAL_LAYERS];
            self.layers[0] = Some(number);
            return Some(self.entry(number));
        }
        // Even types below 16 are sub-layer non-reference pictures: no other of their layer refers to them.
        let is_disposable = kind < 16 && kind.is_multiple_of(2);
        let newest = self.layers[..=layer].iter().flatten().max().copied();
        let references = newest.map_or(References::NONE, |newest| References::from([FrameId(newest)]));
        if is_disposable {
            return Some(Description { kind: TsKind::VideoDisposable, references, priority: DISPOSABLE });
        }
        self.layers[layer] = Some(number);
        let priority = Priority(REFERENCE.0 - 8 * layer as u8);
        Some(Description { kind: TsKind::Video, references, priority })
    }

    fn describe_mpeg2(&mut self, number: u32, bytes: &[u8], is_entry: bool, all: bool) -> Option<Description> {
        // Picture start code, then temporal reference and coding type (ISO/IEC 13818-2 §6.2.3).
        let picture = nal_starts(bytes).find(|at| bytes[*at] == 0 && bytes.get(at + 2).is_some());
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
                Some(Description { kind: TsKind::Video, references, priority: REFERENCE })
            }
            _ => {
                let references = frames(&self.anchors);
                Some(Description { kind: TsKind::VideoDisposable, references, priority: DISPOSABLE })
            }
        }
    }

    /// Describes a frame by the random access points of the transport stream: others refer to the frame before.
    fn describe_unknown(&mut self, number: u32, is_entry: bool) -> Description {
        if is_entry {
            self.has_entries = true;
            return self.entry(number);
        }
        let before = self.anchors[0].filter(|_| self.has_entries);
        let references = before.map_or(References::NONE, |before| References::from([FrameId(before)]));
        self.anchor(number);
        Description { kind: TsKind::Video, references, priority: REFERENCE }
    }

    fn entry(&mut self, number: u32) -> Description {
        self.anchor(number);
        Description { kind: TsKind::VideoEntry, references: References::NONE, priority: ENTRY }
    }

    fn anchor(&mut self, number: u32) {
        self.anchors = [Some(number), self.anchors[0]];
    }
}

/// Places after the start codes of a byte stream.
fn nal_starts(bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let codes = bytes.windows(3).enumerate().filter(|(_, code)| *code == [0, 0, 1]);
    codes.map(|(at, _)| at + 3).filter(|at| *at < bytes.len())
}
