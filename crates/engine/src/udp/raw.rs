//! Raw IP sockets for DCCP.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with};

use super::system::{self, SocketOption, set_option};
use super::{OWN_MARK, Socket, SocketEncapsulation};

impl Socket {
    /// Opens a socket for the DCCP packets to the address `local`, or to all addresses of its family. Several of them
    /// on a host receive the same packets.
    ///
    /// # Errors
    /// The system's: [`PermissionDenied`](io::ErrorKind::PermissionDenied) without the right (`CAP_NET_RAW`).
    pub fn bind_raw(local: IpAddr) -> io::Result<Self> {
        let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let io = socket_with(family, SocketType::RAW, flags, Some(ipproto::DCCP))?;
        bind(&io, &SocketAddr::new(local, 0))?;
        let fd = io.as_fd();
        let options: [_; 4] = match local {
            IpAddr::V4(_) => [
                (SocketOption::ReceiveTos, 1),
                (SocketOption::ReceiveInfo, 1),
                (SocketOption::Tos, OWN_MARK as i32),
                (SocketOption::DiscoverMtu, system::PROBE),
            ],
            IpAddr::V6(_) => [
                (SocketOption::ReceiveTrafficClass, 1),
                (SocketOption::ReceiveInfo6, 1),
                (SocketOption::TrafficClass, OWN_MARK as i32),
                (SocketOption::DiscoverMtu6, system::PROBE),
            ],
        };
        for (option, value) in options {
            set_option(fd, option, value)?;
        }
        if local.is_ipv6() {
            set_option(fd, SocketOption::DontFragment6, 1)?;
        }
        system::make_room(fd);
        let carries = if local.is_ipv4() { SocketEncapsulation::Ipv4 } else { SocketEncapsulation::Ipv6 };
        // No GSO: the kernel does not split packets of raw sockets.
        Ok(Self::new(io, carries, false))
    }

    /// Returns whether it is a raw socket.
    pub fn is_raw(&self) -> bool {
        self.carries != SocketEncapsulation::Udp
    }
}
