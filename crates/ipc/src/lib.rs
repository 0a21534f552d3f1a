//! Protocol between client processes and the daemon.
//!
//! Infrequent operations (open, close, thresholds, documents, streams) go over a Unix socket, one [message](messages)
//! per packet. Frequent ones (requests, notifications, feedback, grants) go through two queues of 64-byte [slots](slot)
//! in a sealed memfd, without system calls while the other side is awake.

#![forbid(unsafe_code)]

mod channel;
#[cfg(not(loom))]
mod client;
#[cfg(not(loom))]
mod clock;
mod error;
mod handle;
mod layout;
pub mod messages;
#[cfg(not(loom))]
mod path;
mod peer;
mod queue;
pub mod slot;
#[cfg(not(loom))]
pub mod socket;
mod state;
mod table;

pub use channel::{Channel, Rest};
#[cfg(not(loom))]
pub use client::{Client, Event, Flow, Options};
pub use error::{Broken, ChannelError, ClientError, ConnectError, Lost, Violation};
pub use handle::Handle;
pub use layout::{Geometry, GeometryError};
pub use messages::OpenFlow;
#[cfg(not(loom))]
pub use path::{SOCKET_VARIABLE, daemon_socket, own_socket};
pub use peer::{Peer, PeerRest};
pub use slot::{Completion, Refusal, Submission};
