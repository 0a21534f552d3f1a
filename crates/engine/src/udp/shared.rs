//! A UDP port with a socket for each worker: the kernel gives all packets of a host to the same one.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::os::fd::AsFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with, sockopt};

use super::Socket;
use super::abi::Instruction;
use super::system::attach_filter;

const fn step(code: u16, value: u32) -> Instruction {
    Instruction { code, if_true: 0, if_false: 0, value }
}

// Operations of classic BPF (`linux/bpf_common.h`).
const LOAD_BYTE: u16 = 0x30;
const LOAD_WORD: u16 = 0x20;
const SHIFT_RIGHT: u16 = 0x74;
const MODULO: u16 = 0x94;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP: u16 = 0x05;
const RETURN: u16 = 0x16;
/// Offset of the IP header (`SKF_NET_OFF`).
const IP_HEADER: u32 = -0x10_0000_i32 as u32;

/// Program that returns the worker of a packet's source, by the last four bytes of its address modulo `count`.
fn steering(count: u32) -> [Instruction; 8] {
    [
        step(LOAD_BYTE, IP_HEADER),
        step(SHIFT_RIGHT, 4),
        Instruction { code: JUMP_IF_EQUAL, if_true: 0, if_false: 2, value: 4 },
        // Source address in IPv4: bytes 12 to 15; the end of the one in IPv6: bytes 20 to 23.
        step(LOAD_WORD, IP_HEADER + 12),
        step(JUMP, 1),
        step(LOAD_WORD, IP_HEADER + 20),
        step(MODULO, count),
        step(RETURN, 0),
    ]
}

impl Socket {
    /// Opens one of several sockets at `local`: the first one for `first` workers, then one for each other worker, in
    /// their order.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn bind_shared(local: SocketAddr, first: Option<NonZeroUsize>) -> io::Result<Self> {
        // Sharing sockets would not notice another program's.
        let local = if first.is_some() { UdpSocket::bind(local)?.local_addr()? } else { local };
        let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let io = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(ipproto::UDP))?;
        sockopt::set_socket_reuseport(&io, true)?;
        bind(&io, &local)?;
        if let Some(count) = first {
            attach_filter(io.as_fd(), &steering(count.get() as u32))?;
        }
        Self::over(io.into(), local)
    }
}
