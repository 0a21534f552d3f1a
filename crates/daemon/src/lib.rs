//! One Congestion Manager and one engine for all processes of a host.
//!
//! Processes connect by a Unix socket, and share the manager of flows and the engine for streams.
//!
//! Clients are not trusted: the kernel reports their identity, every word in shared memory is checked, resources per
//! user are [bounded](Limits), and a client that breaks the protocol is disconnected and loses its flows and streams.

#![forbid(unsafe_code)]

mod board;
mod calls;
mod client;
mod config;
mod daemon;
mod datagrams;
mod error;
mod exchange;
mod handles;
mod kernel;
mod limits;
mod log_limit;
pub mod metrics;
mod observability;
mod poller;
pub mod qlog;
mod ready;
mod sealing;
mod socket;
pub mod store;
mod streams;
mod treatment;
pub mod view;
pub mod wall;
mod wire;
mod zones;

pub use config::Config;
pub use daemon::{Daemon, Stopper};
pub use error::DaemonError;
pub use limits::Limits;
