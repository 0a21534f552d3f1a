//! Records: datagrams over a byte stream, as in uTLTCP (McQuistin §3.1, §3.2).
//!
//! # On the wire
//! ```text
//!   plain, the paper's:  00 │ COBS( s │ data ) │ 00
//!             numbered:  00 │ COBS( 80+s │ number (4) │ data │ CRC-32 (4) ) │ 00 │ 00 … 00
//!              padding:  00 │ COBS( 01 │ 00 … 00 ) = 02 01 01 … 01 │ 00
//!            encrypted:  00 │ COBS( counter (6) │ AEAD( s │ number (4) │ data ) │ tag (16) ) │ 00 │ 00 … 00
//! ```
//! COBS ([Cheshire & Baker](https://doi.org/10.1109/90.769765)) leaves no zero byte in a record, so that a receiver
//! finds records between zeros from any place in the stream. `s` is the sub-stream: [`PADDING`], [`TIMED`], or one of
//! the application's from [`UNTIMED`] on. [`WIDE`] stands for any other of 0 to 255, which is the data's first byte then, and
//! [`CONTROL`] for messages between the ends. Empty records are ignored.
//!
//! # Extensions of the paper's format
//! A retransmitted segment may carry another datagram. So a receiver may get a datagram twice, at two places in the
//! stream; and where a middlebox splits segments anew, it may get a mixture of the old and the new bytes. The bit `80`
//! of the sub-stream marks a *numbered* record, which is protected against both:
//! - The **number**, big-endian, identifies the datagram: numbers of a connection count up, and a datagram keeps its
//!   number in every transmission, so that a receiver detects duplicates.
//! - The **CRC-32** (that of zlib, Ethernet and PNG), big-endian, is over everything before it: a mixture of two
//!   versions fails the check.
//!
//! A record without that bit has the paper's format, and is read only with [`Framing::Plain`]. Two of them in one segment share the zero between
//! them ([`Writer::write_behind`]); a record at the beginning of a segment has its own, so that it can be read without the segment before.
//!
//! # Encryption
//! Numbered records protect against accidents. *Encrypted* records, with keys of both ends (`timeous_seal`), protect
//! against an attacker on the path, too (docs/design/security.md):
//! - The **counter**, big-endian, makes the nonce. Each write into the stream has a fresh one, also that of a datagram
//!   written before, so that no nonce is used twice.
//! - Number and sub-stream are as in numbered records. The **tag** is in place of the CRC.
//! - Padding is an encrypted record of its sub-stream.
//!
//! A stream has either form, never both: a [`Writer`] writes one, and [`Framing`] tells a reader.
//!
//! # Sizes
//! COBS's overhead depends on the data. A numbered or encrypted record always has the worst-case length
//! ([`numbered_len`], [`encrypted_len`]): zeros fill it up. So its length on the wire depends on the payload's length only, and a datagram fits in the place of another
//! that is as long or longer; the rest is [padding](pad), which can have any length.
//!
//! # A minimal receiver
//! A program that reads the stream in order (Python):
//! ```python
//! def datagrams(connection):
//!     chunk, seen = b"", set()
//!     while more := connection.recv(65536):
//!         *records, chunk = (chunk + more).split(b"\0")
//!         for record in records:
//!             data, at = bytearray(), 0
//!             while at < len(record):                   # COBS
//!                 code = record[at]
//!                 data += record[at + 1 : at + code]
//!                 at += code
//!                 if code < 255 and at < len(record):
//!                     data.append(0)
//!             if len(data) < 9 or data[0] < 0x80:       # nothing, or padding
//!                 continue
//!             number, checksum = bytes(data[1:5]), int.from_bytes(data[-4:], "big")
//!             if zlib.crc32(data[:-4]) == checksum and number not in seen:
//!                 seen.add(number)
//!                 wide = data[0] == 0xFE
//!                 yield data[5] if wide else data[0] & 0x7F, bytes(data[5 + wide : -4])
//! ```

mod decode;
mod encode;
mod encrypted;
mod ordered;
mod seen;
mod stretch;
mod tapped;
mod unordered;
mod wire;
mod writer;

pub use decode::{Counts, Datagram, Framing};
pub use encode::{
    numbered, numbered_len, numbered_room, pad, plain, plain_len, plain_room, substream_len, substream_of,
};
pub use encrypted::{encrypted_len, encrypted_room};
pub use ordered::Ordered;
pub use tapped::Tapped;
pub use unordered::{Limits, Unordered};
pub use wire::{CONTROL, PADDING, TIMED, UNTIMED, WIDE};
pub use writer::Writer;

#[cfg(test)]
mod encrypted_tests;
#[cfg(test)]
mod tapped_tests;
#[cfg(test)]
mod tests;
