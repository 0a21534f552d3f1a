//! A UDP or raw IP socket that knows ECN, sends in batches from where the payloads lie, and receives many at once.

mod abi;
mod bundle;
mod packet;
mod ports;
mod raw;
mod receive;
mod send;
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
pub(crate) use ports::{Reservation, local_for};
use system::{Inbound, Outbound, SocketOption, set_option};

/// What a socket's packets travel in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carries {
    Udp,
    /// IPv4 itself: what comes in begins with its header.
    Ipv4,
    /// IPv6 itself.
    Ipv6,
}

/// A non-blocking UDP socket, or a raw one of DCCP.
#[derive(Debug)]
pub struct Socket {
    io: OwnedFd,
    carries: Carries,
    plan: Plan,
    outbound: Outbound,
    inbound: Inbound,
    /// Whether equal packets for one destination are given to the kernel as one (GSO).
    bundles: bool,
}

impl Socket {
    /// As many packets are worth one call of [`send`](Self::send): more fit into no bundle.
    pub const BATCH: usize = 64;

    /// A socket at `local`.
    ///
    /// # Errors
    /// The system's.
    pub fn bind(local: SocketAddr) -> io::Result<Self> {
        let io = UdpSocket::bind(local)?;
        io.set_nonblocking(true)?;
        let fd = io.as_fd();
        set_option(fd, SocketOption::ReceiveTos, 1)?;
        set_option(fd, SocketOption::Tos, OWN_MARK as i32)?;
        // Nothing of ours is fragmented, whatever the kernel believes of the path: a mark or a loss must be that of
        // one packet (RFC 4340 §14). For IPv4 addresses within IPv6, too.
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
        // Zero asks for nothing, but only a kernel that knows the option takes it.
        let bundles = set_option(fd, SocketOption::Gso, 0).is_ok();
        if !bundles {
            tracing::debug!("the kernel knows no GSO: packets go one by one");
        }
        Ok(Self::new(io.into(), Carries::Udp, bundles))
    }

    fn new(io: OwnedFd, carries: Carries, bundles: bool) -> Self {
        let (plan, outbound, inbound) = (Plan::default(), Outbound::default(), Inbound::default());
        Self { io, carries, plan, outbound, inbound, bundles }
    }

    /// Where it is bound. The port of a raw socket means nothing.
    ///
    /// # Errors
    /// The system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(rustix::net::getsockname(&self.io)?.try_into()?)
    }

    /// Whether equal packets go as one; switched off by itself where the kernel or the device refuses.
    pub fn bundles(&self) -> bool {
        self.bundles
    }

    /// Gives packets to the kernel one by one from now on, or together again.
    pub fn set_bundles(&mut self, bundles: bool) {
        self.bundles = bundles;
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}
