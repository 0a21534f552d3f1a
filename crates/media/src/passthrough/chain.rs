//! References between the frames of a video, as far as payload headers tell them.

use std::collections::VecDeque;

use timeous_core::{FrameId, Priority, References};

use crate::pictures::{Description, UnitKind};

/// Priorities below those of audio. Chosen by us, as for H.264: entry points, references, frames without.
const ENTRY: Priority = Priority(240);
const REFERENCE: Priority = Priority(128);
const DISPOSABLE: Priority = Priority(16);
/// Priority that a layer loses against the one below. Chosen by us: seven layers stay above frames without references.
const LAYER: u8 = 16;
/// Layers that are told apart: three bits, in all formats.
pub(super) const LAYERS: usize = 8;
/// Frames whose picture number is remembered. Chosen by us: more than a decoder can refer to.
const REMEMBERED: usize = 64;

/// What a payload header tells of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// Whether a decoder can start here.
    pub(super) is_entry: bool,
    /// Whether no other frame refers to it.
    pub(super) is_disposable: bool,
    /// Temporal layer.
    pub(super) layer: u8,
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
    /// The last reference frame of each layer.
    layers: [Option<u32>; LAYERS],
    /// Picture numbers of the latest frames.
    pictures: VecDeque<(u16, u32)>,
    /// Whether the video has had an entry point.
    has_entries: bool,
}

impl Chain {
    /// Describes the frame `number`. Without exact references it refers to the newest reference frame of its layer or below, which is
    /// more than it may use.
    pub(super) fn describe(&mut self, number: u32, header: Option<Header>) -> Description {
        let header = header.unwrap_or_default();
        let layer = usize::from(header.layer).min(LAYERS - 1);
        if header.is_entry {
            (self.layers, self.has_entries) = ([None; LAYERS], true);
            self.pictures.clear();
        }
        let references = self.told(&header).unwrap_or_else(|| self.newest(layer));
        if let Some(picture) = header.picture {
            self.pictures.push_back((picture, number));
            if self.pictures.len() > REMEMBERED {
                self.pictures.pop_front();
            }
        }
        let description = |kind, priority| Description { kind, references, priority, layer: layer as u8 };
        if header.is_disposable {
            let layer = layer.max(1) as u8;
            return Description { layer, ..description(UnitKind::VideoDisposable, DISPOSABLE) };
        }
        self.layers[layer] = Some(number);
        if header.is_entry {
            return description(UnitKind::VideoEntry, ENTRY);
        }
        description(UnitKind::Video, Priority(REFERENCE.0 - LAYER * layer as u8))
    }

    /// References that the header tells, if all are known.
    fn told(&self, header: &Header) -> Option<References> {
        let (picture, back) = (header.picture?, header.back?);
        let mut references = References::NONE;
        for back in back.into_iter().take_while(|back| *back > 0) {
            let wanted = picture.wrapping_sub(back.into());
            let (_, number) = self.pictures.iter().rev().find(|(picture, _)| *picture == wanted)?;
            // A header tells at most three.
            let _ = references.push(FrameId(*number));
        }
        Some(references)
    }

    fn newest(&self, layer: usize) -> References {
        let newest = self.layers[..=layer].iter().flatten().max().filter(|_| self.has_entries);
        newest.map_or(References::NONE, |newest| References::from([FrameId(*newest)]))
    }
}
