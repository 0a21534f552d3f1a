//! `poll(2)` on the application's descriptors, and the eventfd that ends it.

use std::ffi::{c_int, c_short};

use timeous::core::Duration;

use crate::failure::Failure;

/// A descriptor and what is asked of it.
pub(crate) fn entry(fd: c_int, events: c_short) -> libc::pollfd {
    libc::pollfd { fd, events, revents: 0 }
}

/// Milliseconds of a time limit for `poll(2)`, rounded up; -1 for none.
pub(crate) fn millis(limit: Option<Duration>) -> c_int {
    limit.map_or(-1, |limit| c_int::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(c_int::MAX))
}

/// Waits until one of `entries` is ready, or `limit` has passed. `false` if a signal came instead.
pub(crate) fn wait(entries: &mut [libc::pollfd], limit: Option<Duration>) -> Result<bool, Failure> {
    let count = entries.len() as libc::nfds_t;
    // SAFETY: the slice is there and has that many entries.
    match unsafe { libc::poll(entries.as_mut_ptr(), count, millis(limit)) } {
        -1 => match super::errno::get() {
            libc::EINTR | libc::EAGAIN => Ok(false),
            error => Err(Failure::new(error, "poll() of what cm_loop() waits for")),
        },
        _ => Ok(true),
    }
}

/// Rings an eventfd. Nothing but a system call, so that a signal handler may.
pub(crate) fn ring(fd: c_int) {
    let one = 1_u64.to_ne_bytes();
    // SAFETY: eight bytes are there. If the descriptor is closed or the counter full, nothing is lost.
    unsafe { libc::write(fd, one.as_ptr().cast(), one.len()) };
}
