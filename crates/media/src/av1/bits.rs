//! Bits of a header, from the highest of each byte (AV1 §4.10.2).

/// Reader of bits; `None` after the last one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Number of up to 32 bits.
    pub(super) fn number(&mut self, bits: u32) -> Option<u32> {
        let mut value = 0;
        for _ in 0..bits {
            let byte = self.bytes.get(self.at / 8)?;
            value = value << 1 | u32::from(byte >> (7 - self.at % 8) & 1);
            self.at += 1;
        }
        Some(value)
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        self.number(1).map(|bit| bit == 1)
    }

    /// Skips a number of variable length (§4.10.3).
    pub(super) fn skip_variable(&mut self) -> Option<()> {
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
