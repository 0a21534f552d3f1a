//! Output queue of the playout: adds the parameter sets that the decoder lacks and maps times to one timeline.

use std::collections::VecDeque;

use timeous_core::Duration;

use super::timeline::Timeline;
use super::timing::Times;
use super::types::{PictureFormat, PlayoutFrame};
use crate::frame::FrameKind;
use crate::h264::annexb;
use crate::h264::parameters::{ParameterSets, nal_type, type_of};
use crate::h264::reader::rate_of;
use crate::h264::slice::SliceHeader;

/// A frame that can be decoded.
pub(super) struct Decoded<'a> {
    pub(super) nals: Vec<Vec<u8>>,
    /// Header of its first slice.
    pub(super) header: &'a SliceHeader,
    pub(super) kind: FrameKind,
    pub(super) is_entry: bool,
}

/// Queue of frames to release.
#[derive(Debug, Default)]
pub(super) struct Outlet {
    /// Parameter sets that the decoder has been given.
    given: ParameterSets,
    format: Option<PictureFormat>,
    timeline: Timeline,
    frames: VecDeque<PlayoutFrame>,
}

impl Outlet {
    /// Begins a new source clock with the next frame.
    pub(super) fn begin_anew(&mut self) {
        self.timeline.begin_anew();
    }

    /// Moves the capture times of queued frames back by `by`, after a correction of the clock estimate.
    pub(super) fn bring_forward(&mut self, by: Duration) {
        for frame in self.frames.iter_mut().filter(|_| !by.is_zero()) {
            frame.captured_at = frame.captured_at.saturating_sub(by);
            frame.presented_at = frame.presented_at.saturating_sub(by);
        }
    }

    /// Next frame to release.
    pub(super) fn front(&self) -> Option<&PlayoutFrame> {
        self.frames.front()
    }

    /// Removes and returns the next frame.
    pub(super) fn pop(&mut self) -> Option<PlayoutFrame> {
        self.frames.pop_front()
    }

    /// Queues a frame, whose parameter sets are among `sets`. Returns the picture format if it has changed.
    pub(super) fn give(
        &mut self,
        frame: &Decoded<'_>,
        times: &Times,
        rtp_timestamp: u32,
        sets: &ParameterSets,
    ) -> Option<PictureFormat> {
        let (ticks, decode_ticks) = self.timeline.place(times.presentation, times.capture, times.playout_at);
        let annexb = self.with_sets(frame, sets);
        self.frames.push_back(PlayoutFrame {
            annexb,
            rtp_timestamp,
            ticks,
            decode_ticks,
            is_entry: frame.is_entry,
            kind: frame.kind,
            reference: frame.header.is_reference(),
            captured_at: times.captured_at,
            presented_at: times.presented_at,
            arrived_at: times.arrived_at,
            completed_at: times.completed_at,
            playout_at: times.playout_at,
        });
        let format = format_of(frame.header, sets).filter(|format| self.format != Some(*format))?;
        Some(*self.format.insert(format))
    }

    /// Frame as a byte stream (Annex B), with the parameter sets that the decoder lacks because they came with a frame
    /// that was never released.
    fn with_sets(&mut self, frame: &Decoded<'_>, sets: &ParameterSets) -> Vec<u8> {
        frame.nals.iter().for_each(|nal| self.given.take(nal));
        let pps_id = frame.header.pps_id;
        let needed = sets.raw_of(pps_id).filter(|needed| self.given.raw_of(pps_id) != Some(*needed));
        let needed: Vec<Vec<u8>> = needed.into_iter().flatten().map(<[u8]>::to_vec).collect();
        needed.iter().for_each(|nal| self.given.take(nal));
        // An access unit delimiter stays first (H.264 §7.4.1.2.3).
        let delimiters = usize::from(frame.nals.first().is_some_and(|nal| type_of(nal[0]) == nal_type::AUD));
        let (before, behind) = frame.nals.split_at(delimiters);
        let nals = before.iter().chain(&needed).chain(behind);
        let mut bytes = Vec::with_capacity(nals.clone().map(|nal| nal.len() + annexb::START_CODE.len()).sum());
        annexb::write(nals.map(Vec::as_slice), &mut bytes);
        bytes
    }
}

fn format_of(header: &SliceHeader, sets: &ParameterSets) -> Option<PictureFormat> {
    let (sps, _) = sets.of(header.pps_id)?;
    let (width, height) = sps.pixel_dimensions().unwrap_or((0, 0));
    Some(PictureFormat { codec: "H264", width, height, rate: rate_of(sps) })
}
