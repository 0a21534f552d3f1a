//! Sockets bound at an address of this host: in the family that it has, and for UDP and TCP at the same port.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use crate::error::EngineError;
use crate::udp::Socket;

/// Port numbers that are tried where the system chooses one for UDP and TCP. Chosen by us: where nine in ten are in use in TCP, all
/// tries fail once in three times; a lower value gives up earlier.
const PORT_TRIES: u32 = 10;

/// Binds a UDP socket at `local`.
pub(crate) fn bind(local: SocketAddr) -> Result<Socket, EngineError> {
    at_or_in_ipv4(local, Socket::bind)
}

/// Binds a UDP socket, and a TCP socket with the same port number. A number that the system chose for UDP may be in use in TCP:
/// it is asked for another one.
pub(crate) fn bind_both(local: SocketAddr) -> Result<(Socket, TcpListener), EngineError> {
    let mut tries = if local.port() == 0 { PORT_TRIES } else { 1 };
    loop {
        let udp = bind(local)?;
        tries -= 1;
        match at_or_in_ipv4(udp.local_addr()?, TcpListener::bind) {
            Err(EngineError::PortInUse(_)) if tries > 0 => {}
            tcp => return Ok((udp, tcp?)),
        }
    }
}

/// Binds a socket at `local`. A host without IPv6 has only IPv4 addresses.
pub(crate) fn at_or_in_ipv4<S>(
    local: SocketAddr,
    bind: impl Fn(SocketAddr) -> io::Result<S>,
) -> Result<S, EngineError> {
    let error = match bind(local) {
        Ok(socket) => return Ok(socket),
        Err(_) if local.ip() == Ipv6Addr::UNSPECIFIED => {
            let local = SocketAddr::from((Ipv4Addr::UNSPECIFIED, local.port()));
            match bind(local) {
                Ok(socket) => return Ok(socket),
                Err(error) => error,
            }
        }
        Err(error) => error,
    };
    Err(refused(local, error))
}

/// Returns why a socket cannot be bound at `local`.
pub(crate) fn refused(local: SocketAddr, error: io::Error) -> EngineError {
    match error.kind() {
        io::ErrorKind::AddrInUse => EngineError::PortInUse(local),
        _ => EngineError::Socket { local, error },
    }
}

/// Returns the unspecified address of the family of `remote`, with port zero.
pub(crate) fn any_local(remote: SocketAddr) -> SocketAddr {
    let any: IpAddr = if remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    (any, 0).into()
}
