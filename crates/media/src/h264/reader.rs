//! Frame reader: extracts frames from an Annex B byte stream, whole or part by part.

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

/// Frame rate by the VUI timing information; two ticks per frame (H.264 §E.2.1).
pub(crate) fn rate_of(sps: &SeqParameterSet) -> Option<FrameRate> {
    let timing = sps.vui_parameters.as_ref()?.timing_info.as_ref()?;
    FrameRate::new(timing.time_scale, timing.num_units_in_tick.checked_mul(2)?)
}

/// Reordering depth in frames, by the VUI; at most 16 at any level (H.264 §E.2.1).
fn reorder_of(sps: &SeqParameterSet) -> u32 {
    let restrictions = sps.vui_parameters.as_ref().and_then(|vui| vui.bitstream_restrictions.as_ref());
    restrictions.map_or(0, |restrictions| restrictions.max_num_reorder_frames.min(16))
}

/// Summary at the end of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Number of frames.
    pub frames: u64,
    /// Slices dropped because they were unreadable or came before the first parameter sets.
    pub unreadable_slices: u64,
    /// Counters of all dropped input.
    pub left_out: LeftOut,
    /// Whether the input is visibly truncated: within a start code or the last slice's header. Everything before that
    /// was used. A cut within slice data cannot be detected without decoding.
    pub truncated: bool,
}

/// Reads frames from an Annex B byte stream, such as a file or pipe; chunks may end anywhere.
///
/// Whole frames come from [`next_frame`](Self::next_frame). A low-latency sender uses [`next_part`](Self::next_part)
/// instead, and calls [`flush`](Self::flush) when the source pauses.
#[derive(Debug)]
pub struct FrameReader {
    splitter: NalSplitter,
    units: AccessUnits,
    describer: Describer,
    /// Whether the current NAL unit need not be inspected again.
    peeked: bool,
    last_readable: bool,
    given_rate: Option<FrameRate>,
    rate: Option<FrameRate>,
    parts: VecDeque<FramePart>,
    /// Whether the next part is the first of its frame.
    first: bool,
    /// Parts of a frame that [`next_frame`](Self::next_frame) has collected.
    partial: Option<Frame>,
    frames: u64,
    /// Bytes of access units that were pushed whole.
    bytes: u64,
}

impl FrameReader {
    /// Creates a reader with this frame rate; `None` takes the rate that the stream declares, or
    /// [`FrameRate::DEFAULT`].
    pub fn new(rate: Option<FrameRate>) -> Self {
        Self::with_limit(rate, DEFAULT_NAL_LIMIT)
    }

    /// Creates a reader with a limit on the frame size in bytes, which also bounds memory. A larger frame is dropped
    /// ([`LeftOut::too_large`]).
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

    /// Adds the next bytes.
    ///
    /// # Errors
    /// [`MediaError::NotAnnexB`] if the stream does not begin with a start code.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), MediaError> {
        self.splitter.push(chunk)?;
        self.group();
        Ok(())
    }

    /// Adds a whole access unit, as delimited by RTP, which completes its frame. A single field waits for the second
    /// one in the next access unit.
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

    /// Treats the current NAL unit as complete, since the source has paused. The frame counts as complete, too, if it
    /// has as many slices as the previous one, or is the first.
    ///
    /// A further slice of it makes a further part. If the NAL unit continues, its rest is dropped
    /// ([`torn`](Self::torn)).
    pub fn flush(&mut self) {
        self.splitter.flush();
        self.group();
        self.units.flush();
        self.describe();
    }

    /// Ends the input; the last frame can be read now.
    ///
    /// # Errors
    /// [`MediaError::NoPicture`] if the input had nothing to decode.
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

    /// Returns the next complete frame in decoding order. Do not mix with [`next_part`](Self::next_part).
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

    /// Returns the next part of a frame in decoding order: one or more slices with the NAL units around them, as soon
    /// as they are known to be complete.
    pub fn next_part(&mut self) -> Option<FramePart> {
        self.parts.pop_front()
    }

    /// Current frame rate.
    pub fn rate(&self) -> FrameRate {
        self.given_rate.or(self.rate).unwrap_or(FrameRate::DEFAULT)
    }

    /// Counters of input dropped so far.
    pub fn left_out(&self) -> LeftOut {
        LeftOut { torn: self.splitter.torn(), ..self.units.left_out }
    }

    /// NAL units that [`flush`](Self::flush) treated as complete but that continued: the caller's pause is too short
    /// for this source.
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
