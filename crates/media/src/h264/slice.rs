//! Slice header parser (H.264 §7.3.3), up to the reference marking: picture identity, reference lists, marking.
//!
//! h264-reader parses the whole header, but has unchecked arithmetic on hostile fields; so only its bit reader and
//! parameter sets are used.

use h264_reader::nal::sps::{FrameMbsFlags, PicOrderCntType};
use h264_reader::nal::{pps::PicParameterSet, sps::ChromaFormat, sps::SeqParameterSet};
use h264_reader::rbsp::{BitRead, BitReader, BitReaderError};

use super::bits::payload_of;
use super::parameters::{ParameterSets, nal_type, ref_idc_of, type_of};

/// Bytes of a slice in which its header is parsed; weights of 64 references take at most 700 bytes.
pub(crate) const PREFIX: usize = 1024;

/// Most list modifications and memory management operations of a slice; a field has 32 references and lists of as many
/// entries (§7.4.3.1), so that more of them violate the standard.
const MAX_COMMANDS: usize = 66;

/// Most reference frames (§A.3.1).
pub(crate) const MAX_REFERENCE_FRAMES: u32 = 16;

/// Slice type, in order of increasing dependence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SliceKind {
    I,
    P,
    B,
}

/// Syntax elements for the picture order count (§8.2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PocSyntax {
    /// Type 0.
    Lsb { lsb: u32, delta_bottom: i32, max_lsb: u32 },
    /// Type 1.
    Cycle { deltas: [i32; 2], cycle: Box<PocCycle> },
    /// Type 2: output order is decoding order.
    DecodingOrder,
}

/// Parameters of the SPS for picture order count type 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PocCycle {
    pub(crate) offset_for_non_ref_pic: i32,
    pub(crate) offset_for_top_to_bottom_field: i32,
    pub(crate) offsets_for_ref_frame: Vec<i32>,
}

/// Reference list modification (§7.4.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Modification {
    /// Short-term reference with a number lower (`Add`: higher) than the last one by this much.
    Subtract(u32),
    Add(u32),
    /// Long-term reference with this number.
    LongTerm(u32),
}

/// Memory management operation (§7.4.3.3), with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marking {
    /// 1: marks a short-term reference as unused.
    ForgetShort { difference_of_pic_nums: u32 },
    /// 2: marks a long-term reference as unused.
    ForgetLong { long_term_pic_num: u32 },
    /// 3: turns a short-term reference into a long-term one.
    MakeLong { difference_of_pic_nums: u32, long_term_frame_idx: u32 },
    /// 4: limits the number of long-term references.
    LimitLong { frames: u32 },
    /// 5: drops all references and restarts numbering (§8.2.5.4.6).
    Reset,
    /// 6: makes the current picture a long-term reference.
    BecomeLong { long_term_frame_idx: u32 },
}

/// Reference list of a slice: its length, and modifications of the initial list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct List {
    /// `num_ref_idx_active`: 1 to 32.
    pub(crate) active: usize,
    pub(crate) modifications: Vec<Modification>,
}

/// Slice header, up to the reference marking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SliceHeader {
    pub(crate) kind: SliceKind,
    pub(crate) pps_id: u32,
    pub(crate) frame_num: u32,
    pub(crate) max_frame_num: u32,
    pub(crate) gaps_allowed: bool,
    /// `max_num_ref_frames` of the SPS, at most 16.
    pub(crate) max_references: u32,
    /// For a field picture: whether it is the bottom field.
    pub(crate) bottom_field: Option<bool>,
    /// Set for an IDR picture.
    pub(crate) idr_pic_id: Option<u32>,
    pub(crate) poc: PocSyntax,
    pub(crate) redundant: bool,
    pub(crate) ref_idc: u8,
    /// Reference lists: none for I slices, one for P, two for B.
    pub(crate) lists: Vec<List>,
    /// Memory management operations; `None` for the sliding window (§8.2.5.3).
    pub(crate) markings: Option<Vec<Marking>>,
    /// Whether an IDR picture is a long-term reference.
    pub(crate) idr_long_term: bool,
}

/// Whether `nal` has a slice header.
pub(crate) fn is_slice(nal: &[u8]) -> bool {
    let kind = nal.first().map(|&header| type_of(header));
    matches!(kind, Some(nal_type::SLICE | nal_type::PARTITION_A | nal_type::IDR))
}

