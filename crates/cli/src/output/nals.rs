//! NAL units of frames, and the parameter sets among them.

use timeous_media::annexb::NalSplitter;

/// Most parameter sets that are kept of a stream: no honest stream has as many.
pub(super) const MAX_SETS: usize = 64;

/// NAL unit types (H.264 table 7-1).
pub(super) const SPS: u8 = 7;
pub(super) const PPS: u8 = 8;
pub(super) const AUD: u8 = 9;

/// The type of a NAL unit.
pub(super) fn type_of(nal: &[u8]) -> u8 {
    nal.first().map_or(0, |first| first & 0x1f)
}

/// Whether the NAL unit is a parameter set.
pub(super) fn is_set(nal: &[u8]) -> bool {
    matches!(type_of(nal), SPS | PPS)
}

/// The NAL units of a frame that a playout gave out; none of what is no byte stream.
pub(super) fn nals_of(annexb: &[u8]) -> Vec<Vec<u8>> {
    let mut splitter = NalSplitter::new(annexb.len());
    if splitter.push(annexb).is_ok() {
        // Whether it ends within a start code is no matter here.
        let _ = splitter.finish();
    }
    std::iter::from_fn(|| splitter.next_nal()).collect()
}
