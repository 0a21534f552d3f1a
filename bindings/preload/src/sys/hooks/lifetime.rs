//! Hooks of the calls that change what a descriptor is, or what the process is.

use std::ffi::{c_char, c_int, c_uint};

use libc::{CLOSE_RANGE_CLOEXEC, sockaddr, socklen_t};

use super::super::{guard, real, sockets};
use crate::life;

/// Notes that a descriptor is about to be closed.
fn closes(fd: c_int) {
    if sockets::was_udp(fd) {
        guard::inside(|| {
            life::closes(fd, fd);
            Some(())
        });
    } else {
        sockets::forget(fd);
    }
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: the program's call.
    let fd = unsafe { real::socket(domain, kind, protocol) };
    // Its number may be that of a descriptor that was closed unseen.
    sockets::forget(fd);
    fd
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn connect(fd: c_int, to: *const sockaddr, to_len: socklen_t) -> c_int {
    // SAFETY: the program's call.
    let result = unsafe { real::connect(fd, to, to_len) };
    if sockets::was_udp(fd) {
        guard::inside(|| {
            life::existing()?.reconnected(fd);
            Some(())
        });
    }
    result
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    closes(fd);
    // SAFETY: the program's call.
    unsafe { real::close(fd) }
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if flags & CLOSE_RANGE_CLOEXEC as c_int == 0 {
        guard::inside(|| {
            let [first, last] = [first, last].map(|fd| c_int::try_from(fd).unwrap_or(c_int::MAX));
            life::closes(first, last);
            Some(())
        });
    }
    // SAFETY: the program's call.
    unsafe { real::close_range(first, last, flags) }
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn dup2(from: c_int, to: c_int) -> c_int {
    if from != to {
        closes(to);
    }
    // SAFETY: the program's call.
    unsafe { real::dup2(from, to) }
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    if from != to {
        closes(to);
    }
    // SAFETY: the program's call.
    unsafe { real::dup3(from, to, flags) }
}

/// Lets queued datagrams leave: the library's thread ends with the program.
fn ends() {
    guard::inside(|| {
        life::before_exec();
        Some(())
    });
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn execve(
    path: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    ends();
    // SAFETY: the program's call.
    unsafe { real::execve(path, arguments, environment) }
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int {
    ends();
    // SAFETY: the program's call.
    unsafe { real::execv(path, arguments) }
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn execvp(file: *const c_char, arguments: *const *const c_char) -> c_int {
    ends();
    // SAFETY: the program's call.
    unsafe { real::execvp(file, arguments) }
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn execvpe(
    file: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    ends();
    // SAFETY: the program's call.
    unsafe { real::execvpe(file, arguments, environment) }
}
