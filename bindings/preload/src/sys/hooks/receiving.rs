//! Hooks of the calls that receive: what came is seen, and left as it is.
//!
//! The C library's function is called in frames without destructors: a program may cancel a thread that waits there.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::{size_of, zeroed};
use std::net::SocketAddr;
use std::ptr;
use std::slice;

use libc::{
    MSG_ERRQUEUE, MSG_PEEK, iovec, mmsghdr, msghdr, size_t, sockaddr, sockaddr_storage, socklen_t, ssize_t, timespec,
};

use super::super::{address, guard, real, sockets};
use crate::life;
use crate::wire::HASHED;

/// Calls with these flags bring no new datagram.
const UNSEEN: c_int = MSG_PEEK | MSG_ERRQUEUE;
/// Datagrams of one `recvmmsg()` at most. Chosen by us: bounds what is on the thread's stack (12 kB).
const AT_ONCE: usize = 64;
/// Length of an address that the kernel may write.
const ROOM: socklen_t = size_of::<sockaddr_storage>() as socklen_t;

/// Notes a datagram.
fn saw(fd: c_int, source: Option<SocketAddr>, datagram: &[u8]) {
    if sockets::receives_many(fd)
        && let Some(source) = source
        && let Some(process) = life::current()
    {
        process.received(fd, source.ip(), datagram);
    }
}

/// Notes a datagram of `len` bytes at `at`, from an address of `from_len` bytes.
///
/// # Safety
/// All is there.
unsafe fn saw_at(fd: c_int, at: *const c_void, len: usize, from: *const sockaddr, from_len: socklen_t) {
    guard::inside(|| {
        // SAFETY: the caller's promise.
        let (source, datagram) = unsafe {
            (address::read(from, from_len.min(ROOM)), slice::from_raw_parts(at.cast::<u8>(), len.min(HASHED)))
        };
        saw(fd, source, datagram);
        Some(())
    });
}

/// Notes a datagram of `len` bytes in a message, from an address of `from_len` bytes.
///
/// # Safety
/// All is there.
unsafe fn saw_message(fd: c_int, message: &msghdr, len: usize, from: *const sockaddr, from_len: socklen_t) {
    guard::inside(|| {
        let mut seen = [0; HASHED];
        let mut filled = 0;
        for place in 0..message.msg_iovlen {
            // SAFETY: the caller's promise.
            let piece: iovec = unsafe { *message.msg_iov.add(place) };
            let count = piece.iov_len.min(len.min(HASHED) - filled);
            // SAFETY: as above; the kernel has filled as many.
            let bytes = unsafe { slice::from_raw_parts(piece.iov_base.cast::<u8>(), count) };
            seen[filled..filled + count].copy_from_slice(bytes);
            filled += count;
            if filled == len.min(HASHED) {
                break;
            }
        }
        // SAFETY: as above.
        let source = unsafe { address::read(from, from_len.min(ROOM)) };
        saw(fd, source, &seen[..filled]);
        Some(())
    });
}

/// Receives a datagram as `recvfrom()` does, and notes it.
///
/// # Safety
/// As the C library says of `recvfrom()`.
unsafe fn receive(
    fd: c_int,
    at: *mut c_void,
    len: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    // SAFETY: zeroes make a storage.
    let mut own: sockaddr_storage = unsafe { zeroed() };
    let mut own_len = ROOM;
    let is_own = from.is_null() || from_len.is_null();
    let (name, name_len) = if is_own { ((&raw mut own).cast(), &raw mut own_len) } else { (from, from_len) };
    // SAFETY: the program's call, but for an address of ours if it wants none.
    unsafe {
        let room = *name_len;
        let came = real::recvfrom(fd, at, len, flags, name, name_len);
        if came > 0 {
            saw_at(fd, at, (came as usize).min(len), name, (*name_len).min(room));
        }
        came
    }
}

/// Whether a call may bring a datagram.
fn is_seen(fd: c_int, flags: c_int) -> bool {
    flags & UNSEEN == 0 && sockets::is_udp(fd)
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn recv(fd: c_int, at: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    if is_seen(fd, flags) {
        // SAFETY: the program's call.
        return unsafe { receive(fd, at, len, flags, ptr::null_mut(), ptr::null_mut()) };
    }
    // SAFETY: the program's call.
    unsafe { real::recv(fd, at, len, flags) }
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    at: *mut c_void,
    len: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    if is_seen(fd, flags) {
        // SAFETY: the program's call.
        return unsafe { receive(fd, at, len, flags, from, from_len) };
    }
    // SAFETY: the program's call.
    unsafe { real::recvfrom(fd, at, len, flags, from, from_len) }
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn read(fd: c_int, at: *mut c_void, len: size_t) -> ssize_t {
    // `read()` of no bytes leaves a datagram where it is, and `recvfrom()` does not.
    if len > 0 && is_seen(fd, 0) {
        // SAFETY: the program's call.
        return unsafe { receive(fd, at, len, 0, ptr::null_mut(), ptr::null_mut()) };
    }
    // SAFETY: the program's call.
    unsafe { real::read(fd, at, len) }
}

/// `recv()` of a program that was compiled with checks of its buffers.
///
/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    at: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    if len <= room && is_seen(fd, flags) {
        // SAFETY: the program's call.
        return unsafe { receive(fd, at, len, flags, ptr::null_mut(), ptr::null_mut()) };
    }
    // SAFETY: the program's call, which the C library ends if it goes beyond the buffer.
    unsafe { real::__recv_chk(fd, at, len, room, flags) }
}

/// `recvfrom()` of a program that was compiled with checks of its buffers.
///
/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    at: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    if len <= room && is_seen(fd, flags) {
        // SAFETY: the program's call.
        return unsafe { receive(fd, at, len, flags, from, from_len) };
    }
    // SAFETY: as above.
    unsafe { real::__recvfrom_chk(fd, at, len, room, flags, from, from_len) }
}

