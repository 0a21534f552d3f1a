//! Common parts of opening a stream: local address, handshake, priorities and times.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use timeous_core::{Duration, Instant, Priority};
use timeous_engine::{CloseReason, Status, Stream, clock};

/// Lowest priority that is retransmitted. Chosen by us: an application's least valuable ADUs (0) are not; a higher
/// value retransmits less.
pub(super) const REPAIRED: Priority = Priority(1);

/// Duration of TIMEWAIT (RFC 4340 §8.3: two maximum segment lifetimes, four minutes). Chosen by us: ports are chosen by
/// the system for each call, and a tool that ends should be gone (docs/design/dccp.md).
pub(super) const TIMEWAIT: Duration = Duration::from_secs(4);

/// Local address of a listener; all addresses by default.
pub(super) fn local(address: Option<IpAddr>, port: u16) -> SocketAddr {
    SocketAddr::new(address.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)), port)
}

/// Waits until the stream is open; an error is the reason for its end, or `None` at the deadline.
pub(super) fn handshake(stream: &mut Stream, deadline: Option<Instant>) -> Result<(), Option<CloseReason>> {
    loop {
        match stream.status() {
            Status::Open => return Ok(()),
            Status::Closed(reason) => return Err(Some(reason)),
            _ => {}
        }
        if deadline.is_some_and(|at| clock::now() >= at) {
            return Err(None);
        }
        stream.sending().wait(deadline);
    }
}