/// Reason for which a slice header is unreadable.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SliceError {
    /// Its parameter sets are unknown.
    NoParameterSets,
    /// It is malformed or truncated.
    Malformed,
}

impl From<BitReaderError> for SliceError {
    fn from(_: BitReaderError) -> Self {
        Self::Malformed
    }
}

impl SliceHeader {
    /// Whether the picture is used for reference.
    pub(crate) fn is_reference(&self) -> bool {
        self.ref_idc != 0
    }

    /// Whether the picture is IDR.
    pub(crate) fn is_idr(&self) -> bool {
        self.idr_pic_id.is_some()
    }

    /// Whether the picture drops all references and restarts numbering (memory management operation 5).
    pub(crate) fn resets(&self) -> bool {
        self.markings.as_ref().is_some_and(|markings| markings.contains(&Marking::Reset))
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

    /// Whether `next`, the following picture, is the second field of the same frame (§3.30), by parity and number; as
    /// in decoders, one of them may be a non-reference field.
    pub(crate) fn pairs_with(&self, next: &Self) -> bool {
        let opposite = self.bottom_field.zip(next.bottom_field).is_some_and(|(first, second)| first != second);
        let idr = !next.is_idr() || self.idr_pic_id == next.idr_pic_id;
        opposite && self.frame_num == next.frame_num && idr && !self.resets() && !next.resets()
    }

    /// Reads the header of `nal` if it is a readable slice or data partition A.
    pub(crate) fn read_if_slice(nal: &[u8], sets: &ParameterSets) -> Option<Self> {
        if is_slice(nal) { Self::read(nal, sets).ok() } else { None }
    }

    /// Reads the header of `nal`, a slice or a data partition A.
    pub(crate) fn read(nal: &[u8], sets: &ParameterSets) -> Result<Self, SliceError> {
        if nal.len() < 2 {
            return Err(SliceError::Malformed);
        }
        let payload = payload_of(nal, PREFIX);
        let bits = &mut BitReader::new(payload.as_slice());

        bits.read_ue("first_mb_in_slice")?;
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
        let lists = read_lists(bits, pps, kind)?;
        let (mut markings, mut idr_long_term) = (None, false);
        if ref_idc != 0 {
            skip_weights(bits, sps, pps, kind, &lists)?;
            if idr {
                bits.skip(1, "no_output_of_prior_pics_flag")?;
                idr_long_term = bits.read_bit("long_term_reference_flag")?;
            } else {
                markings = read_markings(bits)?;
            }
        }
        Ok(Self {
            kind,
            pps_id,
            frame_num,
            max_frame_num: 1 << sps.log2_max_frame_num(),
            gaps_allowed: sps.gaps_in_frame_num_value_allowed_flag,
            max_references: sps.max_num_ref_frames.min(MAX_REFERENCE_FRAMES),
            bottom_field,
            idr_pic_id,
            poc,
            redundant,
            ref_idc,
            lists,
            markings,
            idr_long_term,
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
    Ok(match &sps.pic_order_cnt {
        PicOrderCntType::TypeZero { log2_max_pic_order_cnt_lsb_minus4 } => {
            let len = u32::from(*log2_max_pic_order_cnt_lsb_minus4) + 4;
            let lsb = bits.read_var(len, "pic_order_cnt_lsb")?;
            let delta_bottom = if bottom { bits.read_se("delta_pic_order_cnt_bottom")? } else { 0 };
            PocSyntax::Lsb { lsb, delta_bottom, max_lsb: 1 << len }
        }
        PicOrderCntType::TypeOne {
            delta_pic_order_always_zero_flag,
            offset_for_non_ref_pic,
            offset_for_top_to_bottom_field,
            offsets_for_ref_frame,
        } => {
            let mut deltas = [0; 2];
            if !delta_pic_order_always_zero_flag {
                deltas[0] = bits.read_se("delta_pic_order_cnt[0]")?;
                deltas[1] = if bottom { bits.read_se("delta_pic_order_cnt[1]")? } else { 0 };
            }
            let cycle = PocCycle {
                offset_for_non_ref_pic: *offset_for_non_ref_pic,
                offset_for_top_to_bottom_field: *offset_for_top_to_bottom_field,
                offsets_for_ref_frame: offsets_for_ref_frame.clone(),
            };
            PocSyntax::Cycle { deltas, cycle: Box::new(cycle) }
        }
        PicOrderCntType::TypeTwo => PocSyntax::DecodingOrder,
    })
}

/// Reads lengths and modifications of the reference lists (§7.3.3, §7.3.3.1).
fn read_lists(bits: &mut impl BitRead, pps: &PicParameterSet, kind: SliceKind) -> Result<Vec<List>, SliceError> {
    let mut active = [pps.num_ref_idx_l0_default_active_minus1, pps.num_ref_idx_l1_default_active_minus1];
    let count = match kind {
        SliceKind::I => return Ok(Vec::new()),
        SliceKind::P => 1,
        SliceKind::B => 2,
    };
    if kind == SliceKind::B {
        bits.skip(1, "direct_spatial_mv_pred_flag")?;
    }
    if bits.read_bit("num_ref_idx_active_override_flag")? {
        for minus1 in &mut active[..count] {
            *minus1 = bits.read_ue("num_ref_idx_active_minus1")?;
        }
    }
    let mut lists = Vec::with_capacity(count);
    for &minus1 in &active[..count] {
        if minus1 > 31 {
            return Err(SliceError::Malformed);
        }
        lists.push(List { active: minus1 as usize + 1, modifications: read_modifications(bits)? });
    }
    Ok(lists)
}

fn read_modifications(bits: &mut impl BitRead) -> Result<Vec<Modification>, SliceError> {
    let mut modifications = Vec::new();
    if !bits.read_bit("ref_pic_list_modification_flag")? {
        return Ok(modifications);
    }
    while modifications.len() <= MAX_COMMANDS {
        let idc = bits.read_ue("modification_of_pic_nums_idc")?;
        if idc == 3 {
            return Ok(modifications);
        }
        let operand = bits.read_ue("operand")?;
        modifications.push(match idc {
            0 => Modification::Subtract(operand.saturating_add(1)),
            1 => Modification::Add(operand.saturating_add(1)),
            2 => Modification::LongTerm(operand),
            _ => return Err(SliceError::Malformed),
        });
    }
    Err(SliceError::Malformed)
}

/// Reads the memory management operations of a reference picture (§7.3.3.3); `None` for sliding window.
fn read_markings(bits: &mut impl BitRead) -> Result<Option<Vec<Marking>>, SliceError> {
    if !bits.read_bit("adaptive_ref_pic_marking_mode_flag")? {
        return Ok(None);
    }
    let mut markings = Vec::new();
    while markings.len() <= MAX_COMMANDS {
        let operation = bits.read_ue("memory_management_control_operation")?;
        let mut operand = || bits.read_ue("operand");
        markings.push(match operation {
            0 => return Ok(Some(markings)),
            1 => Marking::ForgetShort { difference_of_pic_nums: operand()?.saturating_add(1) },
            2 => Marking::ForgetLong { long_term_pic_num: operand()? },
            3 => Marking::MakeLong {
                difference_of_pic_nums: operand()?.saturating_add(1),
                long_term_frame_idx: operand()?,
            },
            4 => Marking::LimitLong { frames: operand()? },
            5 => Marking::Reset,
            6 => Marking::BecomeLong { long_term_frame_idx: operand()? },
            _ => return Err(SliceError::Malformed),
        });
    }
    Err(SliceError::Malformed)
}

fn skip_weights(
    bits: &mut impl BitRead,
    sps: &SeqParameterSet,
    pps: &PicParameterSet,
    kind: SliceKind,
    lists: &[List],
) -> Result<(), SliceError> {
    let weighted = match kind {
        SliceKind::I => false,
        SliceKind::P => pps.weighted_pred_flag,
        SliceKind::B => pps.weighted_bipred_idc == 1,
    };
    if !weighted {
        return Ok(());
    }
    let mono = sps.chroma_info.separate_colour_plane_flag || sps.chroma_info.chroma_format == ChromaFormat::Monochrome;
    bits.read_ue("luma_log2_weight_denom")?;
    if !mono {
        bits.read_ue("chroma_log2_weight_denom")?;
    }
    for _ in 0..lists.iter().map(|list| list.active).sum() {
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
