//! Raw video whose beginning is cut off: its codec, and the place of its first parameter sets.

use crate::h264::annexb::unit_starts;

/// Most NAL units from the first parameter set to the last one: more than any encoder repeats.
const SETS: usize = 6;
/// Bit of a NAL unit's first byte that is always zero (H.264 §7.4.1), and set in start codes of program streams.
const FORBIDDEN: u8 = 0x80;

/// Codec of raw video.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawCodec {
    /// H.264.
    H264,
    /// H.265.
    H265,
}

/// Whether bytes begin a stream of raw H.264 as an encoder does: with a parameter set, a delimiter or SEI (H.264 table 7-1).
///
/// ```
/// use timeous_media::container::begins_h264;
/// assert!(begins_h264(&[0, 0, 0, 1, 0x67, 66, 0]) && begins_h264(&[0, 0, 1, 9, 0x10]));
/// assert!(!begins_h264(&[0, 0, 1, 0x65, 0x88]) && !begins_h264(&[7, 0, 0, 1, 0x67]));
/// ```
pub fn begins_h264(bytes: &[u8]) -> bool {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let Some([1, first, second, ..]) = bytes.get(zeros..).filter(|_| zeros >= 2) else { return false };
    match first & 0x1f {
        6 | 9 => first & 0xe0 == 0,
        // An IDR picture of H.265 looks like a PPS.
        7 | 8 | 15 => first & FORBIDDEN == 0 && first & 0x60 != 0 && (*first, *second) != (0x28, 1),
        _ => false,
    }
}

/// Finds the first parameter sets in a byte stream of NAL units that begins anywhere. Bytes of other formats that have start codes are
/// not taken for it.
///
/// ```
/// use timeous_media::container::{RawCodec, find_raw_video};
/// let cut = [9, 9, 0, 0, 1, 0x41, 7, 0, 0, 0, 1, 0x67, 66, 0, 0, 1, 0x68, 8, 0, 0, 1, 0x65, 1];
/// assert_eq!(find_raw_video(&cut), Some((7, RawCodec::H264)));
/// assert_eq!(find_raw_video(&cut[..15]), None);
/// ```
pub fn find_raw_video(bytes: &[u8]) -> Option<(usize, RawCodec)> {
    let starts: Vec<usize> = unit_starts(bytes).collect();
    if starts.iter().any(|at| bytes[*at] & FORBIDDEN != 0) {
        return None;
    }
    let is_h265 = |at: usize, kind: u8| bytes[at] == kind << 1 && bytes.get(at + 1) == Some(&1);
    let is_h264 = |at: usize, kind: u8| bytes[at] & 0x1f == kind && bytes[at] & 0x60 != 0;
    let found = starts.iter().enumerate().find_map(|(index, &at)| {
        let after = &starts[index + 1..starts.len().min(index + SETS)];
        let follows = |is_next: &dyn Fn(usize) -> bool| after.iter().any(|at| is_next(*at));
        // VPS or SPS, then SPS and PPS (H.265 table 7-1); SPS, then PPS (H.264 table 7-1).
        let begins_h265 = is_h265(at, 32) || is_h265(at, 33);
        if begins_h265 && follows(&|at| is_h265(at, 33) || is_h265(at, 34)) && follows(&|at| is_h265(at, 34)) {
            return Some((at, RawCodec::H265));
        }
        (is_h264(at, 7) && follows(&|at| is_h264(at, 8))).then_some((at, RawCodec::H264))
    });
    let (at, codec) = found?;
    // Before the start code may be a further zero byte.
    let code = if at > 3 && bytes[at - 4] == 0 { 4 } else { 3 };
    Some((at - code, codec))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(nals: &[&[u8]]) -> Vec<u8> {
        nals.iter().flat_map(|nal| [&[0, 0, 0, 1], *nal].concat()).collect()
    }

    #[test]
    fn parameter_sets_are_found_behind_slices_of_either_codec() {
        // An IDR picture of H.265 looks like a PPS of H.264.
        let h265 = stream(&[&[0x28, 1, 7], &[2, 1, 9], &[0x40, 1, 1], &[0x42, 1, 2], &[0x44, 1, 3], &[0x28, 1, 4]]);
        assert_eq!(find_raw_video(&h265), Some((14, RawCodec::H265)));
        assert_eq!(find_raw_video(&h265[1..]), Some((13, RawCodec::H265)));
        assert_eq!(find_raw_video(&h265[..14]), None);
        let h264 = stream(&[&[0x41, 7], &[0x09, 0x10], &[0x67, 66], &[0x68, 1], &[0x65, 1]]);
        assert_eq!(find_raw_video(&h264), Some((12, RawCodec::H264)));
    }

    #[test]
    fn a_program_stream_is_not_taken_for_raw_video() {
        let packets = stream(&[&[0xba, 0x44], &[0xe0, 0, 9], &[0x67, 66], &[0x68, 1], &[0x65, 1]]);
        assert_eq!(find_raw_video(&packets), None);
        assert_eq!(find_raw_video(&[]), None);
        assert_eq!(find_raw_video(&[0, 0, 1]), None);
    }
}
