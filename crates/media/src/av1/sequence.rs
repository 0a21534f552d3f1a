//! Sequence header, as far as frame headers need it (AV1 §5.5).

use super::bits::Bits;

/// Value of `seq_force_screen_content_tools` and `seq_force_integer_mv` by which each frame tells (§6.4.1).
const BY_FRAME: u32 = 2;

/// Fields of the sequence header by which frame headers are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sequence {
    pub(super) is_still: bool,
    /// Layers of each operating point, and whether it has a decoder model.
    pub(super) operating_points: Vec<(u32, bool)>,
    /// Bits of presentation times, if frames have one, and of buffer removal times, if there is a decoder model.
    pub(super) presentation_bits: Option<u32>,
    pub(super) removal_bits: Option<u32>,
    /// Bits of frame identifiers and of their differences, if frames have one.
    pub(super) frame_ids: Option<(u32, u32)>,
    /// `None`: each frame tells.
    pub(super) screen_content: Option<bool>,
    pub(super) has_integer_vectors: Option<bool>,
    /// Bits of order hints; zero if there are none.
    pub(super) order_bits: u32,
}

impl Sequence {
    /// Reads the payload of a sequence header.
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        let mut bits = Bits::new(payload);
        let mut sequence = Self::default();
        // Profile 3, still picture 1.
        bits.number(4)?;
        sequence.is_still = bits.flag()?;
        if sequence.is_still {
            return Some(sequence);
        }
        let delay_bits = sequence.read_timing(&mut bits)?;
        sequence.read_operating_points(&mut bits, delay_bits)?;
        let [width, height] = [bits.number(4)? + 1, bits.number(4)? + 1];
        bits.number(width)?;
        bits.number(height)?;
        if bits.flag()? {
            let difference = bits.number(4)? + 2;
            sequence.frame_ids = Some((difference + bits.number(3)? + 1, difference));
        }
        // 128x128 superblocks, filter intra, intra edge filter; inter-intra, masked, warped, dual filter.
        bits.number(7)?;
        let has_order = bits.flag()?;
        if has_order {
            bits.number(2)?;
        }
        let content = if bits.flag()? { BY_FRAME } else { bits.number(1)? };
        let vectors = if content == 0 || bits.flag()? { BY_FRAME } else { bits.number(1)? };
        let told = |value| (value != BY_FRAME).then_some(value == 1);
        (sequence.screen_content, sequence.has_integer_vectors) = (told(content), told(vectors));
        if has_order {
            sequence.order_bits = bits.number(3)? + 1;
        }
        Some(sequence)
    }

    /// Reads timing and decoder model (§5.5.3, §5.5.4); returns the bits of buffer delays.
    fn read_timing(&mut self, bits: &mut Bits<'_>) -> Option<Option<u32>> {
        if !bits.flag()? {
            return Some(None);
        }
        bits.number(32)?;
        bits.number(32)?;
        let is_even = bits.flag()?;
        if is_even {
            bits.skip_variable()?;
        }
        if !bits.flag()? {
            return Some(None);
        }
        let delay_bits = bits.number(5)? + 1;
        bits.number(32)?;
        self.removal_bits = Some(bits.number(5)? + 1);
        let presentation_bits = bits.number(5)? + 1;
        self.presentation_bits = (!is_even).then_some(presentation_bits);
        Some(Some(delay_bits))
    }

    fn read_operating_points(&mut self, bits: &mut Bits<'_>, delay_bits: Option<u32>) -> Option<()> {
        let has_display_delay = bits.flag()?;
        for _ in 0..=bits.number(5)? {
            let layers = bits.number(12)?;
            // Levels above 7 have a tier.
            if bits.number(5)? > 7 {
                bits.flag()?;
            }
            let has_model = match delay_bits {
                Some(delay_bits) if bits.flag()? => {
                    bits.number(delay_bits)?;
                    bits.number(delay_bits)?;
                    bits.flag()?;
                    true
                }
                _ => false,
            };
            if has_display_delay && bits.flag()? {
                bits.number(4)?;
            }
            self.operating_points.push((layers, has_model));
        }
        Some(())
    }
}
