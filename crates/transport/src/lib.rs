//! Generic endpoint of the transports, sans-IO: connections, their events, close reasons and counters.
//!
//! [`Endpoint`] serves the connections of any [`Protocol`]: DCCP (`timeous-dccp`) and TCP (`timeous-tcp`). Their formats, states and
//! demultiplexing are their own.

#![forbid(unsafe_code)]

mod close_reason;
mod config;
mod connection;
mod endpoint;
mod error;
mod event;
mod packets;
pub mod reset;
mod statistics;
mod table;

pub use close_reason::CloseReason;
pub use config::{ConnectionConfig, EndpointConfig};
pub use connection::Connection;
pub use endpoint::Endpoint;
pub use error::{CommandError, ConnectError};
pub use event::Event;
pub use packets::{ConnectionId, Outgoing, Sources};
pub use reset::{ResetCode, ResetReason};
pub use statistics::Statistics;
pub use table::{EndpointStatistics, Protocol, Slot, Table};
