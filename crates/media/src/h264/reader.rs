//! Frames out of an Annex B byte stream, whole or part by part.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use h264_reader::nal::sps::SeqParameterSet;

use super::access_unit::{AccessUnits, Event};
use super::annexb::{DEFAULT_NAL_LIMIT, NalSplitter, Unit};
use super::describe::Describer;
use super::left_out::LeftOut;
use crate::error::MediaError;
use crate::frame::{Frame, FramePart, FrameRate};

/// Frame rate by the VUI's timing information; two of its ticks make a frame (H.264 §E.2.1).
pub(crate) fn rate_of(sps: &SeqParameterSet) -> Option<FrameRate> {
    let timing = sps.vui_parameters.as_ref()?.timing_info.as_ref()?;
    FrameRate::new(timing.time_scale, timing.num_units_in_tick.checked_mul(2)?)
}

/// Frames by which pictures are shown later than they are decoded, by the VUI: no level has more than 16 (H.264 §E.2.1).
fn reorder_of(sps: &SeqParameterSet) -> u32 {
    let restrictions = sps.vui_parameters.as_ref().and_then(|vui| vui.bitstream_restrictions.as_ref());
    restrictions.map_or(0, |restrictions| restrictions.max_num_reorder_frames.min(16))
}

/// How an input ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// How many frames there were.
    pub frames: u64,
    /// Slices that were left out, since they could not be understood or came before the first parameter sets.
    pub unreadable_slices: u64,
    /// All that was left out.
    pub left_out: LeftOut,
    /// Whether the input visibly breaks off: inside of a start code, or inside of the last slice's header. What was
    /// whole before has been used. A break within a slice's data cannot be seen without decoding it.
    pub truncated: bool,
}

/// Reads frames out of an Annex B byte stream, from a file or a pipe, in whatever chunks it comes.
///
/// Whole frames come from [`next_frame`](Self::next_frame). A sender that waits for nothing takes
/// [`next_part`](Self::next_part) instead, and calls [`flush`](Self::flush) when the source pauses.
#[derive(Debug)]
pub struct FrameReader {
    splitter: NalSplitter,
    units: AccessUnits,
    describer: Describer,
    /// The NAL unit under way need not be looked at again.
    peeked: bool,
    last_readable: bool,
    given_rate: Option<FrameRate>,
    rate: Option<FrameRate>,
    parts: VecDeque<FramePart>,
    /// The frame's first part is still to come.
    first: bool,
    /// Parts that [`next_frame`](Self::next_frame) has taken of a frame.
    partial: Option<Frame>,
    frames: u64,
    /// Of access units that were pushed whole.
    bytes: u64,
}

impl FrameReader {
    /// A reader of a stream with this frame rate or, without one, with what the stream says of itself, or
    /// [`FrameRate::DEFAULT`].
    pub fn new(rate: Option<FrameRate>) -> Self {
        Self::with_limit(rate, DEFAULT_NAL_LIMIT)
    }

    /// The same, with a limit to the size of a frame in bytes, which also bounds the memory used. A larger frame is
    /// left out ([`LeftOut::too_large`]).
    pub fn with_limit(rate: Option<FrameRate>, limit: usize) -> Self {
        Self {
            splitter: NalSplitter::new(limit),
            units: AccessUnits::new(limit),
            describer: Describer::default(),
            peeked: false,
            last_readable: true,
            given_rate: rate,
            rate: None,
            parts: VecDeque::new(),
            first: true,
            partial: None,
            frames: 0,
            bytes: 0,
        }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// [`MediaError::NotAnnexB`] if the stream does not begin with a start code.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), MediaError> {
        self.splitter.push(chunk)?;
        self.group();
        Ok(())
    }

    /// Takes a whole access unit, as RTP delimits it. Its frame is whole then, but for a single field, which waits for
    /// the other one of its frame in the next access unit.
    ///
    /// # Errors
    /// [`MediaError::NotAnnexB`] if it does not begin with a start code, [`MediaError::NoPicture`] if it is empty.
    pub fn push_access_unit(&mut self, annexb: &[u8]) -> Result<(), MediaError> {
        let mut splitter = NalSplitter::new(annexb.len());
        splitter.push(annexb)?;
        splitter.finish()?;
        self.bytes += annexb.len() as u64;
        while let Some(nal) = splitter.next_nal() {
            self.last_readable = self.units.push(nal);
            self.describe();
        }
        self.units.end_picture();
        self.describe();
        Ok(())
    }

