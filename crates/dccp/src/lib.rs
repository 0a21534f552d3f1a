//! DCCP (RFC 4340) as a sans-IO state machine.

#![forbid(unsafe_code)]

pub mod ack_vector;
mod ccid;
mod ccid2;
pub mod ccid3;
pub mod ccid4;
pub mod connection;
pub mod endpoint;
pub mod features;
pub mod options;
pub mod packet;
mod packet_type;
pub mod seq;
pub mod service;

pub use ack_vector::{AckVector, PacketState};
pub use ccid::{Ccid, UnknownCcid};
pub use connection::{CloseReason, Config, Connection, Event, Parity, State, Statistics, Target, prepare_parity};
pub use endpoint::{Endpoint, EndpointConfig, Local, Outgoing, Ports, Route};
pub use features::{Feature, Features, Location, NegotiationError, Role};
pub use options::{ListFull, Opt, OptionError, OptionItem, OptionList, Options, Side, Ticks};
pub use packet::{Body, EmitError, Encapsulation, Header, Packet, PacketType, WireError};
pub use seq::Seq;
pub use service::{ServiceCode, ServiceCodeError};
pub use timeous_transport::reset::{self, ResetCode, ResetReason};
pub use timeous_transport::{CommandError, ConnectError, ConnectionId, EndpointStatistics, Sources};
