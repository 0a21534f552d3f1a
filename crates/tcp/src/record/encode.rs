//! Writing of records and padding, with lengths that are known beforehand.

use super::wire::{CHECKSUM, DELIMITERS, MAX_SUBSTREAM, PADDING, SEALED, SEALED_HEAD};

/// Minimum length of a padding record, in bytes; shorter padding consists of zeros only.
const MIN_PADDING: usize = DELIMITERS + 2;

/// Returns the length on the wire of a sealed record with a payload of `len` bytes.
///
/// ```
/// use timeous_tcp::record::{sealed, sealed_len};
/// let mut wire = Vec::new();
/// sealed(2, 7, b"some data", &mut wire);
/// assert_eq!(wire.len(), sealed_len(9));
/// ```
pub const fn sealed_len(len: usize) -> usize {
    DELIMITERS + cobs::max_encoding_length(SEALED_HEAD + len + CHECKSUM)
}

/// Returns the maximum payload of a sealed record that takes at most `room` bytes on the wire; `None` if not even an
/// empty one fits.
pub const fn sealed_room(room: usize) -> Option<usize> {
    content_room(room).checked_sub(SEALED_HEAD + CHECKSUM)
}

/// Returns the maximum length on the wire of a plain record with a payload of `len` bytes.
pub const fn plain_len(len: usize) -> usize {
    DELIMITERS + cobs::max_encoding_length(1 + len)
}

/// Returns the maximum payload of a plain record that takes at most `room` bytes on the wire; `None` if not even an
/// empty one fits.
pub const fn plain_room(room: usize) -> Option<usize> {
    content_room(room).checked_sub(1)
}

/// Inverts COBS's worst case: one byte more for each 254.
const fn content_room(room: usize) -> usize {
    let encoded = room.saturating_sub(DELIMITERS);
    encoded - encoded.div_ceil(255)
}

/// Appends a sealed record: exactly [`sealed_len`] bytes.
///
/// # Panics
/// If `substream` is not one for data: below 2 or above [`MAX_SUBSTREAM`].
pub fn sealed(substream: u8, number: u32, payload: &[u8], out: &mut Vec<u8>) {
    assert!(is_for_data(substream), "sub-streams of data go from 2 to 127, this is {substream}");
    let mut head = [0; SEALED_HEAD];
    head[0] = SEALED | substream;
    head[1..].copy_from_slice(&number.to_be_bytes());
    let mut crc = crc32fast::Hasher::new();
    crc.update(&head);
    crc.update(payload);
    let end = out.len() + sealed_len(payload.len());
    stuff(&[&head, payload, &crc.finalize().to_be_bytes()], out);
    out.resize(end, 0);
}

/// Appends a plain record, the paper's form: at most [`plain_len`] bytes.
///
/// # Panics
/// If `substream` is not one for data: below 2 or above [`MAX_SUBSTREAM`].
pub fn plain(substream: u8, payload: &[u8], out: &mut Vec<u8>) {
    assert!(is_for_data(substream), "sub-streams of data go from 2 to 127, this is {substream}");
    stuff(&[&[substream], payload], out);
}

/// Appends exactly `len` bytes that no receiver delivers: a record of the padding sub-stream; fewer than four bytes are
/// zeros.
///
/// ```
/// use timeous_tcp::record::pad;
/// let mut wire = Vec::new();
/// pad(6, &mut wire);
/// assert_eq!(wire, [0, 2, 1, 1, 1, 0]);
/// ```
pub fn pad(len: usize, out: &mut Vec<u8>) {
    let end = out.len() + len;
    if len >= MIN_PADDING {
        // The COBS form of the sub-stream and of zeros for the rest: each takes one byte.
        out.extend_from_slice(&[0, 2, PADDING]);
        out.resize(end - 1, 1);
    }
    out.resize(end, 0);
}

pub(super) const fn is_for_data(substream: u8) -> bool {
    substream > PADDING && substream <= MAX_SUBSTREAM
}

/// Appends a zero, the COBS form of the parts, and a zero. Only the middle part may be empty.
fn stuff(parts: &[&[u8]], out: &mut Vec<u8>) {
    let start = out.len();
    let content = parts.iter().map(|part| part.len()).sum();
    out.resize(start + DELIMITERS + cobs::max_encoding_length(content), 0);
    let mut encoder = cobs::CobsEncoder::new(&mut out[start + 1..]);
    for part in parts.iter().filter(|part| !part.is_empty()) {
        encoder.push(part).expect("there is room for the worst case");
    }
    let len = encoder.finalize();
    out.truncate(start + DELIMITERS + len);
    // If a group of 254 ends exactly with the data, the encoder has begun another one here.
    out[start + 1 + len] = 0;
}
