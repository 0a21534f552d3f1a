//! A request to stop, from another thread or from a signal handler, that wakes whoever waits for packets.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The side of an emulator: whether it was asked to stop. Once asked, it stays so.
#[derive(Debug)]
pub struct Stop {
    heard: UnixStream,
    asks: UnixStream,
}

/// The side of whoever may ask. As a descriptor it can be given to a signal handler, which writes a byte to it.
#[derive(Debug)]
pub struct Stopper(UnixStream);

impl Stop {
    /// Nobody has asked yet. Fails only if the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        let (heard, asks) = UnixStream::pair()?;
        asks.set_nonblocking(true)?;
        Ok(Self { heard, asks })
    }

    /// Somebody who may ask.
    pub fn stopper(&self) -> io::Result<Stopper> {
        self.asks.try_clone().map(Stopper)
    }

    /// Whether somebody has asked.
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
    /// Asks to stop.
    pub fn stop(&self) {
        // A full buffer has asked already; a closed one has nobody left to stop.
        let _ = (&self.0).write(b"x");
    }
}

impl From<Stopper> for OwnedFd {
    fn from(stopper: Stopper) -> Self {
        stopper.0.into()
    }
}
