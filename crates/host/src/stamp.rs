//! Payloads with the number of their ADU, to match a receiver's times with a sender's.

use timeous_core::AduSeq;

/// Length of the stamp at the beginning of a payload.
pub const LEN: usize = 8;

/// Fills `payload` with `len` bytes that begin with the number of ADU `seq`; less than [`LEN`] bytes carry no number.
pub fn write(seq: AduSeq, len: usize, payload: &mut Vec<u8>) {
    payload.clear();
    payload.extend_from_slice(&seq.0.to_be_bytes());
    payload.resize(len, seq.0 as u8);
}

/// Returns the number in a payload made by [`write()`]; in any other payload the number has no meaning.
pub fn read(payload: &[u8]) -> Option<AduSeq> {
    let bytes = payload.first_chunk::<LEN>()?;
    Some(AduSeq(u64::from_be_bytes(*bytes)))
}
