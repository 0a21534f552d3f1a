//! Writer of one direction's records: numbered, plain or encrypted ones.

use timeous_seal::{Cipher, SealingKey, Secret, Secrets};

use super::encode::{
    numbered_len, numbered_parts, numbered_room, pad, plain_len, plain_parts, plain_room, substream_len,
};
use super::encrypted::{begin, encrypted_len, encrypted_room, finish, plaintext_room, reopen};
use super::wire::{CONTROL, PADDING, WIDE};

/// Writer of one direction's records, with lengths that are known beforehand.
///
/// ```
/// use timeous_seal::{Cipher, Secret};
/// use timeous_tcp::record::{Framing, Ordered, Writer};
/// let (cipher, secret) = (Cipher::Aes128Gcm, Secret::new([7; 32]));
/// let mut writer = Writer::encrypted(cipher, secret.clone());
/// let mut wire = Vec::new();
/// writer.write(2, 0, b"hello", &mut wire);
/// assert_eq!(wire.len(), writer.record_len(5));
/// writer.pad(100, &mut wire);
/// let mut reader = Ordered::new(Framing::Encrypted(cipher, secret), 1_500);
/// reader.push(&wire, |datagram| assert_eq!(datagram.payload, b"hello"));
/// assert_eq!((reader.counts().delivered, reader.counts().padding), (1, 1));
/// ```
#[derive(Debug, Default)]
pub struct Writer {
    /// Keys of encrypted records; `None`: records are numbered, or plain.
    key: Option<SealingKey>,
    is_plain: bool,
    /// Content of a record, and what it was encoded from.
    scratch: Vec<u8>,
}

impl Writer {
    /// Creates a writer of encrypted records; the default writes numbered ones.
    #[must_use]
    pub fn encrypted(cipher: Cipher, secret: Secret) -> Self {
        Self { key: Some(SealingKey::new(cipher, secret)), ..Self::default() }
    }

    /// Creates a writer of encrypted records if there are `secrets`, else of numbered ones.
    #[must_use]
    pub fn new(secrets: Option<&Secrets>) -> Self {
        secrets.map_or_else(Self::default, |secrets| Self::encrypted(secrets.cipher, secrets.sealing.clone()))
    }

    /// Makes a writer of numbered records one of plain ones, for a stream whose content never changes. Encrypted ones stay so.
    #[must_use]
    pub fn plain(mut self) -> Self {
        self.is_plain = self.key.is_none();
        self
    }

    /// Returns whether records are encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.key.is_some()
    }

    /// Returns the length on the wire of a record with a payload of `len` bytes; of a plain one the most.
    #[must_use]
    pub fn record_len(&self, len: usize) -> usize {
        match &self.key {
            Some(_) => encrypted_len(len),
            None if self.is_plain => plain_len(len),
            None => numbered_len(len),
        }
    }

    /// Returns the maximum payload of a record that takes at most `room` bytes on the wire; `None` if not even an empty one
    /// fits.
    #[must_use]
    pub fn room(&self, room: usize) -> Option<usize> {
        match &self.key {
            Some(_) => encrypted_room(room),
            None if self.is_plain => plain_room(room),
            None => numbered_room(room),
        }
    }

    /// Appends a record: exactly [`record_len`](Self::record_len) bytes of the payload and its [`substream_len`] (plain: at most),
    /// different ones each time if they are encrypted.
    pub fn write(&mut self, substream: u8, number: u32, payload: &[u8], out: &mut Vec<u8>) {
        match substream_len(substream) {
            0 => self.write_parts((substream, &[]), number, payload, out),
            _ => self.write_parts((WIDE, &[substream]), number, payload, out),
        }
    }

    /// Appends a record directly behind another one of the same segment: plain ones share the zero between them.
    pub fn write_behind(&mut self, substream: u8, number: u32, payload: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        self.write(substream, number, payload, out);
        if self.is_plain && start > 0 && out[start - 1] == 0 {
            out.remove(start);
        }
    }

    /// Appends a message to the other end.
    pub fn control(&mut self, number: u32, body: &[u8], out: &mut Vec<u8>) {
        self.write_parts((CONTROL, &[]), number, body, out);
    }

    fn write_parts(&mut self, head: (u8, &[u8]), number: u32, payload: &[u8], out: &mut Vec<u8>) {
        let Some(key) = &mut self.key else {
            match self.is_plain {
                true => plain_parts(head, payload, out),
                false => numbered_parts(head, number, payload, out),
            }
            return;
        };
        begin(&mut self.scratch);
        self.scratch.push(head.0);
        self.scratch.extend_from_slice(&number.to_be_bytes());
        self.scratch.extend_from_slice(head.1);
        self.scratch.extend_from_slice(payload);
        finish(key, &mut self.scratch, out);
    }

    /// Appends exactly `len` bytes that no receiver delivers: a record of the padding sub-stream; fewer bytes than such a
    /// record takes are zeros.
    pub fn pad(&mut self, len: usize, out: &mut Vec<u8>) {
        let Some(key) = &mut self.key else { return pad(len, out) };
        let end = out.len() + len;
        if let Some(room) = plaintext_room(len) {
            begin(&mut self.scratch);
            self.scratch.push(PADDING);
            let content = self.scratch.len() + room - 1;
            self.scratch.resize(content, 0);
            finish(key, &mut self.scratch, out);
        }
        out.resize(end, 0);
    }

    /// Appends a copy of a record that this writer wrote, for another place in the stream; an encrypted one is encrypted anew.
    /// Returns `false`, and appends nothing, if the record's key is not in use any more.
    pub fn copy(&mut self, record: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(key) = &mut self.key else {
            out.extend_from_slice(record);
            return true;
        };
        let Some(chunk) = record.split(|&byte| byte == 0).find(|chunk| !chunk.is_empty()) else { return false };
        let mut content = chunk.to_vec();
        let len = cobs::decode_in_place(&mut content).unwrap_or(0);
        begin(&mut self.scratch);
        let is_open = reopen(key, &content[..len], &mut self.scratch);
        if is_open {
            finish(key, &mut self.scratch, out);
        }
        is_open
    }
}
