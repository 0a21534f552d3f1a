//! What the transports have in common, sans-IO: an endpoint with its connections, their events, and the errors of commands.
//!
//! [`Endpoint`] serves the connections of any [`Protocol`]: DCCP (`timeous-dccp`) and TCP (`timeous-tcp`). Their formats, states and
//! demultiplexing are their own.

#![forbid(unsafe_code)]

mod config;
mod connection;
mod endpoint;
mod error;
mod event;
mod packets;
mod table;

pub use config::{ConnectionConfig, EndpointConfig};
pub use connection::Connection;
pub use endpoint::Endpoint;
pub use error::{CommandError, ConnectError};
pub use event::Event;
pub use packets::{ConnectionId, Outgoing, Sources};
pub use table::{EndpointStatistics, Protocol, Slot, Table};
