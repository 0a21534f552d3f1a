//! Frame header, up to the references (AV1 §5.9.2).

use super::bits::Bits;
use super::obu::Obu;
use super::sequence::Sequence;

/// Types of frames (§6.8.2).
const KEY: u32 = 0;
const INTRA_ONLY: u32 = 2;
const SWITCH: u32 = 3;
/// Bits of a number of a slot, and references of a frame.
const SLOT: u32 = 3;
const REFERENCES: usize = 7;

/// Reference slots, one bit each.
pub(super) type Slots = u8;

/// Fields of a frame header that tell what the frame is and refers to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// Slot of an earlier frame that is shown, in place of a new one.
    pub(super) shows: Option<u8>,
    pub(super) is_key: bool,
    pub(super) is_shown: bool,
    /// Slots that it takes, and slots that it refers to.
    pub(super) refreshes: Slots,
    pub(super) references: Slots,
}

impl FrameHeader {
    /// Reads the header in a unit of the type frame or frame header.
    pub(super) fn read(obu: &Obu<'_>, sequence: &Sequence) -> Option<Self> {
        let mut bits = Bits::new(obu.payload);
        if sequence.is_still {
            return Some(Self { is_key: true, is_shown: true, refreshes: Slots::MAX, ..Self::default() });
        }
        if bits.flag()? {
            return Some(Self { shows: Some(bits.number(SLOT)? as u8), is_shown: true, ..Self::default() });
        }
        let (kind, is_shown) = (bits.number(2)?, bits.flag()?);
        let is_intra = matches!(kind, KEY | INTRA_ONLY);
        if let Some(len) = sequence.presentation_bits.filter(|_| is_shown) {
            bits.number(len)?;
        }
        if !is_shown {
            bits.flag()?;
        }
        let takes_all = kind == SWITCH || kind == KEY && is_shown;
        let is_resilient = takes_all || bits.flag()?;
        bits.flag()?;
        let has_screen_content = sequence.screen_content.map_or_else(|| bits.flag(), Some)?;
        if has_screen_content && sequence.has_integer_vectors.is_none() {
            bits.flag()?;
        }
        if let Some((len, _)) = sequence.frame_ids {
            bits.number(len)?;
        }
        if kind != SWITCH {
            bits.flag()?;
        }
        bits.number(sequence.order_bits)?;
        if !is_intra && !is_resilient {
            bits.number(SLOT)?;
        }
        skip_removal_times(&mut bits, obu, sequence)?;
        let refreshes = if takes_all { Slots::MAX } else { bits.number(8)? as Slots };
        let header = Self { is_key: kind == KEY, is_shown, refreshes, ..Self::default() };
        if is_intra {
            return Some(header);
        }
        if is_resilient && sequence.order_bits > 0 {
            (0..8).try_for_each(|_| bits.number(sequence.order_bits).map(drop))?;
        }
        if sequence.order_bits > 0 && bits.flag()? {
            // Two references are told, and the others follow from order hints: perhaps any.
            return Some(Self { references: Slots::MAX, ..header });
        }
        let mut references = 0;
        for _ in 0..REFERENCES {
            references |= 1 << bits.number(SLOT)?;
            if let Some((_, len)) = sequence.frame_ids {
                bits.number(len)?;
            }
        }
        Some(Self { references, ..header })
    }
}

fn skip_removal_times(bits: &mut Bits<'_>, obu: &Obu<'_>, sequence: &Sequence) -> Option<()> {
    let Some(len) = sequence.removal_bits else { return Some(()) };
    if !bits.flag()? {
        return Some(());
    }
    for (layers, has_model) in &sequence.operating_points {
        let is_in = layers >> obu.temporal & layers >> (obu.spatial + 8) & 1 == 1;
        if *has_model && (*layers == 0 || is_in) {
            bits.number(len)?;
        }
    }
    Some(())
}
