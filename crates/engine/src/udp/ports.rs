//! Who has which DCCP port where there is no UDP, of which the kernel knows nothing; and which address is ours.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, socket};

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
