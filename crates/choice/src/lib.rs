//! Late choice: policies that decide at the instant of sending which packets are still worth sending.
//!
//! A policy sees the queued part of a packet ring through [`Queue`](timeous_core::Queue), on either side of the ring,
//! and drops packets that are not worth sending. Policies compose by [`Chain`]; applications add their own by
//! implementing [`LateChoice`].

#![forbid(unsafe_code)]

pub mod age;
pub mod chain;
pub mod dbat;
pub mod deadline;
pub mod dependencies;
pub mod frames;
pub mod layers;
pub mod named;
pub mod plan;
pub mod repair;
pub mod timeline;

pub use age::Age;
pub use chain::Chain;
pub use dbat::Dbat;
pub use deadline::{Deadlines, Punctual};
pub use dependencies::Dependencies;
pub use frames::{Frames, QueueLimit};
pub use layers::Layers;
pub use plan::Plan;
pub use repair::Repair;
pub use timeline::Timeline;
pub use timeous_core::LateChoice;

#[cfg(test)]
mod testing;
