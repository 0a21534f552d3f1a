//! What goes over the socket: everything that is rare. One message is one packet of a `SOCK_SEQPACKET` socket.
//!
//! The codec is postcard's: integers of variable length, no padding, no pointers. Its reader is bounded by the packet,
//! and this room adds what serde does not know: nothing may follow a message, texts are short, numbers make sense.

mod calls;
mod codec;
mod streams;

use serde::{Deserialize, Serialize};

pub use calls::{Answer, Call, Document, Failure, OpenFlow, Path, Resource};
pub use codec::{Malformed, decode, encode};
pub use streams::{Controller, Nanos, Policy, QueueLimit, StreamSpec};

use crate::layout::Geometry;
use codec::Checked;

/// Version of messages and shared memory; client and daemon must have the same.
pub const VERSION: u16 = 3;

/// The longest packet that the daemon reads from a client.
pub const TO_DAEMON_MAX: usize = 4 << 10;
/// The longest packet that a client reads from the daemon.
pub const FROM_DAEMON_MAX: usize = 32 << 10;
/// The longest document that is part of its answer, in bytes; a longer one comes as a file.
pub const DOCUMENT_MAX: usize = FROM_DAEMON_MAX - 256;
/// The longest text in a message, in bytes, where it does not say otherwise.
pub const TEXT_MAX: usize = 1 << 10;

/// From a client to the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToDaemon {
    /// The first message: who speaks, in which version.
    Hello {
        /// [`VERSION`] of the client.
        version: u16,
        /// What the client calls itself, for people; at most [`TEXT_MAX`] bytes.
        name: String,
    },
    /// Something to be done and answered. What the client put into its queue before it comes first: the daemon reads
    /// the queue before it answers.
    Call {
        /// Given back with the answer.
        id: u32,
        /// What is to be done.
        call: Call,
    },
}

/// From the daemon to a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromDaemon {
    /// The answer to a hello; with it come the shared memory and the daemon's bell, in this order.
    Welcome(Welcome),
    /// The answer to a call. With [`Answer::LongDocument`] comes a sealed memfd that holds it.
    Answer {
        /// Of the call.
        id: u32,
        /// What came of it.
        result: Result<Answer, Failure>,
    },
    /// There is something in the queue: said when the client sleeps.
    Wake,
    /// A stream was called in; with it come its packet ring and its socket, in this order.
    Incoming {
        /// The listener.
        listener: u32,
    },
    /// The daemon ends the connection, or does not begin one.
    Goodbye(Reason),
}

/// What a client is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// [`VERSION`] of the daemon.
    pub version: u16,
    /// The daemon's number for the client, for people.
    pub client: u64,
    /// The daemon's process.
    pub daemon: u32,
    /// Measures of the shared memory: the sizes of the queues, and how many flows can be open at once.
    pub geometry: Geometry,
}

/// Why the daemon ends a connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Reason {
    /// The client speaks another version.
    #[error("the daemon speaks version {daemon} of its protocol, and this client another: use builds of one release")]
    Version {
        /// The daemon's.
        daemon: u16,
    },
    /// The user has as many clients as the daemon allows, or the daemon as many as it can have.
    #[error("the daemon has as many clients as it may have: close some, or raise its limits")]
    Crowded,
    /// The user may not use this daemon.
    #[error("the daemon does not serve this user")]
    NotPermitted,
    /// The client broke the protocol, or wrote what it must not into shared memory.
    #[error("the daemon found a violation of its protocol by this client: {0}")]
    Violation(String),
    /// The client does not read what it is told.
    #[error("the daemon gave this client up, which read neither its socket nor its queue")]
    Deaf,
    /// The daemon ends.
    #[error("the daemon is shutting down")]
    Stopping,
}

impl FromDaemon {
    /// How many descriptors come with it.
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
