//! What opening takes wherever a stream runs: a local address, an answer, and how long things last.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use timeous_core::{Duration, Instant, Priority};
use timeous_engine::{CloseReason, Status, Stream, clock};

/// The lowest priority that is repaired: what an application marks as worth nothing beside anything else is not.
pub(super) const REPAIRED: Priority = Priority(1);

/// How long a closed connection is remembered. The RFC's four minutes guard a pair of ports that is used again; ours
/// are the system's choice for each call, and a tool that ends should be gone.
pub(super) const TIMEWAIT: Duration = Duration::from_secs(4);

/// Where a listener listens: at all addresses if it has none.
pub(super) fn local(address: Option<IpAddr>, port: u16) -> SocketAddr {
    SocketAddr::new(address.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)), port)
}

/// Waits until the stream is open; else why it ended, or `None` if time ran out.
pub(super) fn handshake(stream: &mut Stream, deadline: Option<Instant>) -> Result<(), Option<CloseReason>> {
    loop {
        match stream.status() {
            Status::Open => return Ok(()),
            Status::Closed(reason) => return Err(Some(reason)),
            Status::Connecting => {}
        }
        if deadline.is_some_and(|at| clock::now() >= at) {
            return Err(None);
        }
        stream.sending().wait(deadline);
    }
}
