//! Sequence parameter set of H.265 (SPS, §7.3.2.2) up to its reference pictures.

use h264_reader::rbsp::{BitRead, BitReader, BitReaderError};

use super::nal::HEADER;
use super::reference_set::ReferenceSet;
use crate::h264::bits::payload_of;

/// Size limit of a parameter set, in bytes, to bound memory; real ones are far smaller.
pub(super) const MAX_RAW: usize = 4096;
/// Limits of fields (§7.4.3.2.1).
const MAX_LAYERS_MINUS1: u8 = 6;
const MAX_ID: u32 = 15;
const MAX_CHROMA: u32 = 3;
const MAX_DEPTH_MINUS8: u32 = 8;
const MAX_POC_BITS_MINUS4: u32 = 12;
const MAX_SETS: u32 = 64;
const MAX_LONG_TERM: u32 = 32;
/// Bits of a profile, and of a level (§7.3.3).
const PROFILE: u32 = 88;
const LEVEL: u32 = 8;

/// Fields of an SPS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    pub(super) id: u8,
    /// Chroma format (table 6-1).
    pub(super) chroma: u8,
    pub(super) separate_colour_planes: bool,
    /// Width and height in samples of luma, and the conformance window in it: left, right, top, bottom, in units of chroma samples.
    pub(super) size: [u32; 2],
    pub(super) window: [u32; 4],
    /// Bits of a sample beyond eight, of luma and chroma.
    pub(super) depths: [u8; 2],
    /// Bits of `slice_pic_order_cnt_lsb`.
    pub(super) poc_bits: u32,
    /// Most pictures that precede one in coding order and follow it in output order.
    pub(super) reordered: u64,
    pub(super) sets: Vec<ReferenceSet>,
    /// Long-term reference pictures: lowest bits of the picture order count, and whether the current picture may refer to it.
    pub(super) long_term: Option<Vec<(u32, bool)>>,
}

impl Sequence {
    /// Reads an SPS, header included. `None`: it cannot be read.
    pub(super) fn read(nal: &[u8]) -> Option<Self> {
        let payload = payload_of(nal.get(HEADER - 1..)?, MAX_RAW);
        read(&mut BitReader::new(payload.as_slice()))
    }
}

fn read(bits: &mut BitReader<&[u8]>) -> Option<Sequence> {
    bits.skip(4, "sps_video_parameter_set_id").ok()?;
    let layers = bits.read::<3, u8>("sps_max_sub_layers_minus1").ok().filter(|layers| *layers <= MAX_LAYERS_MINUS1)?;
    bits.skip(1, "sps_temporal_id_nesting_flag").ok()?;
    skip_profile(bits, layers).ok()?;
    let number = |bits: &mut BitReader<&[u8]>, most: u32| bits.read_ue("").ok().filter(|number| *number <= most);
    let id = number(bits, MAX_ID)?;
    let chroma = number(bits, MAX_CHROMA)?;
    let separate_colour_planes = chroma == 3 && bits.read_bit("separate_colour_plane_flag").ok()?;
    let size = [number(bits, u32::MAX)?, number(bits, u32::MAX)?];
    let mut window = [0; 4];
    if bits.read_bit("conformance_window_flag").ok()? {
        for offset in &mut window {
            *offset = number(bits, u32::MAX)?;
        }
    }
    let depths = [number(bits, MAX_DEPTH_MINUS8)? as u8, number(bits, MAX_DEPTH_MINUS8)? as u8];
    let poc_bits = number(bits, MAX_POC_BITS_MINUS4)? + 4;
    let reordered = read_reordered(bits, layers).ok()?;
    skip_blocks(bits).ok()?;
    let mut sets = Vec::new();
    for _ in 0..number(bits, MAX_SETS)? {
        sets.push(ReferenceSet::read(bits, &sets, false)?);
    }
    let long_term = read_long_term(bits, poc_bits).ok()?;
    let (id, chroma) = (id as u8, chroma as u8);
    Some(Sequence { id, chroma, separate_colour_planes, size, window, depths, poc_bits, reordered, sets, long_term })
}

/// Reads most pictures that precede one in coding order and follow it in output order, of all layers.
fn read_reordered(bits: &mut BitReader<&[u8]>, layers: u8) -> Result<u64, BitReaderError> {
    let first = if bits.read_bit("sps_sub_layer_ordering_info_present_flag")? { 0 } else { layers };
    let mut reordered = 0;
    for _ in first..=layers {
        bits.read_ue("sps_max_dec_pic_buffering_minus1")?;
        reordered = bits.read_ue("sps_max_num_reorder_pics")?.into();
        bits.read_ue("sps_max_latency_increase_plus1")?;
    }
    Ok(reordered)
}

