//! Reservation of DCCP ports without UDP, which the kernel does not track, and lookup of the local address.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, socket};

/// A reserved DCCP port, exclusive among all processes that use this scheme in one network namespace, while it is held.
#[derive(Debug)]
pub(crate) struct Reservation(#[expect(dead_code, reason = "it is held")] OwnedFd);

impl Reservation {
    /// Reserves `port` at `local`.
    ///
    /// # Errors
    /// [`AddrInUse`](io::ErrorKind::AddrInUse) if it is reserved already.
    pub(crate) fn take(local: IpAddr, port: u16) -> io::Result<Self> {
        let name = format!("timeous/dccp/{local}/{port}");
        let held = socket(AddressFamily::UNIX, SocketType::DGRAM, None)?;
        bind(&held, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        Ok(Self(held))
    }
}

/// Returns the source address `chosen` for packets to `remote` if it is not the route's own, but that of another uplink. Without a
/// route there is no other that it could be told from.
pub fn second_uplink(chosen: IpAddr, remote: IpAddr) -> Option<IpAddr> {
    let (chosen, remote) = (chosen.to_canonical(), remote.to_canonical());
    let is_second = !chosen.is_unspecified() && local_for(remote).is_ok_and(|own| own != chosen);
    is_second.then_some(chosen)
}

/// Returns the local address from which packets to `remote` are sent.
///
/// # Errors
/// The system's: there is no route.
pub fn local_for(remote: IpAddr) -> io::Result<IpAddr> {
    let any: SocketAddr = match remote {
        IpAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
        IpAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    // No packet is sent: the kernel only looks up the route. Any port but zero will do.
    let probe = std::net::UdpSocket::bind(any)?;
    probe.connect((remote, 9))?;
    Ok(probe.local_addr()?.ip())
}
