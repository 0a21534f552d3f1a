//! A client's socket: whole messages, some with descriptors, without blocking.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};
use timeous_ipc::Violation;
use timeous_ipc::messages::{FromDaemon, TO_DAEMON_MAX, ToDaemon, decode, encode};
use zeroize::Zeroize as _;

/// Maximum number of descriptors per message.
const DESCRIPTORS: usize = 2;
/// Maximum number of messages that wait for room. Beyond it, the client's calls wait.
const WAITING: usize = 8;

#[derive(Debug)]
pub(crate) struct Wire {
    socket: OwnedFd,
    waiting: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
}

/// Result of a read.
#[derive(Debug)]
pub(crate) enum ReadResult {
    /// A message.
    Message(ToDaemon),
    /// No further message for now.
    Nothing,
    /// The client has disconnected.
    End,
}

impl Wire {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket, waiting: VecDeque::new() }
    }

    /// Returns the next message. Descriptors sent along are closed by the kernel.
    pub(crate) fn receive(&self) -> Result<ReadResult, Violation> {
        let mut packet = [0; TO_DAEMON_MAX];
        match recv(&self.socket, &mut packet, RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
            Ok((_, 0)) => Ok(ReadResult::End),
            Ok((_, length)) => match packet.get_mut(..length) {
                Some(packet) => {
                    let message = decode(packet);
                    // It may be a part of a credential.
                    packet.zeroize();
                    Ok(ReadResult::Message(message?))
                }
                None => {
                    packet.zeroize();
                    Err(Violation::TooLong(TO_DAEMON_MAX))
                }
            },
            Err(Errno::AGAIN | Errno::INTR) => Ok(ReadResult::Nothing),
            Err(_) => Ok(ReadResult::End),
        }
    }

    /// Sends a message as soon as there is room. A disconnected client is detected by reading.
    pub(crate) fn send_or_queue(&mut self, message: &FromDaemon, descriptors: Vec<OwnedFd>) {
        self.waiting.push_back((encode(message), descriptors));
        self.flush();
    }

    /// As [`send_or_queue`](Self::say), but only if there is room now; returns whether it was sent.
    pub(crate) fn try_send(&mut self, message: &FromDaemon, descriptors: &[OwnedFd]) -> bool {
        self.waiting.is_empty() && send(&self.socket, &encode(message), descriptors) == Ok(())
    }

    /// Sends waiting messages.
    pub(crate) fn flush(&mut self) {
        while let Some((message, descriptors)) = self.waiting.front() {
            match send(&self.socket, message, descriptors) {
                Err(Errno::AGAIN) => return,
                // Sent, or impossible to send: the consequence is detected by reading.
                Ok(()) | Err(_) => drop(self.waiting.pop_front()),
            }
        }
    }

    /// Returns whether messages wait for room.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns whether too many messages wait, so that no more calls should be read.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= WAITING
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn send(socket: &OwnedFd, message: &[u8], descriptors: &[OwnedFd]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    if !borrowed.is_empty() {
        let fits = ancillary.push(SendAncillaryMessage::ScmRights(&borrowed));
        assert!(fits, "no message takes more than {DESCRIPTORS} descriptors along");
    }
    sendmsg(socket, &[IoSlice::new(message)], &mut ancillary, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).map(drop)
}

/// Returns a sealed memfd for a document too long for a message.
pub(crate) fn document(bytes: &[u8]) -> io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let fd = memfd_create("timeous-document", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = std::fs::File::from(fd);
    io::Write::write_all(&mut file, bytes)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL)?;
    Ok(file.into())
}
