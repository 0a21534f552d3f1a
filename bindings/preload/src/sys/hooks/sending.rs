//! Hooks of the calls that send.

use std::ffi::{c_int, c_uint, c_void};
use std::net::SocketAddr;
use std::slice;

use libc::{
    MSG_DONTWAIT, MSG_MORE, MSG_OOB, MSG_ZEROCOPY, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t,
};

use super::super::{address, guard, real, sockets};
use crate::datagram::Datagram;
use crate::life;
use crate::process::Sent;

/// Calls with these flags leave as they are: parts of a datagram, and memory that the kernel reads later.
const PASSING: c_int = MSG_MORE | MSG_OOB | MSG_ZEROCOPY;
/// Largest UDP payload in bytes: the kernel says best that a larger one is too large.
const MAX_PAYLOAD: usize = 65_507;
/// Most bytes of control messages that are kept: a few of the kernel's. Chosen by us: bounds memory. A call with more leaves as it is.
const MAX_CONTROL: usize = 512;
/// Most pieces of memory of one call (Linux's UIO_MAXIOV).
const MAX_PIECES: usize = 1_024;

/// Takes a call, unless it is none of ours.
fn take(fd: c_int, pieces: &[&[u8]], to: Option<SocketAddr>, control: &[u8], flags: c_int) -> Option<Sent> {
    let len: usize = pieces.iter().map(|piece| piece.len()).sum();
    if flags & PASSING != 0 || len > MAX_PAYLOAD || control.len() > MAX_CONTROL {
        return None;
    }
    let datagram = |to| Datagram { to, payload: pieces.concat().into(), control: control.into(), flags };
    life::current()?.send(fd, to, len, flags & MSG_DONTWAIT == 0, datagram)
}

/// The program's memory; empty if there is none.
///
/// # Safety
/// There are `len` bytes to read at `at`, unless it is null.
unsafe fn bytes<'a>(at: *const c_void, len: usize) -> &'a [u8] {
    // SAFETY: the caller's promise.
    if at.is_null() { &[] } else { unsafe { slice::from_raw_parts(at.cast(), len) } }
}

/// Pieces of memory of a call; `None` if they are too many.
///
/// # Safety
/// There are `count` pieces at `at`, each with its memory.
unsafe fn pieces<'a>(at: *const iovec, count: usize) -> Option<Vec<&'a [u8]>> {
    if count > MAX_PIECES {
        return None;
    }
    if at.is_null() || count == 0 {
        return Some(Vec::new());
    }
    // SAFETY: the caller's promise.
    let pieces = unsafe { slice::from_raw_parts(at, count) };
    // SAFETY: as above.
    Some(pieces.iter().map(|piece| unsafe { bytes(piece.iov_base, piece.iov_len) }).collect())
}

/// Takes a call with a message header.
///
/// # Safety
/// As `sendmsg()` says.
unsafe fn take_message(fd: c_int, message: *const msghdr, flags: c_int) -> Option<(Sent, usize)> {
    // SAFETY: the program's header, unless it is null.
    let message = unsafe { message.as_ref() }?;
    guard::inside(|| {
        // SAFETY: the program's memory, for as long as its call lasts.
        let (to, pieces, control) = unsafe {
            let to = address::read(message.msg_name.cast(), message.msg_namelen);
            let pieces = pieces(message.msg_iov, message.msg_iovlen)?;
            (to, pieces, bytes(message.msg_control, message.msg_controllen))
        };
        // An address of another family is the kernel's to refuse.
        if to.is_none() && message.msg_namelen > 0 && !message.msg_name.is_null() {
            return None;
        }
        let len = pieces.iter().map(|piece| piece.len()).sum();
        Some((take(fd, &pieces, to, control, flags)?, len))
    })
}

/// Result of a call as C has it.
fn result(sent: Sent, len: usize) -> ssize_t {
    match sent {
        Sent::Queued => len as ssize_t,
        Sent::Failed(error) => {
            guard::set_errno(error);
            -1
        }
    }
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn send(fd: c_int, at: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    if sockets::is_udp(fd) {
        // SAFETY: the program's memory.
        let taken = guard::inside(|| take(fd, &[unsafe { bytes(at, len) }], None, &[], flags));
        if let Some(sent) = taken {
            return result(sent, len);
        }
    }
    // SAFETY: the program's call.
    unsafe { real::send(fd, at, len, flags) }
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    at: *const c_void,
    len: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> ssize_t {
    if sockets::is_udp(fd) {
        let taken = guard::inside(|| {
            // SAFETY: the program's memory.
            let remote = unsafe { address::read(to, to_len) };
            if remote.is_none() && !to.is_null() {
                return None;
            }
            // SAFETY: the program's memory.
            take(fd, &[unsafe { bytes(at, len) }], remote, &[], flags)
        });
        if let Some(sent) = taken {
            return result(sent, len);
        }
    }
    // SAFETY: the program's call.
    unsafe { real::sendto(fd, at, len, flags, to, to_len) }
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    if sockets::is_udp(fd)
        // SAFETY: the program's call.
        && let Some((sent, len)) = unsafe { take_message(fd, message, flags) }
    {
        return result(sent, len);
    }
    // SAFETY: the program's call.
    unsafe { real::sendmsg(fd, message, flags) }
}

/// Sends one after another. Those after the first that fails are not sent, as in the kernel.
///
/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    let mut done = 0;
    while done < count.min(MAX_PIECES as c_uint) {
        // SAFETY: the program's headers.
        let message = unsafe { messages.add(done as usize) };
        // SAFETY: as above; the hook does the rest.
        let sent = unsafe { sendmsg(fd, &raw const (*message).msg_hdr, flags) };
        if sent < 0 {
            return if done == 0 { -1 } else { done as c_int };
        }
        // SAFETY: as above.
        unsafe { (*message).msg_len = sent as c_uint };
        done += 1;
    }
    done as c_int
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn write(fd: c_int, at: *const c_void, len: size_t) -> ssize_t {
    if sockets::is_udp(fd) {
        // SAFETY: the program's memory.
        let taken = guard::inside(|| take(fd, &[unsafe { bytes(at, len) }], None, &[], 0));
        if let Some(sent) = taken {
            return result(sent, len);
        }
    }
    // SAFETY: the program's call.
    unsafe { real::write(fd, at, len) }
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    if sockets::is_udp(fd)
        && let Ok(count) = usize::try_from(count)
    {
        let taken = guard::inside(|| {
            // SAFETY: the program's memory.
            let pieces = unsafe { pieces(parts, count) }?;
            Some((take(fd, &pieces, None, &[], 0)?, pieces.iter().map(|piece| piece.len()).sum()))
        });
        if let Some((sent, len)) = taken {
            return result(sent, len);
        }
    }
    // SAFETY: the program's call.
    unsafe { real::writev(fd, parts, count) }
}
