//! Format of a stream of H.265 as containers tell it, by its SPS (§7.3.2.2, §7.3.3).

use super::nal;
use super::sequence::{MAX_RAW, Sequence};
use crate::h264::bits::payload_of;

/// Fields of an SPS that stand in a HEVCDecoderConfigurationRecord (ISO/IEC 14496-15 §8.3.3.1), and the size of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamFormat {
    pub(crate) size: [u64; 2],
    /// Profile space, tier and profile; compatibility; constraints; level.
    pub(crate) profile: u8,
    pub(crate) compatibility: u32,
    pub(crate) constraints: u64,
    pub(crate) level: u8,
    pub(crate) chroma: u8,
    /// Bits of a sample beyond eight, of luma and chroma.
    pub(crate) depths: [u8; 2],
    pub(crate) temporal_layers: u8,
    pub(crate) is_nested: bool,
}

impl StreamFormat {
    /// Reads an SPS, header included; returns its identifier, too.
    pub(crate) fn read(sps: &[u8]) -> Option<(u64, Self)> {
        let raw = sps.get(..sps.len().min(MAX_RAW))?;
        let read = Sequence::read(raw)?;
        let payload = payload_of(raw.get(nal::HEADER - 1..)?, MAX_RAW);
        // Behind the identifier of the VPS, the number of layers and the nesting, as they stand.
        let &[layers, profile, p0, p1, p2, p3, c0, c1, c2, c3, c4, c5, level, ..] = payload.as_slice() else {
            return None;
        };
        // Samples of luma of a sample of chroma (table 6-1).
        let (across, down) = (if matches!(read.chroma, 1 | 2) { 2 } else { 1 }, if read.chroma == 1 { 2 } else { 1 });
        let [left, right, top, bottom] = read.window.map(u64::from);
        let [width, height] = read.size.map(u64::from);
        let size = [cropped(width, across, [left, right])?, cropped(height, down, [top, bottom])?];
        let format = Self {
            size,
            profile,
            compatibility: u32::from_be_bytes([p0, p1, p2, p3]),
            constraints: u64::from_be_bytes([0, 0, c0, c1, c2, c3, c4, c5]),
            level,
            chroma: read.chroma,
            depths: read.depths,
            temporal_layers: (layers >> 1 & 7) + 1,
            is_nested: layers & 1 != 0,
        };
        Some((read.id.into(), format))
    }
}

/// Samples within the conformance window (§7.4.3.2.1), whose offsets are in `unit` samples; `None`: there are none.
fn cropped(samples: u64, unit: u8, offsets: [u64; 2]) -> Option<u64> {
    let outside = offsets[0].checked_add(offsets[1])?.checked_mul(unit.into())?;
    samples.checked_sub(outside).filter(|inside| *inside > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conformance_windows_that_leave_nothing_are_refused() {
        assert_eq!(cropped(1_088, 2, [0, 4]), Some(1_080));
        let hostile = [[272, 272], [600, 0], [u64::MAX, 1], [1 << 63, 0]];
        assert!(hostile.iter().all(|offsets| cropped(1_088, 2, *offsets).is_none()));
    }
}
