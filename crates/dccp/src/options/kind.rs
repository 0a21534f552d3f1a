//! The option types of RFC 4340 §5.8, table 3.

#![allow(missing_docs, reason = "the names are the table's")]
pub const PADDING: u8 = 0;
pub const MANDATORY: u8 = 1;
pub const SLOW_RECEIVER: u8 = 2;
/// The last type that is a single byte, without a length.
pub const LAST_SINGLE_BYTE: u8 = 31;
pub const CHANGE_L: u8 = 32;
pub const CONFIRM_L: u8 = 33;
pub const CHANGE_R: u8 = 34;
pub const CONFIRM_R: u8 = 35;
pub const INIT_COOKIE: u8 = 36;
pub const NDP_COUNT: u8 = 37;
pub const ACK_VECTOR_0: u8 = 38;
pub const ACK_VECTOR_1: u8 = 39;
pub const DATA_DROPPED: u8 = 40;
pub const TIMESTAMP: u8 = 41;
pub const TIMESTAMP_ECHO: u8 = 42;
pub const ELAPSED_TIME: u8 = 43;
pub const DATA_CHECKSUM: u8 = 44;
/// From the experimental range (RFC 4340 §19.3); ours, as are the next three.
pub const SENT_AT: u8 = 123;
pub const FRAGMENT: u8 = 124;
pub const REPEAT: u8 = 125;
pub const PARITY: u8 = 126;
pub const FIRST_CCID_SPECIFIC: u8 = 128;
