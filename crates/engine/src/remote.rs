//! Streams whose application is another process: the packet ring lies in shared memory, all else goes over a socket.
//!
//! Each has a socket pair of its own (`SOCK_SEQPACKET`). Over it come what was received, as one message each, where the
//! connection stands, and that there is news in the ring; back go that the ring is no longer empty, and the end. The
//! kernel bounds what lies in between, hands over whole messages, and tells each side when the other is gone; neither
//! can tamper with the other's end. A second ring for what is received would save a copy, and would make the engine
//! believe the words of one more memory that somebody else writes.

mod message;
mod reader;
mod served;
mod socket;

pub(crate) use message::Wish;
pub(crate) use reader::Reader;
pub use served::{Gone, Served};
pub(crate) use socket::{hang_up, pair, wish};

/// What is wrong with a stream that another process offers.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The ring is none.
    #[error("the packet ring from the daemon cannot be used: {0}")]
    Ring(#[from] timeous_ring::OpenError),
    /// The system gave no thread, memory or descriptor.
    #[error("the system refuses: {0}")]
    System(#[from] std::io::Error),
}
