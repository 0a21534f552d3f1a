//! Frames out of an Annex B byte stream: what each one is, what it depends on, what it is worth, and when it is due.

use h264_reader::nal::sps::SeqParameterSet;
use timeous_core::{Duration, FrameId, Priority, References};

use super::access_unit::{AccessUnit, AccessUnits};
use super::annexb::{DEFAULT_NAL_LIMIT, NalSplitter};
use super::poc::PocState;
use super::slice::{PocSyntax, SliceHeader, SliceKind};
use crate::error::MediaError;
use crate::frame::{Frame, FrameKind, FrameRate, name};

/// The kind of a picture by that of its slices.
pub(crate) fn kind_of(idr: bool, slices: SliceKind) -> FrameKind {
    match slices {
        _ if idr => FrameKind::Idr,
        SliceKind::I => FrameKind::I,
        SliceKind::P => FrameKind::P,
        SliceKind::B => FrameKind::B,
    }
}

/// The VUI's timing information; two of its ticks make a frame (H.264 §E.2.1).
pub(crate) fn rate_of(sps: &SeqParameterSet) -> Option<FrameRate> {
    let timing = sps.vui_parameters.as_ref()?.timing_info.as_ref()?;
    FrameRate::new(timing.time_scale, timing.num_units_in_tick.checked_mul(2)?)
}

/// How an input ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// How many frames there were.
    pub frames: u64,
    /// Slices that were left out, since they could not be understood or came before the first parameter sets.
    pub unreadable_slices: u64,
    /// Whether the input visibly breaks off: inside of a start code, or inside of the last slice's header. What was
    /// whole before has been used. A break within a slice's data cannot be seen without decoding it.
    pub truncated: bool,
}

/// Reads frames out of an Annex B byte stream, from a file or a pipe, in whatever chunks it comes.
#[derive(Debug)]
pub struct FrameReader {
    splitter: NalSplitter,
    units: AccessUnits,
    last_readable: bool,
    given_rate: Option<FrameRate>,
    order: DisplayOrder,
    index: u32,
    handover: Option<Duration>,
    last_reference: Option<FrameId>,
    references_since_idr: u32,
}

impl FrameReader {
    /// A reader of a stream with this frame rate or, without one, with what the stream says of itself, or
    /// [`FrameRate::DEFAULT`].
    pub fn new(rate: Option<FrameRate>) -> Self {
        Self::with_limit(rate, DEFAULT_NAL_LIMIT)
    }

    /// The same, with a limit to the size of a frame in bytes, which also bounds the memory used.
    pub fn with_limit(rate: Option<FrameRate>, limit: usize) -> Self {
        Self {
            splitter: NalSplitter::new(limit),
            units: AccessUnits::new(limit),
            last_readable: true,
            given_rate: rate,
            order: DisplayOrder::default(),
            index: 0,
            handover: None,
            last_reference: None,
            references_since_idr: 0,
        }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// A [`MediaError`], after which only the frames before it can be read.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), MediaError> {
        self.splitter.push(chunk)?;
        self.group()
    }

    /// The input has ended; the last frame can be read now.
    ///
    /// # Errors
    /// [`MediaError::NoPicture`] if it held nothing that can be decoded.
    pub fn finish(&mut self) -> Result<Ending, MediaError> {
        let torn = self.splitter.finish()?;
        self.group()?;
        self.units.finish();
        let frames = u64::from(self.index) + self.units.waiting() as u64;
        if frames == 0 {
            return Err(MediaError::NoPicture { bytes: self.splitter.bytes() });
        }
        let truncated = torn || !self.last_readable;
        Ok(Ending { frames, unreadable_slices: self.units.unreadable, truncated })
    }

    /// The next frame in decoding order, if it is whole.
    pub fn next_frame(&mut self) -> Option<Frame> {
        let unit = self.units.next()?;
        Some(self.describe(unit))
    }

