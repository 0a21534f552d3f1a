//! A UDP socket that knows ECN, sends one datagram at a time and receives many at once.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::UdpGroSegment;
use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use timeous_core::Ecn;

/// What one receive call may bring at most, with GRO.
const RECEIVE_BUFFER: usize = 64 * 1024;

/// A non-blocking UDP socket.
pub(crate) struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
    buffers: Vec<u8>,
}

impl Socket {
    pub(crate) fn bind(local: SocketAddr) -> io::Result<Self> {
        let io = UdpSocket::bind(local)?;
        let state = UdpSocketState::new((&io).into())?;
        // quinn-udp 0.6.3 keeps 96 bytes for control messages: with GRO's among them the ECN mark is cut off, and
        // a mark is worth more to congestion control than a system call less.
        setsockopt(&io, UdpGroSegment, &false)?;
        // A burst of a large frame should wait in the kernel rather than be lost there. Less is what we get at worst.
        let _ = state.set_recv_buffer_size((&io).into(), 1 << 20);
        Ok(Self { io, state, buffers: vec![0; RECEIVE_BUFFER * BATCH_SIZE] })
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// Sends one datagram. `WouldBlock`: the kernel's buffer is full, try again when the socket is writable.
    pub(crate) fn send(&self, to: SocketAddr, ecn: Ecn, datagram: &[u8]) -> io::Result<()> {
        let transmit = Transmit {
            destination: to,
            ecn: EcnCodepoint::from_bits(ecn as u8),
            contents: datagram,
            segment_size: None,
            src_ip: None,
        };
        self.state.try_send((&self.io).into(), &transmit)
    }

    /// Takes what has come, one call to `each` a datagram. Returns whether there may be more.
    pub(crate) fn receive(&mut self, mut each: impl FnMut(SocketAddr, Ecn, &[u8])) -> io::Result<bool> {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let mut slices: Vec<_> = self.buffers.chunks_mut(RECEIVE_BUFFER).map(io::IoSliceMut::new).collect();
        let count = match self.state.recv((&self.io).into(), &mut slices, &mut metas) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        for (meta, buffer) in metas.iter().zip(self.buffers.chunks(RECEIVE_BUFFER)).take(count) {
            for datagram in buffer[..meta.len].chunks(meta.stride.max(1)) {
                each(meta.addr, ecn_of(meta.ecn), datagram);
            }
        }
        Ok(true)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

fn ecn_of(codepoint: Option<EcnCodepoint>) -> Ecn {
    match codepoint {
        None => Ecn::NotEct,
        Some(EcnCodepoint::Ect0) => Ecn::Ect0,
        Some(EcnCodepoint::Ect1) => Ecn::Ect1,
        Some(EcnCodepoint::Ce) => Ecn::Ce,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waker::timespec;
    use rustix::event::{PollFd, PollFlags};
    use timeous_core::Duration;

    #[test]
    fn a_datagram_arrives_with_its_ecn_mark() {
        let loopback = "127.0.0.1:0".parse().unwrap();
        let (sender, mut receiver) = (Socket::bind(loopback).unwrap(), Socket::bind(loopback).unwrap());
        sender.send(receiver.local_addr().unwrap(), Ecn::Ect0, b"in time").unwrap();
        let mut got = Vec::new();
        let timeout = timespec(Duration::from_secs(5));
        rustix::event::poll(&mut [PollFd::new(&receiver, PollFlags::IN)], Some(&timeout)).unwrap();
        receiver.receive(|from, ecn, bytes| got.push((from, ecn, bytes.to_vec()))).unwrap();
        assert_eq!(got, [(sender.local_addr().unwrap(), Ecn::Ect0, b"in time".to_vec())]);
        assert!(!receiver.receive(|_, _, _| panic!("nothing more")).unwrap());
    }
}
