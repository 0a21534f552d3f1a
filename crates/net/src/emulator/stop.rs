//! Stop requests from another thread or a signal handler, which wake a waiting emulator.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The emulator's side of a stop request. Once requested, it stays so.
#[derive(Debug)]
pub struct Stop {
    heard: UnixStream,
    asks: UnixStream,
}

/// The requesting side. Its descriptor can be given to a signal handler, which writes a byte to it.
#[derive(Debug)]
pub struct Stopper(UnixStream);

impl Stop {
    /// Creates a stop without a request. Fails only if the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        let (heard, asks) = UnixStream::pair()?;
        asks.set_nonblocking(true)?;
        Ok(Self { heard, asks })
    }

    /// Creates a requesting side.
    pub fn stopper(&self) -> io::Result<Stopper> {
        self.asks.try_clone().map(Stopper)
    }

    /// Whether a stop was requested.
    pub fn requested(&self) -> bool {
        let mut fds = [PollFd::new(self, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1..))
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.heard.as_fd()
    }
}

impl Stopper {
    /// Requests a stop.
    pub fn stop(&self) {
        // If the buffer is full a request is pending; if it is closed the emulator is gone.
        let _ = (&self.0).write(b"x");
    }
}

impl From<Stopper> for OwnedFd {
    fn from(stopper: Stopper) -> Self {
        stopper.0.into()
    }
}
