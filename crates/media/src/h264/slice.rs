//! The front part of a slice header (H.264 §7.3.3): which picture a slice belongs to, and what it does to others.
//!
//! h264-reader reads the whole header, but adds up fields of a hostile one without a check; and only the part up to
//! the reference marking is needed here. So its bit reader and parameter sets are used, and this part is read anew.

use h264_reader::nal::sps::{FrameMbsFlags, PicOrderCntType};
use h264_reader::nal::{Nal, RefNal, pps::PicParameterSet, sps::ChromaFormat, sps::SeqParameterSet};
use h264_reader::rbsp::{BitRead, BitReaderError};

use super::parameters::{ParameterSets, nal_type, ref_idc_of, type_of};

/// The bytes of a slice that its header is looked for in.
const PREFIX: usize = 1024;

/// What a slice predicts from, the most demanding last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SliceKind {
    I,
    P,
    B,
}

/// The syntax elements of which the picture order count is made (§8.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PocSyntax {
    /// Type 0.
    Lsb { lsb: u32, delta_bottom: i32, max_lsb: u32 },
    /// Type 1, which is not computed here.
    Deltas([i32; 2]),
    /// Type 2: output order is decoding order.
    DecodingOrder,
}

/// The front part of a slice header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SliceHeader {
    pub(crate) first_mb: u32,
    pub(crate) kind: SliceKind,
    pub(crate) pps_id: u32,
    pub(crate) frame_num: u32,
    pub(crate) max_frame_num: u32,
    pub(crate) gaps_allowed: bool,
    /// `Some` for a field picture: whether it is the bottom one.
    pub(crate) bottom_field: Option<bool>,
    /// `Some` for an IDR picture.
    pub(crate) idr_pic_id: Option<u32>,
    pub(crate) poc: PocSyntax,
    pub(crate) redundant: bool,
    pub(crate) ref_idc: u8,
    /// Memory management operation 5: all references are forgotten and the numbers start anew (§8.2.5.4.6).
    pub(crate) resets: bool,
}

/// Whether a slice header stands in `nal`.
pub(crate) fn is_slice(nal: &[u8]) -> bool {
    let kind = nal.first().map(|&header| type_of(header));
    matches!(kind, Some(nal_type::SLICE | nal_type::PARTITION_A | nal_type::IDR))
}

/// The header cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SliceError {
    /// It refers to parameter sets that are not known.
    NoParameterSets,
    /// It breaks the syntax, or ends early.
    Malformed,
}

impl From<BitReaderError> for SliceError {
    fn from(_: BitReaderError) -> Self {
        Self::Malformed
    }
}

impl SliceHeader {
    /// Whether anything may refer to the picture.
    pub(crate) fn is_reference(&self) -> bool {
        self.ref_idc != 0
    }

    /// Whether it is an IDR picture.
    pub(crate) fn is_idr(&self) -> bool {
        self.idr_pic_id.is_some()
    }

    /// Whether `next` is a slice of another primary coded picture (§7.4.1.2.4).
    pub(crate) fn differs_in_picture(&self, next: &Self) -> bool {
        self.frame_num != next.frame_num
            || self.pps_id != next.pps_id
            || self.bottom_field != next.bottom_field
            || (self.ref_idc == 0) != (next.ref_idc == 0)
            || self.poc != next.poc
            || self.idr_pic_id != next.idr_pic_id
    }

    /// Reads the header of `nal` if it is a slice, or a data partition A, and can be read.
    pub(crate) fn read_if_slice(nal: &[u8], sets: &ParameterSets) -> Option<Self> {
        if is_slice(nal) { Self::read(nal, sets).ok() } else { None }
    }

    /// Reads the header of `nal`, a slice or a data partition A.
    pub(crate) fn read(nal: &[u8], sets: &ParameterSets) -> Result<Self, SliceError> {
        if nal.len() < 2 {
            return Err(SliceError::Malformed);
        }
        let whole = nal.len() <= PREFIX;
        let reader = RefNal::new(&nal[..nal.len().min(PREFIX)], &[], whole);
        let mut bits = reader.rbsp_bits();
        let bits = &mut bits;

        let first_mb = bits.read_ue("first_mb_in_slice")?;
        let kind = match bits.read_ue("slice_type")? {
            0 | 3 | 5 | 8 => SliceKind::P,
            1 | 6 => SliceKind::B,
            2 | 4 | 7 | 9 => SliceKind::I,
            _ => return Err(SliceError::Malformed),
        };
        let pps_id = bits.read_ue("pic_parameter_set_id")?;
        let (sps, pps) = sets.of(pps_id).ok_or(SliceError::NoParameterSets)?;
        if sps.chroma_info.separate_colour_plane_flag {
            bits.skip(2, "colour_plane_id")?;
        }
        let frame_num = bits.read_var(u32::from(sps.log2_max_frame_num()), "frame_num")?;
        let bottom_field = match sps.frame_mbs_flags {
            FrameMbsFlags::Fields { .. } if bits.read_bit("field_pic_flag")? => {
                Some(bits.read_bit("bottom_field_flag")?)
            }
            _ => None,
        };
        let idr = type_of(nal[0]) == nal_type::IDR;
        let idr_pic_id = if idr { Some(bits.read_ue("idr_pic_id")?) } else { None };
        let poc = read_poc(bits, sps, pps, bottom_field.is_some())?;
        let redundant = pps.redundant_pic_cnt_present_flag && bits.read_ue("redundant_pic_cnt")? > 0;
        let ref_idc = ref_idc_of(nal[0]);
        let resets = ref_idc != 0 && !idr && read_resets(bits, sps, pps, kind)?;
        Ok(Self {
            first_mb,
            kind,
            pps_id,
            frame_num,
            max_frame_num: 1 << sps.log2_max_frame_num(),
            gaps_allowed: sps.gaps_in_frame_num_value_allowed_flag,
            bottom_field,
            idr_pic_id,
            poc,
            redundant,
            ref_idc,
            resets,
        })
    }
}

