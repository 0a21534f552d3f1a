//! Socket between the two processes: whole messages, and no blocking on the other side.

use std::io::{Error, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown, socketpair,
};

use super::message::RemoteRequest;

/// Creates both ends.
pub(crate) fn pair() -> std::io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends one message without waiting; `false` if the socket is full.
pub(crate) fn try_send(socket: impl AsFd, message: &[u8]) -> std::io::Result<bool> {
    match send(socket, message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
        Ok(_) => Ok(true),
        Err(error) if Error::from(error).kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Receives one message and returns its length, which is 0 when the other side is gone; `None` if there is none and
/// `wait` is not set.
pub(crate) fn receive(socket: impl AsFd, buffer: &mut [u8], wait: bool) -> std::io::Result<Option<usize>> {
    // The returned length of an oversized message exceeds the buffer; valid messages fit.
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

/// Sends a request to the engine. A closed connection is detected by the reader.
pub(crate) fn wish(socket: &OwnedFd, wish: RemoteRequest) {
    // Waits for room, since the engine reads all the time; a snapshot request can be repeated and does not wait.
    let wait = if wish == RemoteRequest::Tell { SendFlags::DONTWAIT } else { SendFlags::empty() };
    if let Err(error) = send(socket, &wish.write(), wait | SendFlags::NOSIGNAL) {
        tracing::trace!(%error, ?wish, "telling the engine");
    }
}

/// Closes the connection: the stream is not needed any more.
pub(crate) fn hang_up(socket: &OwnedFd) {
    // The connection may be closed already.
    let _ = shutdown(socket, Shutdown::Both);
}
