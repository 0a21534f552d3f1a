//! A network in virtual time: hosts, routers, and the links of [`crate::link`] between them.

pub mod host;
pub mod packet;

pub use host::Host;
pub use packet::{Packet, Protocol};
