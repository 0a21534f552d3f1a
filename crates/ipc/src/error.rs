//! Errors between a client and the daemon, by culprit.

use crate::layout::GeometryError;
use crate::messages::{Failure, Malformed, Reason};
use crate::queue::BadIndex;

/// Protocol violation by a client, detected by the daemon. The connection is closed; others are not affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The client's write index of its queue went backwards, or too far ahead.
    #[error("the queue to the daemon is said to be written up to {found} with {read} read: it holds {slots}")]
    Written {
        /// Messages read by the daemon.
        read: u64,
        /// Index found in shared memory.
        found: u64,
        /// Capacity of the queue.
        slots: u32,
    },
    /// The client's read index of the daemon's queue went backwards, or ahead of the written messages.
    #[error("the queue to the client is said to be read up to {found}, which is not between {read} and {written}")]
    Read {
        /// Messages read by the client before.
        read: u64,
        /// Messages written by the daemon.
        written: u64,
        /// Index found in shared memory.
        found: u64,
    },
    /// Invalid message in the queue.
    #[error("message {number} in the queue to the daemon is none: it begins with {word:#x}")]
    BadSubmission {
        /// Its number.
        number: u64,
        /// Its first word.
        word: u64,
    },
    /// Invalid message on the socket.
    #[error("the socket: {0}")]
    Malformed(#[from] Malformed),
    /// A packet on the socket exceeds the maximum message.
    #[error("a packet on the socket is longer than {0} bytes")]
    TooLong(usize),
    /// Wrong number of descriptors with a message.
    #[error("{found} descriptors came with a message to which {expected} belong")]
    Descriptors {
        /// Expected number.
        expected: usize,
        /// Received number; those beyond the maximum of a message may have been dropped.
        found: usize,
    },
    /// A second hello, or another message before the hello.
    #[error("a message out of its order: first comes one hello, then calls")]
    OutOfOrder,
}

/// Invalid data of the daemon in shared memory, detected by the client. Connect again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// Invalid index of the daemon.
    #[error("an index of a queue is {found}, where it cannot be")]
    Index {
        /// Index found in shared memory.
        found: u64,
    },
    /// Invalid message.
    #[error("a message in the queue begins with {word:#x}, and is none")]
    Completion {
        /// Its first word.
        word: u64,
    },
}

impl From<BadIndex> for Broken {
    fn from(bad: BadIndex) -> Self {
        Self::Index { found: bad.found }
    }
}

/// Reason why the daemon could not create a client's memory and bell: an error of the environment or the configuration.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// Invalid configuration.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The system refused.
    #[error("the system gave no shared memory or descriptor for a client: {0}")]
    System(#[from] std::io::Error),
}

/// Reason why there is no connection to the daemon.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The socket has no listener.
    #[error("no daemon at {path}: start `timeous daemon`, or name its socket in TIMEOUS_SOCKET ({error})")]
    NoDaemon {
        /// Path of the socket.
        path: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// The daemon did not answer in time.
    #[error("the daemon did not answer in time: it is stopped, or has too much to do")]
    NoAnswer,
    /// The daemon refused.
    #[error(transparent)]
    Refused(#[from] Reason),
    /// The listener is not a daemon of this version.
    #[error("what answers at the socket is no daemon of this version: {0}")]
    Foreign(String),
    /// The system refused.
    #[error("the system did not connect to the daemon: {0}")]
    System(#[from] std::io::Error),
}

/// Reason why a call or a submission has no effect.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Disconnected at present. Reconnection is in progress; [`Event::Reconnected`](crate::Event) reports success.
    #[error("there is no connection to the daemon: wait for it to come back")]
    Disconnected,
    /// The flow was opened before the daemon was lost.
    #[error("the flow was lost with the connection to the daemon: open it again")]
    Gone,
    /// The queue to the daemon is full.
    #[error("the queue to the daemon is full: try again when an event tells that there is room")]
    Full,
    /// The daemon did not answer a call in time. The connection is given up.
    #[error("the daemon did not answer a call in time: the connection is given up")]
    NoAnswer,
    /// The daemon refused the call.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// Invalid argument.
    #[error("an argument makes no sense: {0}")]
    Argument(#[from] Malformed),
}

/// Reason why a connection was lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The daemon's process has closed it without a goodbye.
    #[error("the daemon is gone")]
    Gone,
    /// The daemon gave a reason.
    #[error(transparent)]
    Said(Reason),
    /// The daemon does not answer calls, or does not read its queue.
    #[error("the daemon does not answer")]
    NoAnswer,
    /// Invalid message or shared memory from the daemon.
    #[error("the daemon broke the protocol: {0}")]
    Broken(String),
}
