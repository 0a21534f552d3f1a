//! DCCP packets: ten types, headers, encapsulation (RFC 4340 §5; RFC 6773 §3).

mod checksum;
mod emit;
mod encapsulation;
mod header;
mod parse;
mod view;

pub use emit::{EmitError, begin, begin_encoded, finish};
pub use encapsulation::Encapsulation;
pub use header::{Body, Header};
pub use parse::WireError;
pub(crate) use parse::quoted_request;
pub use view::Packet;

pub use crate::packet_type::PacketType;

#[cfg(test)]
mod tests;
