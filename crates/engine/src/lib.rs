//! Transports over real sockets: one thread in the application's process, many connections.

#![deny(unsafe_code)]

mod batch;
pub mod clock;
mod command;
mod config;
mod congestion;
mod engine;
mod error;
mod inbox;
mod line;
mod order;
mod port;
pub mod rig;
mod session;
mod stream;
pub mod tun;
pub mod udp;
mod waker;
mod worker;

pub use config::{NewChoice, StreamConfig};
pub use congestion::{Congestion, CongestionGuard};
pub use engine::{Engine, Listener};
pub use error::EngineError;
pub use inbox::Received;
pub use stream::{ReceiveHalf, SendHalf, Snapshot, Status, Stream};
pub use timeous_dccp::{CloseReason, Config as DccpConfig, ServiceCode, Statistics};
pub use timeous_ring::{Completion, EnqueueError, Producer};
pub use waker::Waker;
