//! What can go wrong between a client and the daemon, by culprit.

use crate::layout::GeometryError;
use crate::messages::{Failure, Malformed, Reason};
use crate::queue::BadIndex;

/// The daemon found something that no honest client does. The connection is over; others are not touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The index that the client moves in its queue went back, or ahead by more than the queue holds.
    #[error("the queue to the daemon is said to be written up to {found} with {read} read: it holds {slots}")]
    Written {
        /// What the daemon has read.
        read: u64,
        /// What shared memory held.
        found: u64,
        /// What the queue holds.
        slots: u32,
    },
    /// The index that the client moves in the daemon's queue went back, or ahead of what was written.
    #[error("the queue to the client is said to be read up to {found}, which is not between {read} and {written}")]
    Read {
        /// What the client had read before.
        read: u64,
        /// What the daemon has written.
        written: u64,
        /// What shared memory held.
        found: u64,
    },
    /// A message in the queue is none.
    #[error("message {number} in the queue to the daemon is none: it begins with {word:#x}")]
    BadSubmission {
        /// Its number.
        number: u64,
        /// Its first word.
        word: u64,
    },
    /// A message on the socket is none.
    #[error("the socket: {0}")]
    Malformed(#[from] Malformed),
    /// A packet on the socket is longer than any message.
    #[error("a packet on the socket is longer than {0} bytes")]
    TooLong(usize),
    /// Not as many descriptors came with a message as belong to it.
    #[error("{found} descriptors came with a message to which {expected} belong")]
    Descriptors {
        /// How many belong to it.
        expected: usize,
        /// How many came; more than a message can have may have been dropped.
        found: usize,
    },
    /// A hello came where there had been one, or something else before it.
    #[error("a message out of its order: first comes one hello, then calls")]
    OutOfOrder,
}

/// The client found in shared memory what no honest daemon writes. Connect again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// An index that the daemon moves is where it cannot be.
    #[error("an index of a queue is {found}, where it cannot be")]
    Index {
        /// What shared memory held.
        found: u64,
    },
    /// A message is none.
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

/// Why the daemon did not make the memory and the bell for a client: the environment's fault, or the configuration's.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The configuration cannot be.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The system refused.
    #[error("the system gave no shared memory or descriptor for a client: {0}")]
    System(#[from] std::io::Error),
}

/// Why there is no connection to the daemon.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody listens there.
    #[error("no daemon at {path}: start `timeous daemon`, or name its socket in TIMEOUS_SOCKET ({error})")]
    NoDaemon {
        /// Where.
        path: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// The daemon did not answer in time.
    #[error("the daemon did not answer in time: it is stopped, or has too much to do")]
    NoAnswer,
    /// The daemon refused.
    #[error(transparent)]
    Refused(#[from] Reason),
    /// What listens there is no daemon of this version.
    #[error("what answers at the socket is no daemon of this version: {0}")]
    Foreign(String),
    /// The system refused.
    #[error("the system did not connect to the daemon: {0}")]
    System(#[from] std::io::Error),
}

/// Why a call or a submission has no effect.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no connection at present. It is tried again; [`Event::Reconnected`](crate::Event) tells when.
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
    /// An argument cannot be.
    #[error("an argument makes no sense: {0}")]
    Argument(#[from] Malformed),
}

/// Why a connection was lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The daemon's process has closed it without a word.
    #[error("the daemon is gone")]
    Gone,
    /// The daemon said why.
    #[error(transparent)]
    Said(Reason),
    /// The daemon does not answer calls, or does not read its queue.
    #[error("the daemon does not answer")]
    NoAnswer,
    /// What the daemon said or wrote makes no sense.
    #[error("the daemon broke the protocol: {0}")]
    Broken(String),
}
