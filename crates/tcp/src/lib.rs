//! TCP as a state machine without input and output (RFC 9293), a client of the Congestion Manager.
//!
//! It serves as a peer for measurements and as the basis of late data choice over TCP: the content of segments and the
//! order of delivery are decided in modules of their own.

#![forbid(unsafe_code)]

pub mod connection;
pub mod endpoint;
mod observed;
pub mod receiver;
pub mod record;
pub mod segment;
mod sender;
pub mod seq;
mod stream;

pub use connection::{
    CloseReason, Config, Connection, EcnMode, Event, LossDetection, Receiving, Sending, State, Statistics, Target,
};
pub use endpoint::{Endpoint, EndpointConfig, Outgoing, Ports};
pub use observed::ObservedConnection;
pub use receiver::{ReceivedDatagram, Receiver, ReceiverConfig};
pub use segment::{Addresses, Flags, Header, Options, SackBlock, SackBlocks, Segment, Timestamps, WireError};
pub use seq::Seq;
pub use stream::StreamBuffer;
pub use timeous_transport::{CommandError, ConnectError, ConnectionId, EndpointStatistics, Sources};
