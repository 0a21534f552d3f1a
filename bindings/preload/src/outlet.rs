//! Socket of the program as an outlet for its queued datagrams, which also outlives the program's `close()`.

use std::os::fd::{OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::datagram::Datagram;
use crate::sys::sockets;

/// Descriptor to send on.
#[derive(Debug)]
enum Descriptor {
    /// The program's own, while it is open.
    Program(RawFd),
    /// A copy of ours: the program has closed its own with datagrams in the queue.
    Copy(OwnedFd),
    /// Neither: there was no descriptor left for a copy.
    Gone,
}

/// Socket of the program.
#[derive(Debug)]
pub(crate) struct Outlet {
    /// Number of the socket: its descriptor may be closed unseen, and be another file's.
    identity: Option<u64>,
    descriptor: Mutex<Descriptor>,
    /// Error of the last datagram that the kernel refused, which the program's next call returns; 0 if there is none.
    error: AtomicI32,
}

impl Outlet {
    /// Creates the outlet of a descriptor of the program, which is the socket with this number.
    pub(crate) fn new(fd: RawFd, identity: Option<u64>) -> Self {
        Self { identity, descriptor: Mutex::new(Descriptor::Program(fd)), error: AtomicI32::new(0) }
    }

    /// Sends a datagram without blocking. An error of the network is kept for the program.
    ///
    /// # Errors
    /// The kernel has no room: the datagram has to be sent later.
    pub(crate) fn send(&self, datagram: &Datagram) -> Result<(), NoRoom> {
        let descriptor = self.descriptor.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = match &*descriptor {
            Descriptor::Program(fd) if sockets::identity(*fd) != self.identity => Ok(()),
            Descriptor::Program(fd) => sockets::send(*fd, datagram),
            Descriptor::Copy(copy) => sockets::send_on(copy, datagram),
            Descriptor::Gone => Ok(()),
        };
        match sent {
            Err(libc::EAGAIN | libc::ENOBUFS) => Err(NoRoom),
            Err(error) => {
                self.error.store(error, Ordering::Relaxed);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Takes the error of an earlier datagram.
    pub(crate) fn take_error(&self) -> Option<i32> {
        Some(self.error.swap(0, Ordering::Relaxed)).filter(|&error| error != 0)
    }

    /// Whether this is the socket with a number.
    pub(crate) fn is(&self, identity: u64) -> bool {
        self.identity == Some(identity)
    }

    /// Takes a copy of the descriptor, which the program is about to close.
    pub(crate) fn keep(&self) {
        let mut descriptor = self.descriptor.lock().unwrap_or_else(PoisonError::into_inner);
        if let Descriptor::Program(fd) = *descriptor
            && sockets::identity(fd) == self.identity
        {
            *descriptor = sockets::duplicate(fd).map_or(Descriptor::Gone, Descriptor::Copy);
        }
    }
}

/// The kernel has no room for a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;
