//! System calls of a socket: the only place that gives memory addresses to the kernel.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{from_mut, from_ref, null_mut};

use super::abi::{Control, Instruction, Marks, Name};
use super::bundle::{Message, Plan};
use super::packet::Packet;

/// Sets the "don't fragment" bit and ignores the kernel's cached path MTU.
pub(super) const PROBE: i32 = libc::IP_PMTUDISC_PROBE;
const _: () = assert!(libc::IP_PMTUDISC_PROBE == libc::IPV6_PMTUDISC_PROBE);

/// Maximum length of a received message, in bytes, with GRO.
const RECEIVE_BUFFER: usize = 64 * 1024;
/// Number of messages received per call. Chosen by us: a higher value takes more memory and fewer system calls.
const RECEIVE_BATCH: usize = 16;

/// A numeric socket option.
#[derive(Clone, Copy, Debug)]
pub(super) enum SocketOption {
    Tos,
    TrafficClass,
    ReceiveTos,
    ReceiveTrafficClass,
    ReceiveInfo,
    ReceiveInfo6,
    DiscoverMtu,
    DiscoverMtu6,
    DontFragment6,
    ReceiveBuffer,
    ReceiveBufferForce,
    Gro,
    Gso,
    ReceiveErrors,
    ReceiveTimes,
    ReceiveErrors6,
    #[cfg(test)]
    NoChecksum,
}