    /// The frame rate in force.
    pub fn rate(&self) -> FrameRate {
        let of_stream = || self.units.sets.any_sps().and_then(rate_of);
        self.given_rate.or_else(of_stream).unwrap_or(FrameRate::DEFAULT)
    }

    fn group(&mut self) -> Result<(), MediaError> {
        while let Some(nal) = self.splitter.next_nal() {
            self.last_readable = self.units.push(nal)?;
        }
        Ok(())
    }

    fn describe(&mut self, unit: AccessUnit) -> Frame {
        let AccessUnit { nals, header, kind } = unit;
        let kind = kind_of(header.is_idr(), kind);
        let reference = header.is_reference();
        if kind == FrameKind::Idr {
            self.last_reference = None;
            self.references_since_idr = 0;
        }
        let index = self.index;
        let rate = self.rate();
        let display_index = self.order.place(index.into(), &header);
        let capture = rate.time_of(display_index);
        let handover = self.handover.map_or(capture, |last| capture.max(last + rate.interval()));
        let gop_position = self.references_since_idr;
        let references = self.last_reference.map_or(References::NONE, |frame| References::from([frame]));

        self.index += 1;
        self.handover = Some(handover);
        if reference {
            self.last_reference = Some(name(index));
            self.references_since_idr += 1;
        }
        Frame {
            index,
            kind,
            reference,
            frame_num: header.frame_num,
            gop_position,
            display_index,
            capture,
            handover,
            rtp_ticks: rate.ticks_of(display_index),
            references,
            priority: worth(kind, reference, gop_position),
            nals,
        }
    }
}

/// An IDR frame is worth most, a frame that nothing refers to least. In between, a reference frame is worth less the
/// later in its group it comes: fewer frames are lost with the tail than with the head.
fn worth(kind: FrameKind, reference: bool, gop_position: u32) -> Priority {
    match kind {
        FrameKind::Idr => Priority::HIGHEST,
        _ if !reference => Priority(16),
        _ => Priority(240 - gop_position.min(176) as u8),
    }
}

/// Turns picture order counts into places in display order.
///
/// All frames from an IDR frame on are shown after all frames before it, so that its place is known; the others stand
/// at their count's distance from it.
#[derive(Debug, Default)]
struct DisplayOrder {
    poc: PocState,
    first: u64,
    first_count: i64,
    /// Most encoders count fields, two a frame; one odd count tells that this one counts frames.
    counts_frames: bool,
}

impl DisplayOrder {
    /// No level lets a picture wait for more than 16 others (H.264 §A.3.1): what is farther off is no such distance.
    const MAX_REORDER: u64 = 32;

    fn place(&mut self, index: u64, header: &SliceHeader) -> u64 {
        let count = self.poc.count(header);
        let Some(count) = count.filter(|_| header.poc != PocSyntax::DecodingOrder) else { return index };
        if header.is_idr() || header.resets {
            (self.first, self.first_count) = (index, count);
        }
        let distance = count - self.first_count;
        self.counts_frames |= distance % 2 != 0;
        let frames = if self.counts_frames { distance } else { distance / 2 };
        let place = self.first.saturating_add_signed(frames);
        if place.abs_diff(index) > Self::MAX_REORDER { index } else { place }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_a_group_is_worth_less_than_its_head_and_more_than_a_b_frame() {
        let idr = worth(FrameKind::Idr, true, 0);
        let head = worth(FrameKind::P, true, 1);
        let tail = worth(FrameKind::P, true, 100_000);
        let b = worth(FrameKind::B, false, 3);
        assert!(idr > head && head > tail && tail > b);
    }

    #[test]
    fn a_stream_without_a_picture_says_so() {
        let mut reader = FrameReader::new(None);
        reader.push(&[0, 0, 0, 1, 0x40, 1, 12, 1, 0, 0, 0, 1, 0x26, 1, 0xaf]).unwrap();
        assert_eq!(reader.finish(), Err(MediaError::NoPicture { bytes: 15 }));
    }
}
