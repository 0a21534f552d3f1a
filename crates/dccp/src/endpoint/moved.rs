//! Peers whose address seems to have changed, as behind a NAT that has forgotten them.
//!
//! A connection stays with the addresses that it began with (RFC 4340 §5.1, RFC 6773 §3.8): the packet is refused, and its
//! sender's end is reset. But somebody should know why.

use timeous_core::Instant;

use super::{ConnectionId, Endpoint, FlowKey, Moved};
use crate::packet::Header;

impl Endpoint {
    /// The last packet that fitted into a connection, ports and sequence number, but came from another address: a NAT in
    /// between may have given the peer a new one, and the connection is lost. Such packets are refused as strangers' are.
    pub fn last_moved(&self) -> Option<Moved> {
        self.last_moved
    }

    /// Notes whether the peer of a connection has moved to where this packet of none came from.
    pub(super) fn look_for_moved(&mut self, now: Instant, stray: &FlowKey, header: &Header) {
        if !self.moved_rate.take(now) {
            return;
        }
        let same_ports = |key: &FlowKey| {
            (key.local_port, key.remote_port) == (stray.local_port, stray.remote_port)
                && key.route.local() == stray.route.local()
        };
        let slots = &self.slots;
        let fits = |id: &ConnectionId| slots.get(id).is_some_and(|slot| slot.connection.would_take(header));
        let found = self.keys.iter().find(|(key, id)| same_ports(key) && fits(id));
        if let Some((key, &connection)) = found {
            self.statistics.moved += 1;
            self.last_moved = Some(Moved { connection, known: key.route.remote(), seen: stray.route.remote() });
        }
    }
}
