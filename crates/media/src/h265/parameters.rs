//! Parameter sets (SPS, PPS) of H.265, as far as slice headers depend on them (§7.3.2.2, §7.3.2.3).

use std::collections::BTreeMap;

use h264_reader::rbsp::{BitRead, BitReader};
use scuffle_h265::SpsNALUnit;

use super::reference_set::ReferenceSet;
use crate::h264::bits::payload_of;

/// Size limit of a parameter set, in bytes, to bound memory; real ones are far smaller.
const MAX_RAW: usize = 4096;
/// Largest identifiers of sequence and picture parameter sets (§7.4.3.2.1, §7.4.3.3.1).
const MAX_SPS: u64 = 15;
const MAX_PPS: u32 = 63;

/// Fields of an SPS.
#[derive(Clone, Debug)]
pub(super) struct Sps {
    pub(super) separate_colour_planes: bool,
    /// Bits of `slice_pic_order_cnt_lsb`.
    pub(super) poc_bits: u32,
    /// Most pictures that precede one in coding order and follow it in output order.
    pub(super) reordered: u64,
    pub(super) sets: Vec<ReferenceSet>,
    /// Long-term reference pictures: lowest bits of the picture order count, and whether the current picture may refer to it.
    pub(super) long_term: Option<Vec<(u32, bool)>>,
}

/// Fields of a PPS.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pps {
    sps: u8,
    pub(super) has_output_flag: bool,
    pub(super) extra_bits: u32,
}

/// Parameter sets of a stream so far.
#[derive(Clone, Debug, Default)]
pub(super) struct ParameterSets {
    sps: BTreeMap<u8, Sps>,
    pps: BTreeMap<u32, Pps>,
}

impl ParameterSets {
    /// Takes an SPS, header included. An unreadable one is ignored.
    pub(super) fn take_sps(&mut self, nal: &[u8]) {
        let Some(sps) = nal.get(..nal.len().min(MAX_RAW)).and_then(|nal| SpsNALUnit::parse(nal).ok()) else { return };
        let sps = sps.rbsp;
        if sps.sps_seq_parameter_set_id > MAX_SPS {
            return;
        }
        let sets = &sps.short_term_ref_pic_sets;
        let pictures = |distances: &[i64], used: &[bool], count: u64| {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            let pictures = distances.iter().zip(used).take(count);
            pictures.map(|(distance, used)| (i32::try_from(*distance).unwrap_or(i32::MAX), *used)).collect()
        };
        let sets = (0..sets.num_delta_pocs.len())
            .map(|at| ReferenceSet {
                before: pictures(&sets.delta_poc_s0[at], &sets.used_by_curr_pic_s0[at], sets.num_negative_pics[at]),
                after: pictures(&sets.delta_poc_s1[at], &sets.used_by_curr_pic_s1[at], sets.num_positive_pics[at]),
            })
            .collect();
        let long_term = sps.long_term_ref_pics.as_ref().map(|pictures| {
            let counts = pictures.lt_ref_pic_poc_lsb_sps.iter().zip(&pictures.used_by_curr_pic_lt_sps_flag);
            counts.map(|(lsb, used)| (u32::try_from(*lsb).unwrap_or(u32::MAX), *used)).collect()
        });
        let read = Sps {
            separate_colour_planes: sps.separate_colour_plane_flag,
            poc_bits: u32::from(sps.log2_max_pic_order_cnt_lsb_minus4.min(12)) + 4,
            reordered: sps.sub_layer_ordering_info.sps_max_num_reorder_pics.last().copied().unwrap_or(0),
            sets,
            long_term,
        };
        self.sps.insert(sps.sps_seq_parameter_set_id as u8, read);
    }

    /// Takes a PPS, header included. An unreadable one is ignored.
    pub(super) fn take_pps(&mut self, nal: &[u8]) {
        let payload = payload_of(nal.get(1..).unwrap_or_default(), MAX_RAW);
        let mut bits = BitReader::new(payload.as_slice());
        let mut read = || {
            let id = bits.read_ue("pps_pic_parameter_set_id").ok()?;
            let sps = bits.read_ue("pps_seq_parameter_set_id").ok()?;
            bits.read_bit("dependent_slice_segments_enabled_flag").ok()?;
            let has_output_flag = bits.read_bit("output_flag_present_flag").ok()?;
            let extra_bits = bits.read::<3, u32>("num_extra_slice_header_bits").ok()?;
            (id <= MAX_PPS).then_some((id, Pps { sps: u8::try_from(sps).ok()?, has_output_flag, extra_bits }))
        };
        if let Some((id, pps)) = read() {
            self.pps.insert(id, pps);
        }
    }

    /// Parameter sets of a slice with this PPS identifier.
    pub(super) fn of(&self, pps: u32) -> Option<(&Sps, &Pps)> {
        let pps = self.pps.get(&pps)?;
        Some((self.sps.get(&pps.sps)?, pps))
    }
}
