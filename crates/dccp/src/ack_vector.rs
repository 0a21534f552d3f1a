//! Ack Vectors: received, ECN-marked and missing packets (RFC 4340 §11.4).

mod receiver;
mod reports;
mod state;

pub use receiver::{AckVector, Arrival};
pub use reports::{AckVectorError, Report, Reports, vectors_of};
pub use state::PacketState;

#[cfg(test)]
mod tests;
