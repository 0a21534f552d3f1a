//! File descriptors that belong to the application.

use std::ffi::c_int;
use std::net::TcpStream;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use rustix::net::{SocketType, ipproto, sockopt};

use crate::failure::Failure;

/// A descriptor of our own for the connected socket that the application has as `fd`.
pub(crate) fn connected_socket(fd: c_int) -> Result<OwnedFd, Failure> {
    let wrong = |why: String| Failure::new(libc::ENOTSOCK, format!("{fd} is no connected socket: {why}"));
    if fd < 0 {
        return Err(wrong("it is negative".to_owned()));
    }
    // SAFETY: used for nothing but the call below, which refuses what is no open descriptor.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let socket = borrowed.try_clone_to_owned().map_err(|error| wrong(error.to_string()))?;
    rustix::net::getpeername(&socket).map_err(|error| wrong(error.to_string()))?;
    Ok(socket)
}

/// A descriptor of our own for the connected TCP socket that the application has as `fd`.
pub(crate) fn connected_tcp(fd: c_int) -> Result<TcpStream, Failure> {
    let socket = connected_socket(fd)?;
    let is_stream = sockopt::socket_type(&socket).is_ok_and(|kind| kind == SocketType::STREAM);
    // MPTCP counts segments in another way, and has no packet tap.
    let is_tcp = is_stream && sockopt::socket_protocol(&socket).is_ok_and(|protocol| protocol == Some(ipproto::TCP));
    if !is_tcp {
        return Err(Failure::new(libc::EPROTONOSUPPORT, format!("{fd} is no socket of TCP")));
    }
    Ok(TcpStream::from(socket))
}

/// Closes a descriptor that the application has given away.
pub(crate) fn close(fd: c_int) {
    // SAFETY: it was an open socket a moment ago, and the application has promised to use it no more.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
}
