//! Constants of the record format.

/// Sub-stream of padding, which no receiver delivers.
pub const PADDING: u8 = 1;
/// Sub-stream of datagrams with a deadline.
pub const TIMED: u8 = 2;
/// First sub-stream of datagrams without a deadline, the default for these.
pub const UNTIMED: u8 = 3;
/// Last sub-stream: the bit above marks sealed records.
pub const MAX_SUBSTREAM: u8 = 0x7f;

/// Flag of a sealed record.
pub(super) const SEALED: u8 = 0x80;
/// Length of a sealed record's header: sub-stream and number.
pub(super) const SEALED_HEAD: usize = 5;
/// Length of the checksum behind the data.
pub(super) const CHECKSUM: usize = 4;
/// Number of zeros around a record.
pub(super) const DELIMITERS: usize = 2;
