//! The uplink of a flow: whether its source address is the one that the route has, or another.

use timeous_cm::FlowSpec;
use timeous_engine::udp::second_uplink;

/// Notes the source address of a flow in its destination, if it is not the route's own.
pub(super) fn by_uplink(spec: FlowSpec) -> FlowSpec {
    let FlowSpec { destination, local, remote, .. } = spec;
    let second = local.zip(remote).and_then(|(chosen, remote)| second_uplink(chosen.ip(), remote.ip()));
    match second {
        Some(source) if destination.source.is_none() => {
            FlowSpec { destination: destination.with_source(source), ..spec }
        }
        _ => spec,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

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
