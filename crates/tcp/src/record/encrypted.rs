//! Encrypted records: a counter, and the AEAD of sub-stream, number and data.

use timeous_seal::{OpeningKey, SealingKey, TAG_LEN};

use super::encode::{content_room, stuff};
use super::wire::{COUNTER, DELIMITERS, ENCRYPTED_HEAD};

/// Bytes that are not payload in the content of a record.
const OVERHEAD: usize = COUNTER + ENCRYPTED_HEAD + TAG_LEN;

/// Returns the length on the wire of an encrypted record with a payload of `len` bytes.
pub const fn encrypted_len(len: usize) -> usize {
    DELIMITERS + cobs::max_encoding_length(OVERHEAD + len)
}

/// Returns the maximum payload of an encrypted record that takes at most `room` bytes on the wire; `None` if not even an
/// empty one fits.
pub const fn encrypted_room(room: usize) -> Option<usize> {
    content_room(room).checked_sub(OVERHEAD)
}

/// Returns the length of the plaintext of a record that takes at most `room` bytes, if it has a sub-stream at least.
pub(super) const fn plaintext_room(room: usize) -> Option<usize> {
    match content_room(room).checked_sub(COUNTER + TAG_LEN) {
        None | Some(0) => None,
        some => some,
    }
}

/// Starts a record's content: with room for its counter. The plaintext follows.
pub(super) fn begin(content: &mut Vec<u8>) {
    content.clear();
    content.resize(COUNTER, 0);
}

/// Encrypts the plaintext in `content` under the next counter, and appends the record: as long as the worst case.
pub(super) fn finish(key: &mut SealingKey, content: &mut Vec<u8>, out: &mut Vec<u8>) {
    let end = out.len() + DELIMITERS + cobs::max_encoding_length(content.len() + TAG_LEN);
    let counter = key.seal(|_| b"", content, COUNTER).to_be_bytes();
    content[..COUNTER].copy_from_slice(&counter[counter.len() - COUNTER..]);
    stuff(&[content], out);
    out.resize(end, 0);
}

/// Splits a record's content into its counter and what is encrypted.
fn split(content: &[u8]) -> Option<(u64, &[u8])> {
    let (counter, sealed) = content.split_first_chunk::<COUNTER>()?;
    let mut number = [0; 8];
    number[8 - COUNTER..].copy_from_slice(counter);
    Some((u64::from_be_bytes(number), sealed))
}

/// Decrypts a record's content, and appends its plaintext.
pub(super) fn open(key: &mut OpeningKey, content: &[u8], plaintext: &mut Vec<u8>) -> bool {
    split(content).is_some_and(|(counter, sealed)| key.open_at(counter, b"", sealed, plaintext))
}

/// Decrypts the content of a record that was written with `key`, and appends its plaintext.
pub(super) fn reopen(key: &SealingKey, content: &[u8], plaintext: &mut Vec<u8>) -> bool {
    split(content).is_some_and(|(counter, sealed)| key.reopen(counter, b"", sealed, plaintext))
}
