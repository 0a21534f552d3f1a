//! Packets over a Unix socket, with descriptors; no call waits.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg, socket_with,
};

/// Maximum number of descriptors per packet.
pub const DESCRIPTORS_MAX: usize = 2;

const SPACE: usize = rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX));
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// Connects to a daemon.
///
/// # Errors
/// The socket has no listener; or [`WouldBlock`](io::ErrorKind::WouldBlock): its backlog is full.
pub(crate) fn connect_to(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Listens for clients at an unused path; the directory must exist.
///
/// # Errors
/// The system's.
pub fn listen_at(path: &Path, backlog: i32) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, backlog)?;
    Ok(socket)
}

/// Sends a packet with descriptors, at most [`DESCRIPTORS_MAX`]. Returns `false` if the socket is full.
///
/// # Errors
/// The other side has disconnected.
pub fn send(socket: impl AsFd, packet: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<bool> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    loop {
        match sendmsg(&socket, &[IoSlice::new(packet)], &mut control, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(true),
            Err(Errno::INTR) => {}
            // No room for the packet; too many descriptors in flight (ETOOMANYREFS), or no memory at present.
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::TOOMANYREFS) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

/// A received packet.
#[derive(Debug)]
pub struct Packet {
    /// Length; zero if the other side has closed.
    pub len: usize,
    /// Whether it was truncated.
    pub cut: bool,
    /// Descriptors of the packet.
    pub descriptors: Vec<OwnedFd>,
}

/// Receives a packet without descriptors: those sent with it are dropped by the kernel and never reach this process.
/// `None` if there is no packet.
///
/// # Errors
/// The other side has disconnected.
pub fn receive(socket: impl AsFd, room: &mut [u8]) -> io::Result<Option<Packet>> {
    take(socket, room, &mut [])
}

/// Receives a packet, with its descriptors. Only from a trusted side: a descriptor can be of a kind that blocks on
/// close.
///
/// # Errors
/// The other side has disconnected.
pub fn receive_with_descriptors(socket: impl AsFd, room: &mut [u8]) -> io::Result<Option<Packet>> {
    take(socket, room, &mut [MaybeUninit::uninit(); SPACE])
}

fn take(socket: impl AsFd, room: &mut [u8], space: &mut [MaybeUninit<u8>]) -> io::Result<Option<Packet>> {
    let mut control = RecvAncillaryBuffer::new(space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let message = loop {
        match recvmsg(&socket, &mut [IoSliceMut::new(room)], &mut control, flags) {
            Ok(message) => break message,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    };
    let mut descriptors = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(came) = part {
            descriptors.extend(came);
        }
    }
    let cut = message.flags.contains(ReturnFlags::TRUNC);
    Ok(Some(Packet { len: message.bytes, cut, descriptors }))
}
