//! Records: datagrams over a byte stream, as uTLTCP has them (McQuistin §3.1, §3.2).
//!
//! # On the wire
//! ```text
//!      plain, the paper's:  00 │ COBS( s │ data ) │ 00
//!   sealed, what we send:   00 │ COBS( 80+s │ number (4) │ data │ CRC-32 (4) ) │ 00 │ 00 … 00
//!                padding:   00 │ COBS( 01 │ 00 … 00 ) = 02 01 01 … 01 │ 00
//! ```
//! COBS ([Cheshire & Baker](https://doi.org/10.1109/90.769765)) leaves no zero in a record, so that a receiver finds
//! records between zeros, wherever in the stream it begins to look. `s` is the sub-stream: [`PADDING`], [`TIMED`], or one
//! of the application's from [`UNTIMED`] to [`MAX_SUBSTREAM`]. Two zeros beside each other enclose nothing.
//!
//! # What we add to the paper, and why
//! A segment that is sent again may carry another datagram than before. So a receiver may get the old one *and*, later,
//! the same datagram at another place; and where something on the way cuts segments anew, it may get the front of the
//! old bytes with the end of the new ones. The bit `80` of the sub-stream says that a record is *sealed* against both:
//! - The **number**, big-endian, is the datagram's own; each one of a connection has another, counted up. It keeps its
//!   number wherever it is sent, so that a receiver knows a duplicate.
//! - The **CRC-32** (that of zlib, Ethernet and PNG: every language has it), big-endian, is over everything before it: a
//!   mixture of two versions does not pass.
//!
//! A record without that bit is the paper's, and is read if it is asked for ([`Framing::Plain`]).
//!
//! # Sizes
//! What COBS adds depends on the data. A sealed record always takes what it would at worst ([`sealed_len`]): zeros fill it
//! up. So its length on the wire depends on the payload's length alone, and a datagram fits in the place of another that
//! is as long or longer; the rest is [padding](pad), of exactly any length.
//!
//! # A receiver in a few lines
//! Whoever reads the stream in order needs no more than this (Python):
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
//!                 yield data[0] & 0x7F, bytes(data[5:-4])
//! ```

mod decode;
mod encode;
mod ordered;
mod seen;
mod stretch;
mod tapped;
mod unordered;
mod wire;

pub use decode::{Counts, Datagram, Framing};
pub use encode::{pad, plain, plain_len, plain_room, sealed, sealed_len, sealed_room};
pub use ordered::Ordered;
pub use tapped::Tapped;
pub use unordered::{Limits, Unordered};
pub use wire::{MAX_SUBSTREAM, PADDING, TIMED, UNTIMED};

#[cfg(test)]
mod tapped_tests;
#[cfg(test)]
mod tests;
