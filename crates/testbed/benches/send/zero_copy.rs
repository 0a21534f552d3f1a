//! Cost of zero-copy sending: `MSG_ZEROCOPY` pins the pages of header and payload, and reports on the error queue when
//! they may be reused.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, RawFd};

use crate::Ends;
use crate::paths::{HEADER, Path};

const PAGE: usize = 4096;
/// Maximum number of memory fragments per bundle (`MAX_SKB_FRAGS`).
const PIECES: usize = 17;
/// Packets whose payloads are in use at a time: the slots of a ring.
const SLOTS: usize = 256;
/// Bundles between two reads of the error queue.
const PATIENCE: usize = 16;

/// Bundles of as many packets as zero-copy allows, with or without zero-copy.
pub(crate) struct Gathered {
    socket: UdpSocket,
    zone: Vec<u8>,
    stride: usize,
    payload: usize,
    in_bundle: usize,
    zero_copy: bool,
    next: usize,
    bundles: usize,
}

impl Gathered {
    pub(crate) fn new(ends: Ends, payload: usize, zero_copy: bool) -> Self {
        let socket = UdpSocket::bind(ends.local).expect("a port");
        socket.connect(ends.remote).expect("a route");
        socket.set_nonblocking(true).expect("a socket can do that");
        set(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, (HEADER.len() + payload) as i32);
        if zero_copy {
            set(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1);
        }
        let stride = payload.next_multiple_of(PAGE);
        let in_bundle = PIECES / (1 + stride / PAGE);
        let zone = vec![0x5a; PAGE + SLOTS * stride];
        Self { socket, zone, stride, payload, in_bundle, zero_copy, next: 0, bundles: 0 }
    }

    fn send(&mut self) {
        let first = self.zone.as_ptr().align_offset(PAGE);
        let mut parts = Vec::with_capacity(PIECES);
        for packet in 0..self.in_bundle {
            let at = first + (self.next + packet) % SLOTS * self.stride;
            for piece in [&HEADER[..], &self.zone[at..at + self.payload]] {
                parts.push(libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() });
            }
        }
        self.next += self.in_bundle;
        // SAFETY: a C structure of numbers and pointers, for all of which zero is a value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr(), parts.len() as _);
        let flags = if self.zero_copy { libc::MSG_ZEROCOPY } else { 0 };
        // SAFETY: the parts are in memory that is never written again, and lives as long as the benchmark needs it:
        // the header is a constant, the zone is `self`'s.
        let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const message, flags) };
        assert!(sent > 0, "{}", io::Error::last_os_error());
        self.bundles += 1;
    }

    /// Reads the kernel's completion notices from the error queue.
    fn hear(&self) {
        let mut control = [0_u64; 32];
        loop {
            // SAFETY: as above.
            let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = size_of_val(&control) as _;
            // SAFETY: the kernel writes to the control buffer, whose size it was told.
            let got = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, libc::MSG_ERRQUEUE) };
            if got < 0 {
                return;
            }
        }
    }
}

fn set(fd: RawFd, level: i32, name: i32, value: i32) {
    let len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the kernel reads a number that lives through the call.
    let done = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
}

impl Path for Gathered {
    fn name(&self) -> &'static str {
        if self.zero_copy { "GSO in the same bundles, zero-copy" } else { "GSO in bundles of up to 17 pieces" }
    }

    fn batch(&mut self) -> u64 {
        let bundles = 64_usize.div_ceil(self.in_bundle);
        for _ in 0..bundles {
            self.send();
            if self.zero_copy && self.bundles.is_multiple_of(PATIENCE) {
                self.hear();
            }
        }
        (bundles * self.in_bundle) as u64
    }
}
