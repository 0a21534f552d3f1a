//! Format of a stream of H.265 as containers tell it, by its SPS (§7.3.2.2, §7.3.3).

use scuffle_h265::SpsNALUnit;

use super::nal;
use crate::h264::bits::payload_of;

/// Size limit of an SPS, as for slices.
const MAX_RAW: usize = 4096;

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
        let read = SpsNALUnit::parse(raw).ok()?.rbsp;
        let payload = payload_of(raw.get(nal::HEADER - 1..)?, MAX_RAW);
        // Behind the identifier of the VPS, the number of layers and the nesting, as they stand.
        let &[layers, profile, p0, p1, p2, p3, c0, c1, c2, c3, c4, c5, level, ..] = payload.as_slice() else {
            return None;
        };
        let format = Self {
            size: [read.cropped_width(), read.cropped_height()],
            profile,
            compatibility: u32::from_be_bytes([p0, p1, p2, p3]),
            constraints: u64::from_be_bytes([0, 0, c0, c1, c2, c3, c4, c5]),
            level,
            chroma: read.chroma_format_idc,
            depths: [read.bit_depth_luma_minus8, read.bit_depth_chroma_minus8],
            temporal_layers: (layers >> 1 & 7) + 1,
            is_nested: layers & 1 != 0,
        };
        Some((read.sps_seq_parameter_set_id, format))
    }
}
