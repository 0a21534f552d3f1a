//! The route to a destination as the kernel knows it: its MTU, of the interface or learnt from routers (RFC 1191, RFC 8201).

use std::ffi::c_int;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use libc::{IP_MTU, IPPROTO_IP, IPPROTO_IPV6, IPV6_MTU, socklen_t};

/// Sizes of the headers before a UDP payload in bytes, without options (RFC 791, RFC 8200, RFC 768).
const IPV4_AND_UDP: u64 = 20 + 8;
const IPV6_AND_UDP: u64 = 40 + 8;

/// Returns the largest UDP payload that passes to `remote` in one piece, as far as the kernel knows; `None` if there is no route. Sends nothing.
pub(crate) fn payload(local: Option<SocketAddr>, remote: SocketAddr) -> Option<u64> {
    let mut from = local.unwrap_or_else(|| {
        let any = if remote.is_ipv4() { [0, 0, 0, 0].into() } else { [0; 16].into() };
        SocketAddr::new(any, 0)
    });
    // The flow's own port is in use.
    from.set_port(0);
    let socket = UdpSocket::bind(from).ok()?;
    socket.connect(remote).ok()?;
    let (level, option, headers) = match remote.ip().to_canonical().is_ipv4() {
        true => (IPPROTO_IP, IP_MTU, IPV4_AND_UDP),
        false => (IPPROTO_IPV6, IPV6_MTU, IPV6_AND_UDP),
    };
    let mut mtu: c_int = 0;
    let mut len = size_of::<c_int>() as socklen_t;
    // SAFETY: an integer is there, and its size.
    let failed =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut mtu).cast(), &raw mut len) } != 0;
    if failed { None } else { u64::try_from(mtu).ok()?.checked_sub(headers) }
}
