//! One link model, in virtual and in real time.
//!
//! [`link`] is the model: rate, propagation delay, queue and loss of one direction of a path, without a socket or a
//! clock. A simulation steps it through virtual time; the [`emulator`] runs the very same model in real time, as a UDP
//! relay between two loopback ports or as a wire between two network namespaces. [`capture`] writes down what passed.

#![deny(unsafe_code)]

pub mod capture;
pub mod emulator;
pub mod link;
pub mod path;
pub mod sim;

pub use link::{Counters, DropCause, Link, LinkConfig, Markable, Verdict};
pub use path::{Direction, Path};