impl SocketOption {
    fn level_and_name(self) -> (i32, i32) {
        match self {
            Self::Tos => (libc::IPPROTO_IP, libc::IP_TOS),
            Self::TrafficClass => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            Self::ReceiveTos => (libc::IPPROTO_IP, libc::IP_RECVTOS),
            Self::ReceiveTrafficClass => (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
            Self::ReceiveInfo => (libc::IPPROTO_IP, libc::IP_PKTINFO),
            Self::ReceiveInfo6 => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
            Self::DiscoverMtu => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
            Self::DiscoverMtu6 => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
            Self::DontFragment6 => (libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG),
            Self::ReceiveBuffer => (libc::SOL_SOCKET, libc::SO_RCVBUF),
            Self::ReceiveBufferForce => (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE),
            Self::Gro => (libc::SOL_UDP, libc::UDP_GRO),
            Self::Gso => (libc::SOL_UDP, libc::UDP_SEGMENT),
            Self::ReceiveTimes => (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS),
            Self::ReceiveErrors => (libc::IPPROTO_IP, libc::IP_RECVERR),
            Self::ReceiveErrors6 => (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
            #[cfg(test)]
            Self::NoChecksum => (libc::SOL_SOCKET, libc::SO_NO_CHECK),
        }
    }
}

pub(super) fn set_option(fd: BorrowedFd<'_>, option: SocketOption, value: i32) -> io::Result<()> {
    let (level, name) = option.level_and_name();
    let len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of a number that lives through the call.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Attaches the program that chooses one of the sockets that share a port.
pub(super) fn attach_filter(fd: BorrowedFd<'_>, program: &[Instruction]) -> io::Result<()> {
    let filter = from_ref(program).cast::<Instruction>().cast_mut().cast();
    let fprog = libc::sock_fprog { len: program.len() as u16, filter };
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF);
    let len = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of a structure that lives through the call, and through it the instructions,
    // which are laid out as the kernel's.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const fprog).cast(), len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Enlarges the receive buffer, for a burst of large frames, or half a second of a fast peer while other threads have the processors.
/// Without the privilege, the system's limit applies.
pub(super) fn make_room(fd: BorrowedFd<'_>) {
    /// Receive buffer, in bytes. Chosen by us: a higher value takes more memory; a lower one loses packets of a burst.
    const ROOM: i32 = 4 << 20;
    if set_option(fd, SocketOption::ReceiveBufferForce, ROOM).is_err() {
        let _less = set_option(fd, SocketOption::ReceiveBuffer, ROOM);
    }
}

fn empty_header() -> libc::mmsghdr {
    // SAFETY: a C structure of numbers and pointers, for all of which zero is a value.
    unsafe { std::mem::zeroed() }
}

/// System call arguments of outgoing packets: buffers kept between calls, rewritten before each.
#[derive(Default)]
pub(super) struct Outbound {
    headers: Vec<libc::mmsghdr>,
    parts: Vec<libc::iovec>,
    names: Vec<Name>,
    controls: Vec<Control>,
}

// SAFETY: the pointers in it are written before each call of the kernel's and never followed after it.
unsafe impl Send for Outbound {}

impl Outbound {
    /// Sends the plan's messages from index `from` on; returns how many the kernel took, at least one.
    pub(super) fn send(
        &mut self,
        fd: BorrowedFd<'_>,
        plan: &Plan,
        from: usize,
        packets: &[Packet<'_>],
    ) -> io::Result<usize> {
        let messages = &plan.messages()[from..];
        self.headers.clear();
        self.parts.clear();
        self.names.resize(self.names.len().max(messages.len()), Name::default());
        self.controls.resize(self.controls.len().max(messages.len()), Control::default());
        // All parts first: their addresses are taken once they do not move any more.
        for &message in messages {
            for at in plan.packets(message) {
                self.add_parts(&packets[at]);
            }
        }
        let mut part = 0;
        for (place, message) in messages.iter().enumerate() {
            let parts: usize = plan.packets(*message).map(|at| parts_of(&packets[at])).sum();
            let header = self.header(place, message, part, parts);
            self.headers.push(header);
            part += parts;
        }
        let count = self.headers.len() as libc::c_uint;
        // SAFETY: each header refers to a name, a control buffer and parts in vectors of `self`, filled above and not moved since. The
        // parts are headers borrowed by `packets`, and payloads of zones that stay mapped while `packets` borrows their consumer. The
        // kernel only reads them, so that concurrent writes to a zone are allowed.
        let sent = unsafe {
            match &self.headers[..] {
                // `sendmsg` is cheaper for one message. It returns bytes, possibly zero.
                [one] => match libc::sendmsg(fd.as_raw_fd(), &raw const one.msg_hdr, libc::MSG_DONTWAIT) {
                    ..0 => -1,
                    _ => 1,
                },
                _ => libc::sendmmsg(fd.as_raw_fd(), self.headers.as_mut_ptr(), count, libc::MSG_DONTWAIT),
            }
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    fn add_parts(&mut self, packet: &Packet<'_>) {
        let header = packet.header;
        self.parts.push(libc::iovec { iov_base: header.as_ptr().cast_mut().cast(), iov_len: header.len() });
        if let Some(payload) = packet.payload {
            self.parts.push(libc::iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() });
        }
    }

    fn header(&mut self, place: usize, message: &Message, part: usize, parts: usize) -> libc::mmsghdr {
        let (name, control) = (&mut self.names[place], &mut self.controls[place]);
        let name_len = name.write(message.to);
        let control_len = control.write(message.to, message.from, message.ecn, message.cut());
        let mut header = empty_header();
        header.msg_hdr.msg_name = from_mut(name).cast();
        header.msg_hdr.msg_namelen = name_len as libc::socklen_t;
        header.msg_hdr.msg_iov = self.parts[part..part + parts].as_mut_ptr();
        header.msg_hdr.msg_iovlen = parts as _;
        header.msg_hdr.msg_control = if control_len == 0 { null_mut() } else { from_mut(control).cast() };
        header.msg_hdr.msg_controllen = control_len as _;
        header
    }
}

fn parts_of(packet: &Packet<'_>) -> usize {
    1 + usize::from(packet.payload.is_some())
}

impl std::fmt::Debug for Outbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbound").finish_non_exhaustive()
    }
}

/// Buffers of incoming messages, kept between calls.
pub(super) struct Inbound {
    headers: Vec<libc::mmsghdr>,
    parts: Vec<libc::iovec>,
    names: Vec<Name>,
    controls: Vec<Control>,
    bytes: Vec<u8>,
}

// SAFETY: as for `Outbound`.
unsafe impl Send for Inbound {}

impl Default for Inbound {
    fn default() -> Self {
        Self {
            headers: vec![empty_header(); RECEIVE_BATCH],
            parts: vec![libc::iovec { iov_base: null_mut(), iov_len: 0 }; RECEIVE_BATCH],
            names: vec![Name::default(); RECEIVE_BATCH],
            controls: vec![Control::default(); RECEIVE_BATCH],
            bytes: vec![0; RECEIVE_BATCH * RECEIVE_BUFFER],
        }
    }
}

/// A received message: one datagram or, with GRO, several of one sender.
#[derive(Debug)]
pub(super) struct Arrival<'a> {
    pub(super) from: SocketAddr,
    pub(super) marks: Marks,
    pub(super) bytes: &'a [u8],
}

impl Inbound {
    /// Receives messages, or with `errors` those of the error queue; returns their number.
    pub(super) fn receive(&mut self, fd: BorrowedFd<'_>, errors: bool) -> io::Result<usize> {
        let buffers = self.bytes.chunks_exact_mut(RECEIVE_BUFFER);
        let rest = self.parts.iter_mut().zip(&mut self.names).zip(&mut self.controls).zip(buffers);
        for (header, (((part, name), control), buffer)) in self.headers.iter_mut().zip(rest) {
            *part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
            header.msg_len = 0;
            header.msg_hdr.msg_name = from_mut(name).cast();
            header.msg_hdr.msg_namelen = Name::MOST as libc::socklen_t;
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = from_mut(control).cast();
            header.msg_hdr.msg_controllen = Control::MOST as _;
            header.msg_hdr.msg_flags = 0;
        }
        // SAFETY: each header refers to a name, a control buffer and a part of the byte buffer, all in vectors of `self`, with their
        // lengths, written just above; nothing else accesses them during the call.
        let count = unsafe {
            let flags = libc::MSG_DONTWAIT | if errors { libc::MSG_ERRQUEUE } else { 0 };
            libc::recvmmsg(fd.as_raw_fd(), self.headers.as_mut_ptr(), RECEIVE_BATCH as _, flags, null_mut())
        };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    /// Returns the message at `place` of the last call; `None` if it was truncated, or has no sender.
    pub(super) fn arrival(&self, place: usize) -> Option<Arrival<'_>> {
        let header = &self.headers[place];
        if header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 {
            return None;
        }
        let from = self.names[place].read()?;
        let marks = self.controls[place].read(header.msg_hdr.msg_controllen);
        let bytes = &self.bytes[place * RECEIVE_BUFFER..][..(header.msg_len as usize).min(RECEIVE_BUFFER)];
        Some(Arrival { from, marks, bytes })
    }
}

impl std::fmt::Debug for Inbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbound").finish_non_exhaustive()
    }
}
