//! A UDP or raw IP socket with ECN, batched sending from where the payloads lie, and batched receiving.

mod abi;
mod bundle;
mod packet;
mod ports;
mod raw;
mod receive;
mod send;
mod shared;
#[allow(unsafe_code, reason = "the one room that gives addresses to the kernel")]
mod system;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use abi::OWN_MARK;
use bundle::Plan;
pub use packet::{Packet, Way};
pub(crate) use ports::Reservation;
pub use ports::{local_for, second_uplink};
use system::{Inbound, Outbound, SocketOption, set_option};

/// Encapsulation of a socket's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SocketEncapsulation {
    Udp,
    /// Plain IPv4: received packets begin with the IP header.
    Ipv4,
    /// Plain IPv6.
    Ipv6,
}

/// A non-blocking UDP socket, or a raw DCCP socket.
#[derive(Debug)]
pub struct Socket {
    io: OwnedFd,
    carries: SocketEncapsulation,
    plan: Plan,
    outbound: Outbound,
    inbound: Inbound,
    /// Whether equal-sized packets for one destination go to the kernel as one (GSO).
    bundles: bool,
}

impl Socket {
    /// Maximum number of packets worth one call of [`send`](Self::send): a bundle holds no more (`UDP_MAX_SEGMENTS`).
    pub const BATCH: usize = 64;

    /// Opens a socket at `local`.
    ///
    /// # Errors
    /// The system's.
    pub fn bind(local: SocketAddr) -> io::Result<Self> {
        Self::over(UdpSocket::bind(local)?, local)
    }

    /// Sets up a bound socket.
    fn over(io: UdpSocket, local: SocketAddr) -> io::Result<Self> {
        io.set_nonblocking(true)?;
        let fd = io.as_fd();
        set_option(fd, SocketOption::ReceiveTos, 1)?;
        set_option(fd, SocketOption::Tos, OWN_MARK as i32)?;
        // Packets are never fragmented, whatever path MTU the kernel has cached: a mark or a loss must concern one
        // packet (RFC 4340 §14). Also for IPv4 addresses on an IPv6 socket.
        set_option(fd, SocketOption::DiscoverMtu, system::PROBE)?;
        if local.is_ipv6() {
            set_option(fd, SocketOption::ReceiveTrafficClass, 1)?;
            set_option(fd, SocketOption::TrafficClass, OWN_MARK as i32)?;
            set_option(fd, SocketOption::DiscoverMtu6, system::PROBE)?;
            set_option(fd, SocketOption::DontFragment6, 1)?;
        }
        system::make_room(fd);
        if let Err(error) = set_option(fd, SocketOption::Gro, 1) {
            tracing::debug!(%error, "datagrams come one by one");
        }
        // Setting zero has no effect, but fails on a kernel without the option.
        let bundles = set_option(fd, SocketOption::Gso, 0).is_ok();
        if !bundles {
            tracing::debug!("the kernel knows no GSO: packets go one by one");
        }
        Ok(Self::new(io.into(), SocketEncapsulation::Udp, bundles))
    }

    fn new(io: OwnedFd, carries: SocketEncapsulation, bundles: bool) -> Self {
        if let Err(error) = set_option(io.as_fd(), SocketOption::ReceiveTimes, 1) {
            tracing::debug!(%error, "time in the receive buffer counts as the path's");
        }
        let (plan, outbound, inbound) = (Plan::default(), Outbound::default(), Inbound::default());
        Self { io, carries, plan, outbound, inbound, bundles }
    }

    /// Returns the local address. The port of a raw socket has no meaning.
    ///
    /// # Errors
    /// The system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(rustix::net::getsockname(&self.io)?.try_into()?)
    }

    /// Returns whether equal-sized packets are bundled; switched off automatically where the kernel or the device
    /// refuses.
    pub fn bundles(&self) -> bool {
        self.bundles
    }

    /// Switches bundling on or off.
    pub fn set_bundles(&mut self, bundles: bool) {
        self.bundles = bundles;
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}
