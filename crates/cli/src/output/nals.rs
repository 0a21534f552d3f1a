//! NAL units of a frame, for finding parameter sets.

use timeous_media::annexb::NalSplitter;

/// Most parameter sets kept for a stream; far above real streams.
pub(super) const MAX_SETS: usize = 64;

/// NAL unit types (H.264 table 7-1).
pub(super) const SPS: u8 = 7;
pub(super) const PPS: u8 = 8;
pub(super) const AUD: u8 = 9;

/// Type of a NAL unit.
pub(super) fn type_of(nal: &[u8]) -> u8 {
    nal.first().map_or(0, |first| first & 0x1f)
}

/// Whether the NAL unit is a parameter set.
pub(super) fn is_set(nal: &[u8]) -> bool {
    matches!(type_of(nal), SPS | PPS)
}

/// NAL units of a frame from the playout; empty if it is no valid byte stream.
pub(super) fn nals_of(annexb: &[u8]) -> Vec<Vec<u8>> {
    let mut splitter = NalSplitter::new(annexb.len());
    if splitter.push(annexb).is_ok() {
        // Truncation within a start code does not matter here.
        let _ = splitter.finish();
    }
    std::iter::from_fn(|| splitter.next_nal()).collect()
}
