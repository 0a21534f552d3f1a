//! Transports over real sockets: one thread in the application's process runs all connections.

#![deny(unsafe_code)]

pub mod batch;
mod bell;
mod binding;
mod callers;
mod carrier;
mod client;
pub mod clock;
mod command;
mod config;
mod congestion;
mod engine;
mod error;
mod follow;
mod inbox;
mod line;
mod listening;
mod port;
mod port_group;
mod remote;
mod sealed;
mod sealing;
mod session;
mod shared;
mod stream;
mod streams;
pub mod udp;
mod waker;
mod way;
mod worker;
mod workers;

pub use carrier::Carrier;
pub use client::CmClient;
pub use command::{Offer, PortLife};
pub use config::{NewChoice, StreamConfig};
pub use congestion::{Congestion, CongestionGuard, Notify};
pub use engine::{Engine, Listener, ListenerFor};
pub use error::EngineError;
pub use inbox::Received;
pub use remote::{Gone, RemoteError, Served};
pub use sealing::Sealing;
pub use shared::{Snapshot, Status};
pub use stream::{ReceiveHalf, SendHalf, Stream};
pub use timeous_dccp::{Ccid, CloseReason, Config as DccpConfig, ConnectError, Parity, ServiceCode, Statistics};
pub use timeous_kernel_tcp::{MAX_UNFRAMED, Reach, TcpConfig, TcpFraming, TcpView, Unordered};
pub use timeous_ring::{
    Completion, ConfigError, CreateError, DirectMode, EnqueueError, FrozenBuffer, OpenError, PacketZone, Producer,
    ReadError, SharedZone, ZoneBuffer, ZoneKey, ZoneReader,
};
pub use timeous_stream::MAX_ADU;
pub use waker::{ReadyList, Waker};
