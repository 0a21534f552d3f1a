//! The uplink of a flow: whether its source address is the one that the route has, or another.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use timeous_cm::FlowSpec;

/// Notes the source address of a flow in its destination, if it is not the route's own.
pub(super) fn by_uplink(spec: FlowSpec) -> FlowSpec {
    let FlowSpec { destination, local, remote, .. } = spec;
    let chosen = local.map(|local| local.ip().to_canonical()).filter(|local| !local.is_unspecified());
    match (chosen, remote) {
        (Some(chosen), Some(remote)) if destination.source.is_none() && source_of(remote) != Some(chosen) => {
            FlowSpec { destination: destination.with_source(chosen), ..spec }
        }
        _ => spec,
    }
}

/// Returns the source address that the route to `remote` has; `None` if there is no route. Sends nothing.
fn source_of(remote: SocketAddr) -> Option<IpAddr> {
    let any = if remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).ok()?;
    socket.connect(remote).ok()?;
    Some(socket.local_addr().ok()?.ip().to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(local: &str) -> FlowSpec {
        let remote: SocketAddr = "127.0.0.1:7000".parse().unwrap();
        let local = (!local.is_empty()).then(|| local.parse().unwrap());
        by_uplink(FlowSpec { local, remote: Some(remote), ..FlowSpec::to(remote.ip().into(), 1_200) })
    }

    #[test]
    fn the_routes_own_address_is_the_same_as_none_and_another_is_another_uplink() {
        for own in ["", "0.0.0.0:0", "0.0.0.0:9", "127.0.0.1:9"] {
            assert_eq!(flow(own).destination, flow("").destination, "{own:?}");
        }
        let second = flow("127.0.0.2:9").destination;
        assert_eq!(second, flow("").destination.with_source("127.0.0.2".parse().unwrap()));
        assert_ne!(second, flow("").destination);
    }
}
