//! Streams whose application is another process: the packet ring lies in shared memory, everything else goes over a
//! socket.
//!
//! Each stream has a socket pair (`SOCK_SEQPACKET`). The engine sends received data (one datagram per message),
//! connection state and ring notices; the application sends ring notices and the close.
//!
//! A second shared ring would save a copy of received data, but the engine would have to trust one more memory that
//! another process writes.

mod message;
mod reader;
mod seal_error;
mod served;
mod socket;

pub(crate) use message::RemoteRequest;
pub(crate) use reader::Reader;
pub use served::{Gone, Served};
pub(crate) use socket::{hang_up, pair, wish};

/// Errors of a stream offered by another process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// Invalid packet ring or zone.
    #[error("the memory from the daemon cannot be used: {0}")]
    Ring(#[from] timeous_ring::OpenError),
    /// The system refused a thread, memory or a descriptor.
    #[error("the system refuses: {0}")]
    System(#[from] std::io::Error),
}
