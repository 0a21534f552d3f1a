//! A packet socket (packet(7)).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{sock_filter, sock_fprog};

/// Maximum packet length, merged packets (GRO) included, in bytes. Chosen by us: four times what a 16-bit length
/// allows; a higher value takes more memory.
pub(super) const LONGEST: usize = 0x0004_0000;
/// Receive buffer in bytes. Packets that do not fit are not seen by the tap, and are read from the stream. Chosen by
/// us: a higher value takes more memory.
const ROOM: i32 = 4 << 20;
/// Size of a control message's header (`struct cmsghdr`), in bytes.
const HEAD: usize = size_of::<libc::cmsghdr>();
/// All protocols: other settings do not show sent packets.
const EVERYTHING: u16 = (libc::ETH_P_ALL as u16).to_be();

/// The socket. It delivers IP packets without their link-layer header.
#[derive(Debug)]
pub(super) struct Packets(OwnedFd);

/// A captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Captured length in the buffer.
    pub(super) len: usize,
    pub(super) direction: Direction,
    /// Whether the checksum is known to be good: verified by the device, or not needed because the packet did not leave
    /// this host.
    pub(super) vouched: bool,
}

/// Direction of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Sent by this host.
    Sent,
    /// Addressed to this host.
    Arriving,
    /// Addressed to another host.
    Passing,
}

impl Packets {
    /// Opens a socket that captures nothing yet.
    pub(super) fn open() -> io::Result<Self> {
        let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no memory is involved.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call returned this descriptor, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Captures packets that pass the filter from now on, on all devices.
    pub(super) fn listen(&self, filter: &[sock_filter]) -> io::Result<()> {
        let len = u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let program = sock_fprog { len, filter: filter.as_ptr().cast_mut() };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
        self.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, &1_i32)?;
        // Beyond the system's limit, if this process may.
        if self.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &ROOM).is_err() {
            self.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &ROOM)?;
        }
        // SAFETY: a C structure of numbers, for all of which zero is a value.
        let mut all: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        all.sll_family = libc::AF_PACKET as u16;
        all.sll_protocol = EVERYTHING;
        let len = size_of_val(&all) as libc::socklen_t;
        // SAFETY: the kernel reads `len` bytes of an address that lives through the call.
        done(unsafe { libc::bind(self.0.as_raw_fd(), (&raw const all).cast(), len) })
    }

    fn set<T>(&self, level: i32, name: i32, value: &T) -> io::Result<()> {
        let len = size_of::<T>() as libc::socklen_t;
        let at: *const T = value;
        // SAFETY: the kernel reads `len` bytes of what lives through the call, and what a filter's address shows, which
        // does so as well.
        done(unsafe { libc::setsockopt(self.0.as_raw_fd(), level, name, at.cast(), len) })
    }

    /// Reads the next packet into `buffer`; `None`: there is none.
    pub(super) fn next(&self, buffer: &mut [u8]) -> io::Result<Option<Packet>> {
        let mut control = [0_u64; 16];
        let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: C structures of numbers and pointers, for all of which zero is a value.
        let (mut from, mut header): (libc::sockaddr_ll, libc::msghdr) = unsafe { std::mem::zeroed() };
        header.msg_name = (&raw mut from).cast();
        header.msg_namelen = size_of_val(&from) as libc::socklen_t;
        header.msg_iov = &raw mut piece;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        // SAFETY: the header shows memory that lives through the call, each piece with its length, and nothing else.
        let len = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
        let len = match usize::try_from(len) {
            Ok(len) => len,
            Err(_) => {
                let error = io::Error::last_os_error();
                return match error.kind() {
                    // A device went down: the others still deliver.
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::NetworkDown => Ok(None),
                    _ => Err(error),
                };
            }
        };
        let direction = match from.sll_pkttype {
            libc::PACKET_OUTGOING => Direction::Sent,
            libc::PACKET_HOST => Direction::Arriving,
            _ => Direction::Passing,
        };
        let bytes: Vec<u8> = control.iter().flat_map(|word| word.to_ne_bytes()).collect();
        Ok(Some(Packet { len: len.min(buffer.len()), direction, vouched: is_vouched(&bytes) }))
    }
}

/// Parses a `cmsghdr` with a `tpacket_auxdata` behind it.
fn is_vouched(control: &[u8]) -> bool {
    const LEVEL: usize = size_of::<usize>();
    let word = |at: usize| control.get(at..).and_then(|rest| rest.first_chunk()).map(|word| u32::from_ne_bytes(*word));
    let is_told = word(LEVEL) == Some(libc::SOL_PACKET as u32) && word(LEVEL + 4) == Some(libc::PACKET_AUXDATA as u32);
    let status = word(HEAD).filter(|_| is_told).unwrap_or(0);
    status & (libc::TP_STATUS_CSUM_VALID | libc::TP_STATUS_CSUMNOTREADY) != 0
}

fn done(answer: i32) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl AsFd for Packets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_that_the_device_has_seen_or_that_was_never_needed_is_vouched_for() {
        let mut control = vec![0; 128];
        control[8..12].copy_from_slice(&(libc::SOL_PACKET as u32).to_ne_bytes());
        control[12..16].copy_from_slice(&(libc::PACKET_AUXDATA as u32).to_ne_bytes());
        assert!(!is_vouched(&control));
        for status in [libc::TP_STATUS_CSUM_VALID, libc::TP_STATUS_CSUMNOTREADY] {
            control[HEAD..HEAD + 4].copy_from_slice(&status.to_ne_bytes());
            assert!(is_vouched(&control));
            assert!(!is_vouched(&control[..HEAD + 2]));
        }
        control[12] ^= 1;
        assert!(!is_vouched(&control), "something else is told");
    }
}
