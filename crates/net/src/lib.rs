//! Network model: one link model, in simulation and in real time.
//!
//! [`link`] models one direction of a path: rate, propagation delay, queue and loss, without sockets or a clock. A
//! simulation runs it in virtual time; the [`emulator`] runs the same model in real time, as a UDP relay between two
//! loopback ports or as a wire between two network namespaces. [`capture`] records the packets.

#![deny(unsafe_code)]

pub mod capture;
pub mod emulator;
pub mod link;
pub mod path;
pub mod sim;

pub use link::{Counters, DropCause, Link, LinkConfig, Markable, Verdict};
pub use path::{Direction, Path};
