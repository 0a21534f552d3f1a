//! Lenient bit reader for parameter sets and slice headers: accepts what decoders in the field accept.

use h264_reader::rbsp::{BitRead, BitReader, BitReaderError, Integer, Primitive};

/// Returns the payload of `nal` without its header byte and emulation prevention bytes (H.264 §7.3.1), of at most the
/// first `limit` bytes. Illegal byte sequences are kept as they are.
pub(crate) fn payload_of(nal: &[u8], limit: usize) -> Vec<u8> {
    let body = nal.get(1..nal.len().min(limit)).unwrap_or_default();
    let mut out = Vec::with_capacity(body.len());
    let mut zeros = 0;
    for &byte in body {
        if zeros >= 2 && byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        out.push(byte);
    }
    out
}

/// Reader of a parameter set that ignores trailing data and, on request, optional parts.
pub(crate) struct LenientReader<'a> {
    bits: BitReader<&'a [u8]>,
    /// Flags read as zero, by their names in h264-reader.
    without: &'static [&'static str],
}

impl<'a> LenientReader<'a> {
    pub(crate) fn new(payload: &'a [u8], without: &'static [&'static str]) -> Self {
        Self { bits: BitReader::new(payload), without }
    }
}

impl BitRead for LenientReader<'_> {
    fn read_ue(&mut self, name: &'static str) -> Result<u32, BitReaderError> {
        self.bits.read_ue(name)
    }

    fn read_se(&mut self, name: &'static str) -> Result<i32, BitReaderError> {
        self.bits.read_se(name)
    }

    fn read_bit(&mut self, name: &'static str) -> Result<bool, BitReaderError> {
        if self.without.contains(&name) {
            return Ok(false);
        }
        self.bits.read_bit(name)
    }

    fn read<const BITS: u32, I: Integer>(&mut self, name: &'static str) -> Result<I, BitReaderError> {
        self.bits.read::<BITS, I>(name)
    }

    fn read_var<I: Integer>(&mut self, bit_count: u32, name: &'static str) -> Result<I, BitReaderError> {
        self.bits.read_var(bit_count, name)
    }

    fn read_to<V: Primitive>(&mut self, name: &'static str) -> Result<V, BitReaderError> {
        self.bits.read_to(name)
    }

    fn skip(&mut self, bit_count: u32, name: &'static str) -> Result<(), BitReaderError> {
        self.bits.skip(bit_count, name)
    }

    fn byte_aligned(&self) -> bool {
        self.bits.byte_aligned()
    }

    /// Reports no PPS extension: slice headers do not need it, and padding looks like one.
    fn has_more_rbsp_data(&mut self, _: &'static str) -> Result<bool, BitReaderError> {
        Ok(false)
    }

    fn finish_rbsp(self) -> Result<(), BitReaderError> {
        Ok(())
    }

    fn finish_sei_payload(self) -> Result<(), BitReaderError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emulation_prevention_is_taken_out() {
        assert_eq!(payload_of(&[0x67, 0, 0, 3, 1, 0, 0, 3], 100), [0, 0, 1, 0, 0]);
        assert_eq!(payload_of(&[0x67, 1, 2, 3], 3), [1, 2]);
        assert!(payload_of(&[], 3).is_empty() && payload_of(&[0x67], 3).is_empty());
    }
}
