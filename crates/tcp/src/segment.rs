//! Segments: header, options, parsing and writing (RFC 9293 §3.1).

mod checksum;
mod emit;
mod flags;
mod header;
mod options;
mod parse;
mod sack;

pub use checksum::Addresses;
pub use emit::{EmitError, add_flags, begin, finish, set_seq};
pub use flags::Flags;
pub use header::Header;
pub use options::{MAX_OPTION_BYTES, MAX_WINDOW_SCALE, Options, Timestamps};
pub use parse::{Segment, WireError};
pub use sack::{SackBlock, SackBlocks};

#[cfg(test)]
mod tests;
