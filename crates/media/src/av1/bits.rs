//! Bits of a header, from the highest of each byte (AV1 §4.10.2).

use h264_reader::rbsp::{BitRead, BitReader};

/// Reader of bits; `None` after the last one.
pub(crate) struct Bits<'a>(BitReader<&'a [u8]>);

impl<'a> Bits<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(BitReader::new(bytes))
    }

    /// Number of up to 32 bits.
    pub(crate) fn number(&mut self, bits: u32) -> Option<u32> {
        self.0.read_var(bits, "number").ok()
    }

    pub(crate) fn flag(&mut self) -> Option<bool> {
        self.0.read_bit("flag").ok()
    }

    /// Skips a number of variable length (§4.10.3).
    pub(crate) fn skip_variable(&mut self) -> Option<()> {
        let mut zeros = 0;
        while !self.flag()? {
            zeros += 1;
        }
        // From 32 zeros on, nothing follows.
        if zeros < 32 {
            self.number(zeros)?;
        }
        Some(())
    }
}
