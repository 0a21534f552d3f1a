//! A listening TCP port.

use std::cell::Cell;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};

use timeous_core::{Duration, Instant};
use timeous_seal::ListenerCredential;

use crate::socket::Socket;

/// Maximum number of connections accepted per turn. Chosen by us: a higher value delays the streams while many callers
/// come.
const TURN: u32 = 16;

/// Pause after the system had no descriptor or no memory for a caller, who waits in the kernel's queue. Chosen by us: a higher value
/// serves it later, a lower one takes processor time meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

/// A listening port, with its owner's data.
pub(crate) struct Listener<L> {
    pub(crate) socket: TcpListener,
    pub(crate) listening: L,
    /// UDP port with the same address, whose streams may move here.
    pub(crate) beside: Option<u64>,
    /// Credential for its callers; `None`: streams are plain.
    pub(crate) credential: Option<ListenerCredential>,
    /// Whether a plain connection is a stream with its first bytes only.
    pub(crate) awaits_data: bool,
    /// Whether new streams are accepted, too.
    pub(crate) wants_new: bool,
    /// End of the pause after an error.
    pub(crate) paused_until: Cell<Option<Instant>>,
}

impl<L> Listener<L> {
    /// Accepts waiting connections.
    pub(crate) fn accept(&self, now: Instant) -> Vec<Socket> {
        let mut callers = Vec::new();
        if self.paused_until.get().is_some_and(|until| now < until) {
            return callers;
        }
        self.paused_until.set(None);
        for _ in 0..TURN {
            match self.socket.accept().and_then(|(stream, _)| Socket::accepted(stream)) {
                Ok(socket) => callers.push(socket),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                // The socket stays readable: without a pause, the thread would spin.
                Err(error) => {
                    tracing::debug!(%error, "accepting");
                    self.paused_until.set(Some(now + PAUSE));
                    break;
                }
            }
        }
        callers
    }
}

impl<L> AsFd for Listener<L> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
