//! Constants of the record format.

/// Sub-stream of padding, which no receiver delivers.
pub const PADDING: u8 = 1;
/// Sub-stream of datagrams with a deadline.
pub const TIMED: u8 = 2;
/// First sub-stream of datagrams without a deadline, the default for these.
pub const UNTIMED: u8 = 3;
/// Last sub-stream of a record's head, for messages between the ends: the bit above marks numbered records.
pub const CONTROL: u8 = 0x7f;
/// Mark in place of a sub-stream that does not fit there: it is the data's first byte.
pub const WIDE: u8 = 0x7e;

/// Flag of a numbered record.
pub(super) const NUMBERED: u8 = 0x80;
/// Length of a numbered record's header: sub-stream and number.
pub(super) const NUMBERED_HEAD: usize = 5;
/// Length of the checksum behind the data.
pub(super) const CHECKSUM: usize = 4;
/// Number of zeros around a record.
pub(super) const DELIMITERS: usize = 2;
/// Length of an encrypted record's counter, in bytes: 2^48 records, which take a year at 100 Gbit/s.
pub(super) const COUNTER: usize = 6;
/// Length of the head within an encrypted record's plaintext: sub-stream and number.
pub(super) const ENCRYPTED_HEAD: usize = 5;