fn read_poc(
    bits: &mut impl BitRead,
    sps: &SeqParameterSet,
    pps: &PicParameterSet,
    field: bool,
) -> Result<PocSyntax, SliceError> {
    let bottom = pps.bottom_field_pic_order_in_frame_present_flag && !field;
    Ok(match sps.pic_order_cnt {
        PicOrderCntType::TypeZero { log2_max_pic_order_cnt_lsb_minus4 } => {
            let len = u32::from(log2_max_pic_order_cnt_lsb_minus4) + 4;
            let lsb = bits.read_var(len, "pic_order_cnt_lsb")?;
            let delta_bottom = if bottom { bits.read_se("delta_pic_order_cnt_bottom")? } else { 0 };
            PocSyntax::Lsb { lsb, delta_bottom, max_lsb: 1 << len }
        }
        PicOrderCntType::TypeOne { delta_pic_order_always_zero_flag: true, .. } => PocSyntax::Deltas([0, 0]),
        PicOrderCntType::TypeOne { .. } => {
            let first = bits.read_se("delta_pic_order_cnt[0]")?;
            let second = if bottom { bits.read_se("delta_pic_order_cnt[1]")? } else { 0 };
            PocSyntax::Deltas([first, second])
        }
        PicOrderCntType::TypeTwo => PocSyntax::DecodingOrder,
    })
}

/// Reads on to the reference marking of a non-IDR reference picture: whether operation 5 is in it (§7.3.3.3).
fn read_resets(
    bits: &mut impl BitRead,
    sps: &SeqParameterSet,
    pps: &PicParameterSet,
    kind: SliceKind,
) -> Result<bool, SliceError> {
    let mut active = [pps.num_ref_idx_l0_default_active_minus1, pps.num_ref_idx_l1_default_active_minus1];
    let lists = match kind {
        SliceKind::I => 0,
        SliceKind::P => 1,
        SliceKind::B => 2,
    };
    if kind == SliceKind::B {
        bits.skip(1, "direct_spatial_mv_pred_flag")?;
    }
    if lists > 0 && bits.read_bit("num_ref_idx_active_override_flag")? {
        for count in &mut active[..lists] {
            *count = bits.read_ue("num_ref_idx_active_minus1")?;
        }
    }
    if active[..lists].iter().any(|&count| count > 31) {
        return Err(SliceError::Malformed);
    }
    for _ in 0..lists {
        skip_list_modification(bits)?;
    }
    let weighted = match kind {
        SliceKind::I => false,
        SliceKind::P => pps.weighted_pred_flag,
        SliceKind::B => pps.weighted_bipred_idc == 1,
    };
    if weighted {
        skip_weights(bits, sps, &active[..lists])?;
    }
    if !bits.read_bit("adaptive_ref_pic_marking_mode_flag")? {
        return Ok(false);
    }
    let mut resets = false;
    loop {
        match bits.read_ue("memory_management_control_operation")? {
            0 => return Ok(resets),
            1 | 2 | 4 | 6 => drop(bits.read_ue("operand")?),
            3 => {
                bits.read_ue("difference_of_pic_nums_minus1")?;
                bits.read_ue("long_term_frame_idx")?;
            }
            5 => resets = true,
            _ => return Err(SliceError::Malformed),
        }
    }
}

fn skip_list_modification(bits: &mut impl BitRead) -> Result<(), SliceError> {
    if !bits.read_bit("ref_pic_list_modification_flag")? {
        return Ok(());
    }
    loop {
        match bits.read_ue("modification_of_pic_nums_idc")? {
            0..=2 => drop(bits.read_ue("operand")?),
            3 => return Ok(()),
            _ => return Err(SliceError::Malformed),
        }
    }
}

fn skip_weights(bits: &mut impl BitRead, sps: &SeqParameterSet, active: &[u32]) -> Result<(), SliceError> {
    let mono = sps.chroma_info.separate_colour_plane_flag || sps.chroma_info.chroma_format == ChromaFormat::Monochrome;
    bits.read_ue("luma_log2_weight_denom")?;
    if !mono {
        bits.read_ue("chroma_log2_weight_denom")?;
    }
    for _ in active.iter().flat_map(|&count| 0..=count) {
        for values in if mono { &[2][..] } else { &[2, 4] } {
            if bits.read_bit("weight_flag")? {
                for _ in 0..*values {
                    bits.read_se("weight")?;
                }
            }
        }
    }
    Ok(())
}
