//! References between the frames of a video, as far as payload headers tell them.

use std::collections::{BTreeMap, VecDeque};

use timeous_core::{FrameId, Priority, References};

use crate::pictures::{Description, UnitKind};

/// Priorities below those of audio. Chosen by us, as for H.264: entry points, references, frames without.
const ENTRY: Priority = Priority(240);
const REFERENCE: Priority = Priority(128);
const DISPOSABLE: Priority = Priority(16);
/// Priority that a temporal layer loses against the one below, and a spatial layer, and both at most. Chosen by us: all stay above
/// frames without references, and few streams have more than three temporal layers.
const TEMPORAL_STEP: u8 = 16;
const SPATIAL_STEP: u8 = 48;
const MOST_LOSS: u8 = 7 * TEMPORAL_STEP - 1;
/// Temporal layers that are told apart: three bits, in all formats.
const TEMPORAL: usize = 8;
/// Frames whose picture number is remembered. Chosen by us: more than a decoder can refer to, in four spatial layers.
const REMEMBERED: usize = 256;

/// What a payload header tells of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// Whether a decoder can start here.
    pub(super) is_entry: bool,
    /// Whether no other frame refers to it.
    pub(super) is_disposable: bool,
    /// Temporal layer.
    pub(super) layer: u8,
    /// Spatial layer, and whether it refers to the one below of its picture, and to no other picture.
    pub(super) spatial: u8,
    pub(super) has_below: bool,
    pub(super) is_within_picture: bool,
    /// Picture number, if frames have one.
    pub(super) picture: Option<u16>,
    /// Distances in pictures to those that it refers to; zeros after the last.
    pub(super) back: Option<[u8; 3]>,
}

/// Result of a look at the packets of a frame so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The frame is known.
    Frame(Header),
    /// Another packet is needed.
    More,
    /// Its packets do not tell.
    Unknown,
}

/// Frames of a video so far.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// The last reference frame of each temporal layer, by spatial layers.
    layers: BTreeMap<u8, [Option<u32>; TEMPORAL]>,
    /// Picture numbers of the latest frames, and their spatial layers.
    pictures: VecDeque<(u16, u8, u32)>,
    /// Whether the video has had an entry point.
    has_entries: bool,
}

impl Chain {
    /// Begins anew at an entry point that is described otherwise.
    pub(super) fn enter(&mut self) {
        (self.layers, self.has_entries) = (BTreeMap::new(), true);
        self.pictures.clear();
    }

    /// Describes the frame `number`; `below` is the one of the next lower spatial layer of its picture. Without exact references it
    /// refers to the newest reference frame of its layer or a lower temporal one, which is more than it may use.
    pub(super) fn describe(&mut self, number: u32, header: Option<Header>, below: Option<u32>) -> Description {
        let header = header.unwrap_or_default();
        let layer = usize::from(header.layer).min(TEMPORAL - 1);
        if header.is_entry {
            self.enter();
        }
        self.has_entries |= header.is_within_picture;
        let mut references = match header.is_within_picture {
            true => References::NONE,
            false => self.told(&header).unwrap_or_else(|| self.newest(header.spatial, layer)),
        };
        if let Some(below) = below.filter(|_| header.has_below) {
            // A header tells at most three others.
            let _ = references.push(FrameId(below));
        }
        if let Some(picture) = header.picture {
            self.pictures.push_back((picture, header.spatial, number));
            if self.pictures.len() > REMEMBERED {
                self.pictures.pop_front();
            }
        }
        let description = |kind, priority| {
            let (layer, spatial) = (layer as u8, header.spatial);
            Description { kind, references, priority, layer, spatial }
        };
        if header.is_disposable {
            let layer = layer.max(1) as u8;
            return Description { layer, ..description(UnitKind::VideoDisposable, DISPOSABLE) };
        }
        self.layers.entry(header.spatial).or_default()[layer] = Some(number);
        if header.is_entry {
            return description(UnitKind::VideoEntry, ENTRY);
        }
        let loss = (TEMPORAL_STEP * layer as u8).saturating_add(SPATIAL_STEP.saturating_mul(header.spatial));
        description(UnitKind::Video, Priority(REFERENCE.0 - loss.min(MOST_LOSS)))
    }

    /// References that the header tells, if all are known.
    fn told(&self, header: &Header) -> Option<References> {
        let (picture, back) = (header.picture?, header.back?);
        let mut references = References::NONE;
        for back in back.into_iter().take_while(|back| *back > 0) {
            let wanted = picture.wrapping_sub(back.into());
            let is_it = |frame: &&(u16, u8, u32)| frame.0 == wanted && frame.1 <= header.spatial;
            let (.., number) = self.pictures.iter().rev().find(is_it)?;
            // A header tells at most three.
            let _ = references.push(FrameId(*number));
        }
        Some(references)
    }

    fn newest(&self, spatial: u8, layer: usize) -> References {
        let newest = self.layers.get(&spatial).and_then(|layers| layers[..=layer].iter().flatten().max());
        let newest = newest.filter(|_| self.has_entries);
        newest.map_or(References::NONE, |newest| References::from([FrameId(*newest)]))
    }
}