/// `read()` of a program that was compiled with checks of its buffers.
///
/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn __read_chk(fd: c_int, at: *mut c_void, len: size_t, room: size_t) -> ssize_t {
    if len <= room && len > 0 && is_seen(fd, 0) {
        // SAFETY: the program's call.
        return unsafe { receive(fd, at, len, 0, ptr::null_mut(), ptr::null_mut()) };
    }
    // SAFETY: as above.
    unsafe { real::__read_chk(fd, at, len, room) }
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    if message.is_null() || !is_seen(fd, flags) {
        // SAFETY: the program's call.
        return unsafe { real::recvmsg(fd, message, flags) };
    }
    // SAFETY: zeroes make a storage.
    let mut own: sockaddr_storage = unsafe { zeroed() };
    // SAFETY: the program's call, but for an address of ours if it wants none.
    unsafe {
        let mut copy = *message;
        if copy.msg_name.is_null() {
            (copy.msg_name, copy.msg_namelen) = ((&raw mut own).cast(), ROOM);
        }
        let room = copy.msg_namelen;
        let came = real::recvmsg(fd, &raw mut copy, flags);
        (*message).msg_controllen = copy.msg_controllen;
        (*message).msg_flags = copy.msg_flags;
        if !(*message).msg_name.is_null() {
            (*message).msg_namelen = copy.msg_namelen;
        }
        if came > 0 {
            saw_message(fd, &copy, came as usize, copy.msg_name.cast(), copy.msg_namelen.min(room));
        }
        came
    }
}

/// Receives at most [`AT_ONCE`] datagrams: a program has to expect fewer than it asked for.
///
/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    if messages.is_null() || count == 0 || !is_seen(fd, flags) {
        // SAFETY: the program's call.
        return unsafe { real::recvmmsg(fd, messages, count, flags, timeout) };
    }
    let count = (count as usize).min(AT_ONCE);
    // SAFETY: zeroes make empty headers and addresses.
    let (mut own, mut copies): ([sockaddr_storage; AT_ONCE], [mmsghdr; AT_ONCE]) = unsafe { (zeroed(), zeroed()) };
    for place in 0..count {
        // SAFETY: the program's headers.
        copies[place] = unsafe { *messages.add(place) };
        let header = &mut copies[place].msg_hdr;
        if header.msg_name.is_null() {
            (header.msg_name, header.msg_namelen) = ((&raw mut own[place]).cast(), ROOM);
        }
    }
    // SAFETY: the program's call, but for addresses of ours where it wants none.
    let came = unsafe { real::recvmmsg(fd, copies.as_mut_ptr(), count as c_uint, flags, timeout) };
    for (place, copy) in copies.iter().enumerate().take(usize::try_from(came).unwrap_or(0)) {
        // SAFETY: as above.
        let message = unsafe { &mut *messages.add(place) };
        let room = if message.msg_hdr.msg_name.is_null() { ROOM } else { message.msg_hdr.msg_namelen };
        message.msg_len = copy.msg_len;
        message.msg_hdr.msg_controllen = copy.msg_hdr.msg_controllen;
        message.msg_hdr.msg_flags = copy.msg_hdr.msg_flags;
        if !message.msg_hdr.msg_name.is_null() {
            message.msg_hdr.msg_namelen = copy.msg_hdr.msg_namelen;
        }
        if copy.msg_len > 0 {
            let (name, len) = (copy.msg_hdr.msg_name.cast(), copy.msg_hdr.msg_namelen.min(room));
            // SAFETY: the kernel has filled as many.
            unsafe { saw_message(fd, &copy.msg_hdr, copy.msg_len as usize, name, len) };
        }
    }
    came
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    if count > 0 && is_seen(fd, 0) {
        // SAFETY: zeroes make an empty header.
        let mut message: msghdr = unsafe { zeroed() };
        (message.msg_iov, message.msg_iovlen) = (parts.cast_mut(), count as _);
        // SAFETY: the program's memory; the hook does the rest.
        return unsafe { recvmsg(fd, &raw mut message, 0) };
    }
    // SAFETY: the program's call.
    unsafe { real::readv(fd, parts, count) }
}
