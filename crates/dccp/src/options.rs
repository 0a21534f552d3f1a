//! DCCP options: types, encoding, and the packets that may carry them (RFC 4340 §5.8).

mod data_dropped;
pub mod kind;
mod list;
mod opt;
mod parse;
mod ticks;

pub use data_dropped::{DropBlock, DropCode, drop_blocks, encode_drops};
pub use list::{ListFull, OptionList};
pub use opt::{MAX_OPTION_DATA, Opt, PARITY_MAP, Side, is_permitted};
pub use parse::{OptionError, OptionItem, Options};
pub use ticks::Ticks;

#[cfg(test)]
mod tests;
