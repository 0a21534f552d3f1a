//! The uplink of a flow: whether its source address is the one that the route has, or another.

use std::net::SocketAddr;

use timeous_cm::FlowSpec;
use timeous_engine::udp::local_for;

/// Notes the source address of a flow in its destination, if it is not the route's own.
pub(super) fn by_uplink(spec: FlowSpec) -> FlowSpec {
    let FlowSpec { destination, local, remote, .. } = spec;
    let [chosen, remote] = [local, remote].map(|addr: Option<SocketAddr>| addr.map(|addr| addr.ip().to_canonical()));
    match (chosen.filter(|chosen| !chosen.is_unspecified()), remote) {
        // Without a route there is no other uplink that it could be told from.
        (Some(chosen), Some(remote))
            if destination.source.is_none() && local_for(remote).is_ok_and(|own| own != chosen) =>
        {
            FlowSpec { destination: destination.with_source(chosen), ..spec }
        }
        _ => spec,
    }
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
