//! Hand-made parameter sets and slices for tests, with features that common encoders do not use.

/// Bits of a NAL unit.
#[derive(Default)]
struct Bits {
    bits: Vec<bool>,
}

impl Bits {
    fn u(&mut self, len: u32, value: u32) -> &mut Self {
        self.bits.extend((0..len).rev().map(|bit| value >> bit & 1 == 1));
        self
    }

    fn ue(&mut self, value: u32) -> &mut Self {
        let len = (value + 1).ilog2();
        self.u(len, 0).u(len + 1, value + 1)
    }

    fn se(&mut self, value: i32) -> &mut Self {
        self.ue(if value > 0 { 2 * value as u32 - 1 } else { 2 * value.unsigned_abs() })
    }

    /// The NAL unit with trailing bits and emulation prevention.
    fn nal(&mut self, header: u8) -> Vec<u8> {
        self.u(1, 1);
        let mut nal = vec![header];
        let mut zeros = 0;
        for bits in self.bits.chunks(8) {
            let byte = (0..8).fold(0, |byte, bit| byte << 1 | u8::from(bits.get(bit) == Some(&true)));
            if zeros == 2 && byte <= 3 {
                nal.push(3);
                zeros = 0;
            }
            zeros = if byte == 0 { zeros + 1 } else { 0 };
            nal.push(byte);
        }
        nal
    }
}

/// Bits of `frame_num` and `pic_order_cnt_lsb`.
const NUMBER_BITS: u32 = 4;
const COUNT_BITS: u32 = 8;

/// Baseline SPS of 64×64 pictures with this many reference frames, and `offsets` for order count type 1.
pub(crate) fn sps(references: u32, fields: bool, gaps: bool, offsets: Option<&[i32]>) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.u(8, 77).u(8, 0).u(8, 30).ue(0).ue(NUMBER_BITS - 4);
    match offsets {
        None => {
            bits.ue(0).ue(COUNT_BITS - 4);
        }
        Some(offsets) => {
            bits.ue(1).u(1, 1).se(-1).se(1).ue(offsets.len() as u32);
            for &offset in offsets {
                bits.se(offset);
            }
        }
    }
    bits.ue(references).u(1, gaps.into()).ue(3).ue(if fields { 1 } else { 3 }).u(1, (!fields).into());
    if fields {
        bits.u(1, 0);
    }
    bits.u(1, 1).u(1, 0).u(1, 0).nal(0x67)
}

/// PPS with these default list lengths.
pub(crate) fn pps(active: u32) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.ue(0).ue(0).u(2, 0).ue(0).ue(active - 1).ue(active - 1).u(3, 0).se(0).se(0).se(0).u(3, 0).nal(0x68)
}

/// Slice to build.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub(crate) idr: bool,
    pub(crate) ref_idc: u8,
    /// Slice type: P, B or I.
    pub(crate) kind: char,
    pub(crate) first_mb: u32,
    pub(crate) frame_num: u32,
    /// `pic_order_cnt_lsb`; `None` for order count type 1.
    pub(crate) count: Option<u32>,
    /// For an SPS that allows fields: whether this is a field, and whether the bottom one.
    pub(crate) field: Option<Option<bool>>,
    /// Length of its lists, if given explicitly.
    pub(crate) active: Option<u32>,
    /// Modifications of its first list: `modification_of_pic_nums_idc` and operand.
    pub(crate) modifications: Vec<(u32, u32)>,
    /// Memory management operations with their operands.
    pub(crate) markings: Vec<Vec<u32>>,
}

impl Slice {
    /// Slice of a reference frame.
    pub(crate) fn new(kind: char, frame_num: u32, count: u32) -> Self {
        Self {
            idr: false,
            ref_idc: 2,
            kind,
            first_mb: 0,
            frame_num: frame_num % (1 << NUMBER_BITS),
            count: Some(count % (1 << COUNT_BITS)),
            field: None,
            active: None,
            modifications: Vec::new(),
            markings: Vec::new(),
        }
    }

    pub(crate) fn idr() -> Self {
        Self { idr: true, ..Self::new('I', 0, 0) }
    }

    /// Slice of a non-reference frame.
    pub(crate) fn discardable(kind: char, frame_num: u32, count: u32) -> Self {
        Self { ref_idc: 0, ..Self::new(kind, frame_num, count) }
    }

    pub(crate) fn nal(&self) -> Vec<u8> {
        let mut bits = Bits::default();
        let kind = match self.kind {
            'P' => 0,
            'B' => 1,
            _ => 2,
        };
        bits.ue(self.first_mb).ue(kind).ue(0).u(NUMBER_BITS, self.frame_num);
        if let Some(field) = self.field {
            bits.u(1, field.is_some().into());
            if let Some(bottom) = field {
                bits.u(1, bottom.into());
            }
        }
        if self.idr {
            bits.ue(0);
        }
        if let Some(count) = self.count {
            bits.u(COUNT_BITS, count);
        }
        let lists = [1, 2, 0][kind as usize];
        if kind == 1 {
            bits.u(1, 1);
        }
        if lists > 0 {
            bits.u(1, self.active.is_some().into());
            for active in (0..lists).filter_map(|_| self.active) {
                bits.ue(active - 1);
            }
        }
        for list in 0..lists {
            let modified = list == 0 && !self.modifications.is_empty();
            bits.u(1, modified.into());
            if modified {
                for &(idc, operand) in &self.modifications {
                    bits.ue(idc).ue(operand);
                }
                bits.ue(3);
            }
        }
        if self.ref_idc > 0 && self.idr {
            bits.u(2, 0);
        } else if self.ref_idc > 0 {
            bits.u(1, (!self.markings.is_empty()).into());
            for &value in self.markings.iter().flatten() {
                bits.ue(value);
            }
            if !self.markings.is_empty() {
                bits.ue(0);
            }
        }
        // Slice data.
        bits.u(8, 0x5a).nal((self.ref_idc << 5) | if self.idr { 5 } else { 1 })
    }
}

/// A byte stream of NAL units.
pub(crate) fn annexb<'a>(nals: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let mut out = Vec::new();
    super::annexb::write(nals.into_iter().map(Vec::as_slice), &mut out);
    out
}
