//! One Congestion Manager and one engine for all processes of a host.
//!
//! Processes come in by a Unix socket, and share a manager of flows, and an engine for streams, with all others. None
//! of them is trusted: who somebody is says the kernel, every shared word is checked, what a user may have is
//! [bounded](Limits), and who breaks the rules is shown out, with all that it had.

#![forbid(unsafe_code)]

mod board;
mod calls;
mod client;
mod config;
mod daemon;
mod door;
mod error;
mod exchange;
mod handles;
mod kernel;
mod limits;
pub mod metrics;
mod poller;
pub mod qlog;
mod ready;
mod sight;
pub mod store;
mod streams;
mod treatment;
pub mod view;
pub mod wall;
mod wire;

pub use config::Config;
pub use daemon::{Daemon, Stopper};
pub use error::DaemonError;
pub use limits::Limits;
