//! File descriptors that belong to the application.

use std::ffi::c_int;
use std::os::fd::{BorrowedFd, OwnedFd};

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
