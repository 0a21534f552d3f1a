//! TCP as a state machine without input and output (RFC 9293), a client of the Congestion Manager.
//!
//! It is a peer for measurements and the ground on which late data choice over TCP stands: what a segment carries, and
//! what is delivered when, are decided in rooms of their own.

#![forbid(unsafe_code)]

pub mod receiver;
pub mod segment;
pub mod seq;

pub use receiver::{Receiver, ReceiverConfig};
pub use segment::{Addresses, Flags, Header, Options, SackBlock, SackBlocks, Segment, Timestamps, WireError};
pub use seq::Seq;