/// Skips sizes of coding and transform blocks, and how they are coded: nothing here depends on them.
fn skip_blocks(bits: &mut BitReader<&[u8]>) -> Result<(), BitReaderError> {
    for _ in 0..6 {
        bits.read_ue("log2_min_luma_coding_block_size_minus3 to max_transform_hierarchy_depth_intra")?;
    }
    let has_lists = bits.read_bit("scaling_list_enabled_flag")?;
    if has_lists && bits.read_bit("sps_scaling_list_data_present_flag")? {
        skip_scaling_lists(bits)?;
    }
    bits.skip(2, "amp_enabled_flag, sample_adaptive_offset_enabled_flag")?;
    if bits.read_bit("pcm_enabled_flag")? {
        bits.skip(8, "pcm_sample_bit_depth_luma_minus1, pcm_sample_bit_depth_chroma_minus1")?;
        bits.read_ue("log2_min_pcm_luma_coding_block_size_minus3")?;
        bits.read_ue("log2_diff_max_min_pcm_luma_coding_block_size")?;
        bits.skip(1, "pcm_loop_filter_disabled_flag")?;
    }
    Ok(())
}

/// Reads long-term reference pictures, at most as many as the standard allows.
fn read_long_term(bits: &mut BitReader<&[u8]>, poc_bits: u32) -> Result<Option<Vec<(u32, bool)>>, BitReaderError> {
    if !bits.read_bit("long_term_ref_pics_present_flag")? {
        return Ok(None);
    }
    let mut pictures = Vec::new();
    for _ in 0..bits.read_ue("num_long_term_ref_pics_sps")?.min(MAX_LONG_TERM) {
        let lsb = bits.read_var(poc_bits, "lt_ref_pic_poc_lsb_sps")?;
        pictures.push((lsb, bits.read_bit("used_by_curr_pic_lt_sps_flag")?));
    }
    Ok(Some(pictures))
}

/// Skips the profile, tier and level of the stream, and of its layers (§7.3.3).
fn skip_profile(bits: &mut BitReader<&[u8]>, layers: u8) -> Result<(), BitReaderError> {
    bits.skip(PROFILE + LEVEL, "general_profile_space to general_level_idc")?;
    let mut present = Vec::new();
    for _ in 0..layers {
        present
            .push((bits.read_bit("sub_layer_profile_present_flag")?, bits.read_bit("sub_layer_level_present_flag")?));
    }
    if layers > 0 {
        bits.skip(2 * (8 - u32::from(layers)), "reserved_zero_2bits")?;
    }
    for (has_profile, has_level) in present {
        bits.skip(PROFILE * u32::from(has_profile) + LEVEL * u32::from(has_level), "sub_layer_profile_space")?;
    }
    Ok(())
}

/// Skips scaling lists (§7.3.4).
fn skip_scaling_lists(bits: &mut BitReader<&[u8]>) -> Result<(), BitReaderError> {
    for size in 0..4 {
        for _ in (0..6).step_by(if size == 3 { 3 } else { 1 }) {
            if !bits.read_bit("scaling_list_pred_mode_flag")? {
                bits.read_ue("scaling_list_pred_matrix_id_delta")?;
                continue;
            }
            if size > 1 {
                bits.read_se("scaling_list_dc_coef_minus8")?;
            }
            for _ in 0..64.min(1 << (4 + 2 * size)) {
                bits.read_se("scaling_list_delta_coef")?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::h264::annexb::unit_starts;
    use crate::h265::nal::{self, NalHeader};

    const CLIP: &[u8] = include_bytes!("../../../../assets/small.h265");

    /// The SPS of a clip, header included.
    fn sps() -> Vec<u8> {
        let starts: Vec<usize> = unit_starts(CLIP).collect();
        let of =
            starts.iter().position(|at| NalHeader::read(&CLIP[*at..]).is_some_and(|header| header.kind == nal::SPS));
        let at = of.unwrap();
        CLIP[starts[at]..starts[at + 1] - 3].to_vec()
    }

    #[test]
    fn fields_of_a_clip() {
        let read = Sequence::read(&sps()).unwrap();
        assert_eq!((read.id, read.chroma, read.depths, read.size, read.window), (0, 1, [0, 0], [128, 96], [0; 4]));
        assert_eq!((read.poc_bits, read.reordered, read.sets, read.long_term), (8, 2, Vec::new(), None));
    }

    /// Found by fuzzing: a transform block larger than the coding block made the reader panic.
    #[test]
    fn sizes_of_blocks_that_contradict_each_other_are_passed_over() {
        let found = b"\x42\x01\x01\x01\x60\x00\x00\x03\x00\x90\x00\x00\x03\x00\x00\x03\x00\x1e\xa0\x20\x83\x16\x59\x5d\x20\x38\x62\x69\x74\x2b\x31\x30\x62\x69\x74\x2b\x31\x32\x62\x69\x74";
        let _ = Sequence::read(found);
        for at in 0..sps().len() {
            for value in 0..=255 {
                let mut changed = sps();
                changed[at] = value;
                let _ = Sequence::read(&changed);
                let _ = Sequence::read(&changed[..at]);
            }
        }
    }

    proptest! {
        #[test]
        fn garbage_is_refused_or_bounded(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(read) = Sequence::read(&bytes) {
                prop_assert!(read.sets.len() <= MAX_SETS as usize && read.poc_bits <= 16);
            }
        }
    }
}
