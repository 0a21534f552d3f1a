//! The program's sockets: which descriptors are UDP sockets, and calls on them.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::fs::{OFlags, fcntl_getfl, fstat};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::net::sockopt::{socket_broadcast, socket_domain, socket_protocol, socket_type};
use rustix::net::{AddressFamily, SocketType, getpeername, getsockname, ipproto};

use super::{address, guard, real};
use crate::datagram::Datagram;

/// Number of descriptors whose kind is remembered: a program with more leaves those above as they are.
const REMEMBERED: usize = 1 << 16;
/// Kinds of a descriptor: not looked at, a UDP socket, or anything else.
const UNKNOWN: u8 = 0;
const UDP: u8 = 1;
const OTHER: u8 = 2;

/// Kind of each descriptor, and the number of datagrams that came from it, up to [`MANY`]. Read in signal handlers, too.
static KINDS: [AtomicU8; REMEMBERED] = [const { AtomicU8::new(UNKNOWN) }; REMEMBERED];
static RECEIVED: [AtomicU8; REMEMBERED] = [const { AtomicU8::new(0) }; REMEMBERED];

/// Datagrams on a socket after which it is a receiver worth reporting for. Chosen by us: a sender asks for reports after an
/// initial window of four. A higher value begins to report later.
const MANY: u8 = 4;

fn borrow(fd: RawFd) -> Option<BorrowedFd<'static>> {
    // SAFETY: used only for calls that refuse what is no open descriptor, while the program's call on it lasts.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

fn of(table: &'static [AtomicU8; REMEMBERED], fd: RawFd) -> Option<&'static AtomicU8> {
    table.get(usize::try_from(fd).ok()?)
}

/// Whether a descriptor is a UDP socket.
pub(crate) fn is_udp(fd: RawFd) -> bool {
    let Some(kind) = of(&KINDS, fd) else { return false };
    match kind.load(Ordering::Relaxed) {
        UNKNOWN => {
            let is_udp = look(fd);
            kind.store(if is_udp { UDP } else { OTHER }, Ordering::Relaxed);
            is_udp
        }
        known => known == UDP,
    }
}

/// Whether a descriptor is known to be a UDP socket, without a look at it.
pub(crate) fn was_udp(fd: RawFd) -> bool {
    of(&KINDS, fd).is_some_and(|kind| kind.load(Ordering::Relaxed) == UDP)
}

/// Forgets a descriptor, which is closed or something else from now on.
pub(crate) fn forget(fd: RawFd) {
    of(&KINDS, fd).into_iter().chain(of(&RECEIVED, fd)).for_each(|byte| byte.store(0, Ordering::Relaxed));
}

/// Forgets all descriptors from `first` to `last`.
pub(crate) fn forget_range(first: u32, last: u32) {
    (first..=last.min(REMEMBERED as u32 - 1)).for_each(|fd| forget(fd as RawFd));
}

/// Whether many datagrams have come from a descriptor, with this one.
pub(crate) fn receives_many(fd: RawFd) -> bool {
    let Some(count) = of(&RECEIVED, fd) else { return false };
    let before = count.load(Ordering::Relaxed);
    if before < MANY {
        count.store(before + 1, Ordering::Relaxed);
    }
    before >= MANY
}

fn look(fd: RawFd) -> bool {
    let Some(fd) = borrow(fd) else { return false };
    socket_type(fd) == Ok(SocketType::DGRAM)
        && matches!(socket_domain(fd), Ok(AddressFamily::INET | AddressFamily::INET6))
        && socket_protocol(fd) == Ok(Some(ipproto::UDP))
}

/// Number of the socket behind a descriptor: another one may have the same descriptor later.
pub(crate) fn identity(fd: RawFd) -> Option<u64> {
    Some(fstat(borrow(fd)?).ok()?.st_ino)
}

/// Local port of a socket, if it has one.
pub(crate) fn local_port(fd: RawFd) -> Option<u16> {
    let local = SocketAddr::try_from(getsockname(borrow(fd)?).ok()?).ok()?;
    Some(local.port()).filter(|&port| port != 0)
}

/// Address that a socket is connected to.
pub(crate) fn peer(fd: RawFd) -> Option<SocketAddr> {
    SocketAddr::try_from(getpeername(borrow(fd)?).ok()??).ok()
}

/// Whether a call on a socket may not block.
pub(crate) fn is_nonblocking(fd: RawFd) -> bool {
    borrow(fd).and_then(|fd| fcntl_getfl(fd).ok()).is_some_and(|flags| flags.contains(OFlags::NONBLOCK))
}

/// Whether a socket may send to all hosts of a network.
pub(crate) fn may_broadcast(fd: RawFd) -> bool {
    borrow(fd).and_then(|fd| socket_broadcast(fd).ok()).unwrap_or(false)
}

/// Returns a copy of a descriptor, which no other program gets.
pub(crate) fn duplicate(fd: RawFd) -> Option<OwnedFd> {
    fcntl_dupfd_cloexec(borrow(fd)?, 3).ok()
}

/// Whether an address is one of this host's own.
pub(crate) fn is_loopback(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    ip.is_loopback() || ip.is_unspecified()
}

/// Sends a datagram without blocking.
///
/// # Errors
/// The kernel's, as `errno`.
pub(crate) fn send(fd: RawFd, datagram: &Datagram) -> Result<(), i32> {
    let (mut to, to_len) = address::write(datagram.to);
    let mut part =
        libc::iovec { iov_base: datagram.payload.as_ptr().cast_mut().cast(), iov_len: datagram.payload.len() };
    // SAFETY: zeroes make an empty header.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_name, message.msg_namelen) = ((&raw mut to).cast(), to_len);
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    if !datagram.control.is_empty() {
        message.msg_control = datagram.control.as_ptr().cast_mut().cast();
        message.msg_controllen = datagram.control.len();
    }
    loop {
        // SAFETY: all that the header names is there, and is only read.
        let sent = unsafe { real::sendmsg(fd, &raw const message, datagram.flags | libc::MSG_DONTWAIT) };
        match if sent < 0 { guard::errno() } else { 0 } {
            0 => return Ok(()),
            libc::EINTR => {}
            error => return Err(error),
        }
    }
}

/// Sends a datagram on a descriptor of ours.
///
/// # Errors
/// As [`send`].
pub(crate) fn send_on(fd: &OwnedFd, datagram: &Datagram) -> Result<(), i32> {
    send(fd.as_raw_fd(), datagram)
}
