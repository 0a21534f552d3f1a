//! Messages on the socket: the infrequent operations. One message is one packet of a `SOCK_SEQPACKET` socket.
//!
//! The codec is postcard: variable-length integers, no padding, no pointers. Parsing is bounded by the packet;
//! additional checks beyond serde's: no trailing bytes, bounded texts, plausible numbers.

mod calls;
mod codec;
mod credential;
mod streams;

use serde::{Deserialize, Serialize};

pub use calls::{Answer, Call, Document, Failure, OpenFlow, Path, Resource};
pub(crate) use codec::encode_erased;
pub use codec::{CREDENTIAL_MAX, Malformed, decode, encode};
pub use credential::{
    Access, CallerCredential, Credential, Grant, Identity, ListenerCredential, PART_MAX, PassphraseKey, Protection,
    Secret, Trust,
};
pub use streams::{Controller, Dbat, Marked, Nanos, Policy, QueueLimit, StreamSpec};

use crate::layout::Geometry;
use codec::Checked;

/// Version of messages and shared memory; client and daemon must have the same.
pub const VERSION: u16 = 7;

/// Maximum packet that the daemon reads from a client, in bytes.
pub const TO_DAEMON_MAX: usize = 4 << 10;
/// Maximum packet that a client reads from the daemon, in bytes.
pub const FROM_DAEMON_MAX: usize = 32 << 10;
/// Maximum document that is part of its answer, in bytes; a longer one comes as a file.
pub const DOCUMENT_MAX: usize = FROM_DAEMON_MAX - 256;
/// Maximum text in a message, in bytes, unless stated otherwise.
pub const TEXT_MAX: usize = 1 << 10;

/// Message from a client to the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToDaemon {
    /// First message: name and version of the client.
    Hello {
        /// [`VERSION`] of the client.
        version: u16,
        /// Name of the client, for display; at most [`TEXT_MAX`] bytes.
        name: String,
    },
    /// Request with an answer. It is ordered behind the client's earlier submissions: the daemon reads the queue before
    /// it answers.
    Call {
        /// Returned with the answer.
        id: u32,
        /// The requested operation.
        call: Call,
    },
}

/// Message from the daemon to a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromDaemon {
    /// Answer to a hello; with the shared memory and the daemon's bell, in this order.
    Welcome(Welcome),
    /// Answer to a call. With [`Answer::LongDocument`] comes a sealed memfd that holds it.
    Answer {
        /// Identifier of the call.
        id: u32,
        /// Result of the call.
        result: Result<Answer, Failure>,
    },
    /// The queue has messages: sent when the client sleeps.
    Wake,
    /// Incoming stream; with its packet ring and its socket, in this order.
    Incoming {
        /// The listener.
        listener: u32,
    },
    /// The daemon closes or refuses the connection.
    Goodbye(Reason),
}

/// Resources of a new client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// [`VERSION`] of the daemon.
    pub version: u16,
    /// Identifier of the client in the daemon, for display.
    pub client: u64,
    /// Process ID of the daemon.
    pub daemon: u32,
    /// Sizes of the shared memory: queues, and maximum number of open flows.
    pub geometry: Geometry,
}

/// Reason why the daemon closes a connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Reason {
    /// The client has another protocol version.
    #[error("the daemon speaks version {daemon} of its protocol, and this client another: use builds of one release")]
    Version {
        /// The daemon's version.
        daemon: u16,
    },
    /// The limit of clients, per user or in total, is reached.
    #[error("the daemon has as many clients as it may have: close some, or raise its limits")]
    Crowded,
    /// The user may not use this daemon.
    #[error("the daemon does not serve this user")]
    NotPermitted,
    /// The client violated the protocol, or corrupted the shared memory.
    #[error("the daemon found a violation of its protocol by this client: {0}")]
    Violation(String),
    /// The client does not read its messages.
    #[error("the daemon gave this client up, which read neither its socket nor its queue")]
    Deaf,
    /// The daemon is shutting down.
    #[error("the daemon is shutting down")]
    Stopping,
}

impl FromDaemon {
    /// Returns the number of descriptors of the message.
    #[must_use]
    pub const fn descriptors(&self) -> usize {
        match self {
            Self::Welcome(_) | Self::Incoming { .. } => 2,
            Self::Answer { result: Ok(answer), .. } => answer.descriptors(),
            _ => 0,
        }
    }
}

impl Checked for ToDaemon {
    fn check(&self) -> Result<(), Malformed> {
        match self {
            Self::Hello { name, .. } => codec::text(name, TEXT_MAX),
            Self::Call { call, .. } => call.check(),
        }
    }
}

impl Checked for FromDaemon {
    fn check(&self) -> Result<(), Malformed> {
        match self {
            Self::Welcome(welcome) => welcome.geometry.check().map_err(|_| Malformed::Senseless("geometry")),
            _ => Ok(()),
        }
    }
}