    /// The source has paused for a moment: the NAL unit under way is taken for whole. If the frame has as many slices
    /// as the one before it, or is the first, it is taken for whole as well.
    ///
    /// A further slice of it makes a further part. If the NAL unit goes on after all, its rest is left out
    /// ([`torn`](Self::torn)).
    pub fn flush(&mut self) {
        self.splitter.flush();
        self.group();
        self.units.flush();
        self.describe();
    }

    /// The input has ended; the last frame can be read now.
    ///
    /// # Errors
    /// [`MediaError::NoPicture`] if it held nothing that can be decoded.
    pub fn finish(&mut self) -> Result<Ending, MediaError> {
        let torn = if self.bytes > 0 && self.splitter.bytes() == 0 { false } else { self.splitter.finish()? };
        self.group();
        self.units.finish();
        self.describe();
        if self.frames == 0 {
            return Err(MediaError::NoPicture { bytes: self.splitter.bytes() + self.bytes });
        }
        let left_out = self.left_out();
        let unreadable_slices = left_out.slices_without_parameter_sets + left_out.malformed_slices;
        Ok(Ending { frames: self.frames, unreadable_slices, left_out, truncated: torn || !self.last_readable })
    }

    /// The next frame in decoding order, if it is whole. Do not mix with [`next_part`](Self::next_part).
    pub fn next_frame(&mut self) -> Option<Frame> {
        loop {
            let FramePart { mut frame, first, last } = self.next_part()?;
            if let Some(before) = self.partial.take().filter(|before| !first && before.index == frame.index) {
                frame.nals.splice(0..0, before.nals);
            }
            if last {
                return Some(frame);
            }
            self.partial = Some(frame);
        }
    }

    /// The next part of a frame in decoding order: one slice or several, with what stands before and after them, as
    /// soon as they are known to be whole.
    pub fn next_part(&mut self) -> Option<FramePart> {
        self.parts.pop_front()
    }

    /// The frame rate in force.
    pub fn rate(&self) -> FrameRate {
        self.given_rate.or(self.rate).unwrap_or(FrameRate::DEFAULT)
    }

    /// What was left out so far.
    pub fn left_out(&self) -> LeftOut {
        LeftOut { torn: self.splitter.torn(), ..self.units.left_out }
    }

    /// NAL units that [`flush`](Self::flush) took for whole, and that went on afterwards: the pause that it is called
    /// after is too short for this source.
    pub fn torn(&self) -> u64 {
        self.splitter.torn()
    }

    fn group(&mut self) {
        while let Some(unit) = self.splitter.next_unit() {
            self.peeked = false;
            match unit {
                Unit::Nal(nal) => self.last_readable = self.units.push(nal),
                Unit::TooLarge(head) => self.units.too_large(&head),
            }
            self.describe();
        }
        if !self.peeked {
            self.peeked = self.units.peek(self.splitter.head());
            self.describe();
        }
    }

    fn describe(&mut self) {
        while let Some(event) = self.units.next() {
            match event {
                Event::Begin(header, recovery) => {
                    self.rate = self.units.sets.of(header.pps_id).and_then(|(sps, _)| rate_of(sps));
                    self.first = true;
                    let rate = self.rate();
                    let reorder = self.units.sets.of(header.pps_id).map_or(0, |(sps, _)| reorder_of(sps));
                    self.describer.begin(header, recovery, (rate, reorder));
                }
                Event::Field(header) => self.describer.field(&header),
                Event::Slice(header) => self.describer.slice(&header),
                Event::Part { nals, last } => {
                    if let Some(frame) = self.describer.frame(nals) {
                        let first = std::mem::replace(&mut self.first, false);
                        self.parts.push_back(FramePart { frame, first, last });
                    }
                }
                Event::End { complete } => {
                    self.frames += u64::from(complete);
                    self.describer.end(complete);
                }
            }
        }
    }
}
