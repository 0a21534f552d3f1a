//! The parameter sets of a stream: parsed for reading slice headers, raw for giving them on.

use std::collections::BTreeMap;

use h264_reader::Context;
use h264_reader::nal::pps::{PicParamSetId, PicParameterSet};
use h264_reader::nal::sps::{PicOrderCntType, SeqParamSetId, SeqParameterSet};
use h264_reader::nal::{Nal, RefNal};

/// NAL unit types (H.264 table 7-1) that the rooms of media tell apart.
pub(crate) mod nal_type {
    pub(crate) const SLICE: u8 = 1;
    pub(crate) const PARTITION_A: u8 = 2;
    pub(crate) const IDR: u8 = 5;
    pub(crate) const SEI: u8 = 6;
    pub(crate) const SPS: u8 = 7;
    pub(crate) const PPS: u8 = 8;
    pub(crate) const AUD: u8 = 9;
    pub(crate) const PREFIX: u8 = 14;
    pub(crate) const RESERVED_18: u8 = 18;
}

/// The type of a NAL unit by its first byte.
pub(crate) fn type_of(header: u8) -> u8 {
    header & 0x1f
}

/// How much the NAL unit matters to others (`nal_ref_idc`); zero: nothing refers to it.
pub(crate) fn ref_idc_of(header: u8) -> u8 {
    (header >> 5) & 3
}

/// No honest parameter set comes near it: what is larger is ignored, so that the memory is bounded.
const MAX_RAW: usize = 4096;

/// The SPS and PPS seen so far, by their ids.
#[derive(Default)]
pub(crate) struct ParameterSets {
    context: Context,
    sps: BTreeMap<u8, Vec<u8>>,
    pps: BTreeMap<u8, Vec<u8>>,
}

impl std::fmt::Debug for ParameterSets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParameterSets").field("sps", &self.sps.keys()).field("pps", &self.pps.keys()).finish()
    }
}

impl ParameterSets {
    /// Takes `nal` if it is a parameter set that can be understood.
    pub(crate) fn take(&mut self, nal: &[u8]) {
        if nal.is_empty() || nal.len() > MAX_RAW {
            return;
        }
        let reader = RefNal::new(nal, &[], true);
        match type_of(nal[0]) {
            nal_type::SPS => {
                if let Ok(sps) = SeqParameterSet::from_bits(reader.rbsp_bits())
                    && within_the_standard(&sps)
                {
                    self.sps.insert(sps.id().id(), nal.to_vec());
                    self.context.put_seq_param_set(sps);
                }
            }
            nal_type::PPS => {
                if let Ok(pps) = PicParameterSet::from_bits(&self.context, reader.rbsp_bits()) {
                    self.pps.insert(pps.pic_parameter_set_id.id(), nal.to_vec());
                    self.context.put_pic_param_set(pps);
                }
            }
            _ => {}
        }
    }

    /// The sets that a slice with this PPS id is read by.
    pub(crate) fn of(&self, pps_id: u32) -> Option<(&SeqParameterSet, &PicParameterSet)> {
        let pps = self.context.pps_by_id(PicParamSetId::from_u32(pps_id).ok()?)?;
        Some((self.context.sps_by_id(pps.seq_parameter_set_id)?, pps))
    }

    /// The same, as they came: SPS, then PPS.
    pub(crate) fn raw_of(&self, pps_id: u32) -> Option<[&[u8]; 2]> {
        let (sps, pps) = self.of(pps_id)?;
        Some([self.sps.get(&sps.id().id())?, self.pps.get(&pps.pic_parameter_set_id.id())?])
    }

    /// All sets as they came: each SPS, then each PPS, in the order of their ids.
    pub(crate) fn raw(&self) -> impl Iterator<Item = &[u8]> {
        self.sps.values().chain(self.pps.values()).map(Vec::as_slice)
    }

    /// The SPS with the lowest id.
    pub(crate) fn any_sps(&self) -> Option<&SeqParameterSet> {
        let id = *self.sps.keys().next()?;
        self.context.sps_by_id(SeqParamSetId::from_u32(id.into()).ok()?)
    }
}

/// The ranges that slice headers are read by (H.264 §7.4.2.1.1).
fn within_the_standard(sps: &SeqParameterSet) -> bool {
    let poc = match sps.pic_order_cnt {
        PicOrderCntType::TypeZero { log2_max_pic_order_cnt_lsb_minus4 } => log2_max_pic_order_cnt_lsb_minus4 <= 12,
        _ => true,
    };
    poc && (4..=16).contains(&sps.log2_max_frame_num())
}
