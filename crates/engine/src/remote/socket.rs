//! The socket between the two processes: whole messages, and nobody waits for the other's good will.

use std::io::{Error, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown, socketpair,
};

use super::message::Wish;

/// Two ends.
pub(crate) fn pair() -> std::io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends one message without waiting; `false` if the other side has too much to read already.
pub(crate) fn try_send(socket: impl AsFd, message: &[u8]) -> std::io::Result<bool> {
    match send(socket, message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
        Ok(_) => Ok(true),
        Err(error) if Error::from(error).kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Receives one message: its length, which is 0 when the other side is gone; `None` if there is none and nobody waits.
pub(crate) fn receive(socket: impl AsFd, buffer: &mut [u8], wait: bool) -> std::io::Result<Option<usize>> {
    // What is longer than the buffer says so by its length, and no message of ours is.
    let flags = RecvFlags::TRUNC | if wait { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
    loop {
        match recv(&socket, &mut *buffer, flags) {
            Ok((_, length)) => return Ok(Some(length)),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) if Error::from(error).kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Tells the engine's side a wish. That it is gone is heard by whoever reads.
pub(crate) fn wish(socket: &OwnedFd, wish: Wish) {
    // What the engine has to know is waited for: it reads all the time. What can be asked again is not.
    let wait = if wish == Wish::Tell { SendFlags::DONTWAIT } else { SendFlags::empty() };
    if let Err(error) = send(socket, &wish.write(), wait | SendFlags::NOSIGNAL) {
        tracing::trace!(%error, ?wish, "telling the engine");
    }
}

/// Nobody needs the stream any more.
pub(crate) fn hang_up(socket: &OwnedFd) {
    // It may be gone already.
    let _ = shutdown(socket, Shutdown::Both);
}
