//! Raw IP sockets of DCCP, and who has which of its ports: the kernel knows nothing of those (RFC 4340 §19.9).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, ipproto, socket, socket_with};

use super::system::{self, SocketOption, set_option};
use super::{Carries, OWN_MARK, Socket};

impl Socket {
    /// A socket for the DCCP packets to the address `local`, or to all addresses of its family. Several of them on a
    /// host see the same packets.
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
        // As for UDP: less is what we get at worst.
        let _less = set_option(fd, SocketOption::ReceiveBuffer, 1 << 20);
        let carries = if local.is_ipv4() { Carries::Ipv4 } else { Carries::Ipv6 };
        // The kernel cuts nothing apart for raw sockets.
        Ok(Self::new(io, carries, false))
    }

    /// Whether it is a raw one.
    pub fn is_raw(&self) -> bool {
        self.carries != Carries::Udp
    }
}

/// A DCCP port that is taken, among all who ask this way in one network namespace, for as long as this is held.
#[derive(Debug)]
pub(crate) struct Reservation(#[expect(dead_code, reason = "it is held")] OwnedFd);

impl Reservation {
    /// Takes `port` at `local`.
    ///
    /// # Errors
    /// [`AddrInUse`](io::ErrorKind::AddrInUse) if somebody has it.
    pub(crate) fn take(local: IpAddr, port: u16) -> io::Result<Self> {
        let name = format!("timeous/dccp/{local}/{port}");
        let held = socket(AddressFamily::UNIX, SocketType::DGRAM, None)?;
        bind(&held, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        Ok(Self(held))
    }
}

/// The address here from which packets to `remote` leave.
///
/// # Errors
/// The system's: there is no way there.
pub(crate) fn local_for(remote: IpAddr) -> io::Result<IpAddr> {
    let any: SocketAddr = match remote {
        IpAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
        IpAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    // Nothing is sent: the kernel only looks up the route. Any port but zero will do.
    let probe = std::net::UdpSocket::bind(any)?;
    probe.connect((remote, 9))?;
    Ok(probe.local_addr()?.ip())
}
