//! Slice segment header (H.265 §7.3.6.1) up to the reference picture sets.

use h264_reader::rbsp::{BitRead, BitReader};

use super::nal::{HEADER, NalHeader};
use super::parameters::ParameterSets;
use super::reference_set::ReferenceSet;
use super::sequence::Sequence;
use crate::h264::bits::payload_of;

/// Bytes of a slice that its reference sets surely fit into. Chosen by us: 33 pictures of at most nine bytes.
pub(super) const MAX_HEADER: usize = 512;
/// Most long-term reference pictures (§7.4.7.1: the decoded picture buffer).
const MAX_LONG_TERM: u32 = 33;

/// Beginning of a picture's first slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SliceHeader {
    /// Lowest bits of the picture order count, and their number.
    pub(super) poc_lsb: u32,
    pub(super) poc_bits: u32,
    /// Most pictures that precede one in coding order and follow it in output order.
    pub(super) reordered: u64,
    /// Distances in output order of the short-term pictures that this one may refer to.
    pub(super) short_term: Vec<i32>,
    /// Long-term pictures that it may refer to, by the lowest bits of their count.
    pub(super) long_term: Vec<u32>,
}

impl SliceHeader {
    /// Reads a slice, header included. `None`: it is not the first of its picture, or it cannot be read.
    pub(super) fn read(nal: &[u8], header: NalHeader, sets: &ParameterSets) -> Option<Self> {
        let payload = payload_of(nal.get(HEADER - 1..)?, MAX_HEADER);
        let mut bits = BitReader::new(payload.as_slice());
        if !bits.read_bit("first_slice_segment_in_pic_flag").ok()? {
            return None;
        }
        if header.is_irap() {
            bits.read_bit("no_output_of_prior_pics_flag").ok()?;
        }
        let (sps, pps) = sets.of(bits.read_ue("slice_pic_parameter_set_id").ok()?)?;
        for _ in 0..pps.extra_bits {
            bits.read_bit("slice_reserved_flag").ok()?;
        }
        bits.read_ue("slice_type").ok()?;
        if pps.has_output_flag {
            bits.read_bit("pic_output_flag").ok()?;
        }
        if sps.separate_colour_planes {
            bits.read::<2, u8>("colour_plane_id").ok()?;
        }
        let (poc_bits, reordered) = (sps.poc_bits, sps.reordered);
        if header.is_idr() {
            return Some(Self { poc_bits, reordered, ..Self::default() });
        }
        let poc_lsb = bits.read_var(poc_bits, "slice_pic_order_cnt_lsb").ok()?;
        let short_term = if bits.read_bit("short_term_ref_pic_set_sps_flag").ok()? {
            let index: u32 = bits.read_var(bits_for(sps.sets.len()), "short_term_ref_pic_set_idx").ok()?;
            sps.sets.get(index as usize)?.used().collect()
        } else {
            ReferenceSet::read(&mut bits, &sps.sets, true)?.used().collect()
        };
        let long_term = match &sps.long_term {
            Some(_) => long_term(&mut bits, sps)?,
            None => Vec::new(),
        };
        Some(Self { poc_lsb, poc_bits, reordered, short_term, long_term })
    }
}

/// Reads the long-term pictures that the current one may refer to.
fn long_term(bits: &mut BitReader<&[u8]>, sps: &Sequence) -> Option<Vec<u32>> {
    let known = sps.long_term.as_deref().unwrap_or_default();
    let from_sps = if known.is_empty() { 0 } else { bits.read_ue("num_long_term_sps").ok()? };
    let own = bits.read_ue("num_long_term_pics").ok()?;
    if from_sps.checked_add(own)? > MAX_LONG_TERM {
        return None;
    }
    let mut used = Vec::new();
    for at in 0..from_sps + own {
        let (lsb, is_used) = if at < from_sps {
            let index: u32 = bits.read_var(bits_for(known.len()), "lt_idx_sps").ok()?;
            *known.get(index as usize)?
        } else {
            let lsb = bits.read_var(sps.poc_bits, "poc_lsb_lt").ok()?;
            (lsb, bits.read_bit("used_by_curr_pic_lt_flag").ok()?)
        };
        if bits.read_bit("delta_poc_msb_present_flag").ok()? {
            bits.read_ue("delta_poc_msb_cycle_lt").ok()?;
        }
        used.extend(is_used.then_some(lsb));
    }
    Some(used)
}

/// Bits of an index into a list: the logarithm of its length, rounded up.
fn bits_for(len: usize) -> u32 {
    len.next_power_of_two().ilog2()
}
