//! Writing of records and padding, with lengths that are known beforehand.

use timeous_core::{AduMeta, Instant};

use super::wire::{CHECKSUM, CONTROL, DELIMITERS, NUMBERED, NUMBERED_HEAD, PADDING, TIMED, UNTIMED, WIDE};

/// Minimum length of a padding record, in bytes; shorter padding consists of zeros only.
const MIN_PADDING: usize = DELIMITERS + 2;

/// Returns the length on the wire of a numbered record with a payload of `len` bytes.
///
/// ```
/// use timeous_tcp::record::{numbered, numbered_len};
/// let mut wire = Vec::new();
/// numbered(2, 7, b"some data", &mut wire);
/// assert_eq!(wire.len(), numbered_len(9));
/// ```
pub const fn numbered_len(len: usize) -> usize {
    DELIMITERS + cobs::max_encoding_length(NUMBERED_HEAD + len + CHECKSUM)
}

/// Returns the maximum payload of a numbered record that takes at most `room` bytes on the wire; `None` if not even an
/// empty one fits.
pub const fn numbered_room(room: usize) -> Option<usize> {
    content_room(room).checked_sub(NUMBERED_HEAD + CHECKSUM)
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
pub(super) const fn content_room(room: usize) -> usize {
    let encoded = room.saturating_sub(DELIMITERS);
    encoded - encoded.div_ceil(255)
}

/// Appends a numbered record: exactly [`numbered_len`] bytes.
///
/// # Panics
/// If `substream` is not one of a record's head: below 2 or above [`CONTROL`].
pub fn numbered(substream: u8, number: u32, payload: &[u8], out: &mut Vec<u8>) {
    numbered_parts((substream, &[]), number, payload, out);
}

/// Appends a numbered record with a `prefix` of the payload.
pub(super) fn numbered_parts((substream, prefix): (u8, &[u8]), number: u32, payload: &[u8], out: &mut Vec<u8>) {
    assert!(is_of_head(substream), "sub-streams of a head go from 2 to 127, this is {substream}");
    let mut head = [0; NUMBERED_HEAD];
    head[0] = NUMBERED | substream;
    head[1..].copy_from_slice(&number.to_be_bytes());
    let mut crc = crc32fast::Hasher::new();
    crc.update(&head);
    crc.update(prefix);
    crc.update(payload);
    let end = out.len() + numbered_len(prefix.len() + payload.len());
    stuff(&[&head, prefix, payload, &crc.finalize().to_be_bytes()], out);
    out.resize(end, 0);
}

/// Appends a plain record, the paper's form: at most [`plain_len`] bytes.
///
/// # Panics
/// If `substream` is not one of a record's head: below 2 or above [`CONTROL`].
pub fn plain(substream: u8, payload: &[u8], out: &mut Vec<u8>) {
    plain_parts((substream, &[]), payload, out);
}

/// Appends a plain record with a `prefix` of the payload.
pub(super) fn plain_parts((substream, prefix): (u8, &[u8]), payload: &[u8], out: &mut Vec<u8>) {
    assert!(is_of_head(substream), "sub-streams of a head go from 2 to 127, this is {substream}");
    stuff(&[&[substream], prefix, payload], out);
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

pub(super) const fn is_of_head(substream: u8) -> bool {
    substream > PADDING && substream <= CONTROL
}

/// Returns the sub-stream of a datagram's record. With none of the application's, it tells whether there is a deadline; 0 with a
/// deadline at the end of time is one of the application's.
///
/// ```
/// use timeous_core::{AduMeta, Instant, SubStream};
/// use timeous_tcp::record::{TIMED, UNTIMED, substream_of};
/// let of = |own, deadline| substream_of(&AduMeta { substream: SubStream(own), deadline, ..AduMeta::default() });
/// assert_eq!(of(0, None), UNTIMED);
/// assert_eq!(of(0, Some(Instant::ZERO)), TIMED);
/// assert_eq!([of(0, Some(Instant::FAR_FUTURE)), of(200, None)], [0, 200]);
/// ```
pub fn substream_of(meta: &AduMeta) -> u8 {
    match (meta.substream.0, meta.deadline) {
        (0, None) => UNTIMED,
        (0, Some(deadline)) if deadline != Instant::FAR_FUTURE => TIMED,
        (own, _) => own,
    }
}

/// Returns the number of bytes that a record of this sub-stream takes of its payload: one if the sub-stream does not fit into
/// the head.
pub const fn substream_len(substream: u8) -> usize {
    if TIMED <= substream && substream < WIDE { 0 } else { 1 }
}

/// Appends a zero, the COBS form of the parts, and a zero. The parts may be empty, but not all.
pub(super) fn stuff(parts: &[&[u8]], out: &mut Vec<u8>) {
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
