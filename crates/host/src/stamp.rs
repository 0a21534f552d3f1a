//! Payloads that tell which ADU they are, so that a receiver's times meet a sender's.

use timeous_core::AduSeq;

/// What a stamp takes at the beginning of a payload.
pub const LEN: usize = 8;

/// Fills `payload` with `len` bytes that say they are ADU `seq`; less than [`LEN`] bytes say nothing.
pub fn write(seq: AduSeq, len: usize, payload: &mut Vec<u8>) {
    payload.clear();
    payload.extend_from_slice(&seq.0.to_be_bytes());
    payload.resize(len, seq.0 as u8);
}

/// The number in a payload that was made by [`write()`]; of any other the number means nothing.
pub fn read(payload: &[u8]) -> Option<AduSeq> {
    let bytes = payload.first_chunk::<LEN>()?;
    Some(AduSeq(u64::from_be_bytes(*bytes)))
}
