//! Encryption below an agent's connections: sealed datagrams, under keys from a secret that both ends were given.

use std::net::{IpAddr, SocketAddr};

use timeous_core::Instant;
use timeous_dccp::Route;
use timeous_seal::{AssociationId, Endpoint, EndpointConfig, Received, SEALED_HEADER_LEN, Secret, Secrets};

/// Associations of an agent, one with each address.
pub(super) struct Sealed {
    secret: Secret,
    endpoint: Endpoint,
    /// Opened packet.
    packet: Vec<u8>,
}

impl Sealed {
    pub(super) fn new(secret: Secret) -> Self {
        // No identifier or token is made: associations are injected.
        Self { secret, endpoint: Endpoint::new(EndpointConfig::default(), &[0; 32]), packet: Vec::new() }
    }

    /// Returns the route between two addresses. Their association begins at the first call.
    pub(super) fn route(&mut self, now: Instant, local: SocketAddr, remote: SocketAddr) -> Route {
        let (own, peer) = (identifier(remote), identifier(local));
        if !self.endpoint.is_agreed(AssociationId::new(own)) {
            let secrets = Secrets::between(&self.secret, local, remote);
            self.endpoint.inject(now, remote, &secrets, own, peer);
        }
        Route::sealed(remote, own)
    }

    /// Opens a datagram; returns the route and the packet if it is authentic.
    pub(super) fn open(
        &mut self,
        now: Instant,
        local: SocketAddr,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Option<(Route, &[u8])> {
        self.route(now, local, from);
        self.packet.clear();
        match self.endpoint.handle_datagram(now, from, datagram, &mut self.packet) {
            Received::Packet(id) => Some((Route::sealed(from, id.value()), &self.packet)),
            Received::Nothing | Received::Foreign => None,
        }
    }

    /// Returns the sealed datagram of a packet.
    pub(super) fn seal(&mut self, association: u32, packet: &[u8]) -> Vec<u8> {
        let mut datagram = vec![0; SEALED_HEADER_LEN];
        datagram.extend_from_slice(packet);
        let is_sealed = self.endpoint.seal(AssociationId::new(association), &mut datagram);
        assert!(is_sealed, "an injected association keeps its keys");
        datagram
    }
}

/// Returns the identifier of the association with an address: the end of the address, and the port.
fn identifier(address: SocketAddr) -> u32 {
    let [high, low] = match address.ip() {
        IpAddr::V4(ip) => [ip.octets()[2], ip.octets()[3]],
        IpAddr::V6(ip) => [ip.octets()[14], ip.octets()[15]],
    };
    u32::from_be_bytes([high, low, 0, 0]) | u32::from(address.port())
}
