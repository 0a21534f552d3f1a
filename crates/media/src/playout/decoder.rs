//! Model of the decoder: the parameter sets and reference frames it has, and so the frames that it can decode.

use super::buffer::Parts;
use super::chain::{Chain, Pace};
use super::signalled::SignalledReferences;
use crate::frame::FrameKind;
use crate::h264::depacketize::Payload;
use crate::h264::describe::kind_of;
use crate::h264::parameters::ParameterSets;
use crate::h264::picture::Picture;
use crate::h264::slice::SliceHeader;
use crate::rtp::{FrameDescriptor, RTP_CLOCK_HZ};

/// Whether a frame can be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decodability {
    Decodable {
        /// Whether a decoder can start with it.
        is_entry: bool,
    },
    ReferenceMissing,
}

/// Decoder of one stream, fed with the frames in decoding order.
#[derive(Debug)]
pub(super) struct DecoderModel {
    /// Parameter sets received, as of the last settled frame.
    sets: ParameterSets,
    chain: Chain,
    signalled: SignalledReferences,
    /// Missing frames, counted before the last restart.
    missing_before: u64,
    /// Whether decoding is blocked until the next entry point.
    wants_entry: bool,
}

impl Default for DecoderModel {
    fn default() -> Self {
        Self {
            sets: ParameterSets::default(),
            chain: Chain::default(),
            signalled: SignalledReferences::default(),
            missing_before: 0,
            wants_entry: true,
        }
    }
}

impl DecoderModel {
    /// Begins with another source. The parameter sets and the simulated reference buffer stay: the same encoder may
    /// continue behind a new sender, as its picture numbers tell.
    pub(super) fn restart(&mut self) {
        self.chain.hole();
        self.missing_before += self.signalled.missing();
        self.signalled = SignalledReferences::default();
        self.wants_entry = true;
    }

    /// Adds a parameter set; other NAL units are ignored.
    pub(super) fn take_set(&mut self, nal: &[u8]) {
        self.sets.take(nal);
    }

    /// Parameter sets received so far.
    pub(super) fn sets(&self) -> &ParameterSets {
        &self.sets
    }

    /// Whether decoding is blocked until the next entry point.
    pub(super) fn wants_entry(&self) -> bool {
        self.wants_entry
    }

    /// Frames of which no packet came, by gaps in the numbers of their descriptors.
    pub(super) fn missing(&self) -> u64 {
        self.missing_before + self.signalled.missing()
    }

    /// Counts a frame of which a packet came, once.
    pub(super) fn count(&mut self, descriptor: Option<&FrameDescriptor>) {
        self.signalled.count(descriptor);
    }

    /// Notes a gap in decoding order before the next frame.
    pub(super) fn hole(&mut self) {
        self.chain.hole();
    }

    /// Takes the parameter sets of an incomplete frame, and notes the gap that it leaves.
    pub(super) fn take_partial(&mut self, parts: &Parts) {
        self.chain.hole();
        for nal in parts.payloads().flat_map(Payload::parameter_sets) {
            self.sets.take(nal);
        }
    }

    /// Takes the parameter sets of a complete frame and reads its headers; `None`, and a gap, if they are not H.264.
    pub(super) fn read(&mut self, nals: &[Vec<u8>]) -> Option<Picture> {
        for nal in nals {
            self.sets.take(nal);
        }
        let picture = Picture::read(nals, &self.sets);
        if picture.is_none() {
            self.chain.hole();
        }
        picture
    }

    /// Leaves out a frame that is too late to be decoded.
    pub(super) fn skip(&mut self, picture: &Picture, descriptor: Option<&FrameDescriptor>) {
        self.chain.hole();
        descriptor.into_iter().for_each(|descriptor| self.signalled.skip(descriptor));
        self.wants_entry |= picture.first().is_reference();
    }

    /// Returns whether a frame, next in decoding order, can be decoded: by its descriptor, or else by its slice headers.
    pub(super) fn decode(
        &mut self,
        ticks: i64,
        picture: &Picture,
        descriptor: Option<&FrameDescriptor>,
    ) -> Decodability {
        let is_decodable = match descriptor {
            Some(descriptor) => self.signalled.decode(descriptor),
            None => self.chain.decode(picture, ticks, self.declared_pace(picture.first())),
        };
        if !is_decodable {
            // A lost non-reference picture leaves later frames decodable.
            self.wants_entry |= picture.first().is_reference();
            return Decodability::ReferenceMissing;
        }
        let is_entry = descriptor.map_or(self.chain.entry().is_some(), |descriptor| descriptor.is_entry);
        self.wants_entry &= !is_entry;
        Decodability::Decodable { is_entry }
    }

    /// Type of an incomplete frame, if its packets tell.
    pub(super) fn kind_of(&self, parts: &Parts) -> Option<FrameKind> {
        if parts.is_idr() {
            return Some(FrameKind::Idr);
        }
        let slice = parts.payloads().find_map(Payload::slice_start)?;
        SliceHeader::read(&slice, &self.sets).ok().map(|header| kind_of(false, header.kind))
    }

    /// Frame rate by the VUI: two clock ticks, and two picture order counts, per frame (H.264 §E.2.1, §8.2.1).
    fn declared_pace(&self, header: &SliceHeader) -> Option<Pace> {
        let timing = self.sets.of(header.pps_id)?.0.vui_parameters.as_ref()?.timing_info.as_ref()?;
        let ticks = i64::from(timing.num_units_in_tick) * i64::from(RTP_CLOCK_HZ);
        (ticks > 0 && timing.time_scale > 0).then_some(Pace { ticks, counts: timing.time_scale.into() })
    }
}
