//! The numbers of a record on the wire.

/// The sub-stream of padding, which no receiver delivers.
pub const PADDING: u8 = 1;
/// The sub-stream of datagrams with a deadline.
pub const TIMED: u8 = 2;
/// The first of the sub-streams without deadlines, taken where an application names none.
pub const UNTIMED: u8 = 3;
/// The last of them: the bit above says that a record is sealed.
pub const MAX_SUBSTREAM: u8 = 0x7f;

/// The bit of a sealed record.
pub(super) const SEALED: u8 = 0x80;
/// What stands before the data of a sealed record: sub-stream and number.
pub(super) const SEALED_HEAD: usize = 5;
/// What stands after them.
pub(super) const CHECKSUM: usize = 4;
/// The zeros around a record.
pub(super) const DELIMITERS: usize = 2;
