//! Limits per user, and the current usage.

use std::collections::{BTreeMap, BTreeSet};

use timeous_cm::User;
use timeous_core::Instant;
use timeous_ipc::Geometry;
use timeous_ipc::messages::{Failure, Resource};

use crate::log_limit::LogLimit;

/// Limits of a daemon. Those of a user hold for all clients of that user together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients in total.
    pub all_clients: u32,
    /// Clients per user.
    pub clients: u32,
    /// Open flows per user.
    pub flows: u32,
    /// Streams and listening ports per user.
    pub streams: u32,
    /// Packet zones per user, apart from those of the rings.
    pub zones: u32,
    /// Bytes of packet rings, packet zones and credentials per user.
    pub ring_bytes: u64,
    /// Slots per packet ring.
    pub slots: u32,
    /// Sizes of a client's queues, and its maximum number of open flows.
    pub geometry: Geometry,
}

impl Default for Limits {
    /// Returns 1024 clients, 64 per user; per user 4096 flows, 64 streams, 64 zones, and 256 MiB of zones and rings of at
    /// most 4096 slots.
    fn default() -> Self {
        Self {
            all_clients: 1_024,
            clients: 64,
            flows: 4_096,
            streams: 64,
            zones: 64,
            ring_bytes: 256 << 20,
            slots: 4_096,
            geometry: Geometry { flows: 1_024, ..Geometry::default() },
        }
    }
}

/// Usage of all users.
#[derive(Debug)]
pub(crate) struct Users {
    limits: Limits,
    /// Users whose feedback is believed as the host's own.
    trusted: BTreeSet<u32>,
    clients: u32,
    of: BTreeMap<u32, Usage>,
    log: LogLimit,
}

/// Usage, or request, of one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Usage {
    pub(crate) clients: u32,
    pub(crate) flows: u32,
    pub(crate) streams: u32,
    pub(crate) zones: u32,
    pub(crate) ring_bytes: u64,
}

impl Users {
    pub(crate) fn new(limits: Limits, trusted: BTreeSet<u32>) -> Self {
        Self { limits, trusted, clients: 0, of: BTreeMap::new(), log: LogLimit::default() }
    }

    /// Returns the trust domain of a user's flows: the user, or the host for one who shares with it.
    pub(crate) fn domain(&self, uid: u32) -> Option<User> {
        (!self.trusted.contains(&uid)).then_some(User(uid))
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns whether a line about a user may be logged now, as [`LogLimit::take`].
    pub(crate) fn may_log(&mut self, now: Instant, uid: u32) -> Option<u64> {
        self.log.take(now, uid)
    }

    /// Adds a client; `false` if a limit is reached.
    pub(crate) fn take_client(&mut self, uid: u32) -> bool {
        let usage = self.of.entry(uid).or_default();
        let fits = usage.clients < self.limits.clients && self.clients < self.limits.all_clients;
        if fits {
            usage.clients += 1;
            self.clients += 1;
        } else {
            self.tidy(uid);
        }
        fits
    }

    /// Adds a flow.
    pub(crate) fn take_flow(&mut self, uid: u32) -> Result<(), Failure> {
        let limit = self.limits.flows;
        let usage = self.of.entry(uid).or_default();
        if usage.flows >= limit {
            return Err(Failure::OverLimit { resource: Resource::Flows, limit: limit.into() });
        }
        usage.flows += 1;
        Ok(())
    }

    /// Adds a stream or a listening port, with `bytes` of packet ring.
    pub(crate) fn take_stream(&mut self, uid: u32, bytes: u64) -> Result<(), Failure> {
        let Limits { streams, ring_bytes, .. } = self.limits;
        let usage = self.of.entry(uid).or_default();
        if usage.streams >= streams {
            return Err(Failure::OverLimit { resource: Resource::Streams, limit: streams.into() });
        }
        if usage.ring_bytes + bytes > ring_bytes {
            return Err(Failure::OverLimit { resource: Resource::RingBytes, limit: ring_bytes });
        }
        usage.streams += 1;
        usage.ring_bytes += bytes;
        Ok(())
    }

    /// Adds a packet zone of `bytes`.
    pub(crate) fn take_zone(&mut self, uid: u32, bytes: u64) -> Result<(), Failure> {
        let Limits { zones, ring_bytes, .. } = self.limits;
        let usage = self.of.entry(uid).or_default();
        if usage.zones >= zones {
            return Err(Failure::OverLimit { resource: Resource::Zones, limit: zones.into() });
        }
        if usage.ring_bytes + bytes > ring_bytes {
            return Err(Failure::OverLimit { resource: Resource::RingBytes, limit: ring_bytes });
        }
        usage.zones += 1;
        usage.ring_bytes += bytes;
        Ok(())
    }

    /// Changes the bytes of a credential that no stream has taken yet.
    pub(crate) fn hold_credential(&mut self, uid: u32, before: u64, after: u64) -> Result<(), Failure> {
        let limit = self.limits.ring_bytes;
        let usage = self.of.entry(uid).or_default();
        let others = usage.ring_bytes - before;
        let fits = others + after <= limit;
        usage.ring_bytes = if fits { others + after } else { others };
        if fits { Ok(()) } else { Err(Failure::OverLimit { resource: Resource::RingBytes, limit }) }
    }

    /// Releases a part of a user's usage.
    pub(crate) fn give_back(&mut self, uid: u32, what: Usage) {
        let Some(usage) = self.of.get_mut(&uid) else { return };
        usage.clients -= what.clients;
        usage.flows -= what.flows;
        usage.streams -= what.streams;
        usage.zones -= what.zones;
        usage.ring_bytes -= what.ring_bytes;
        self.clients -= what.clients;
        self.tidy(uid);
    }

    /// Removes a user without usage.
    fn tidy(&mut self, uid: u32) {
        if self.of.get(&uid) == Some(&Usage::default()) {
            self.of.remove(&uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_gets_so_much_and_another_is_not_touched() {
        let limits =
            Limits { all_clients: 3, clients: 2, flows: 1, streams: 1, zones: 1, ring_bytes: 100, ..Limits::default() };
        let mut users = Users::new(limits, BTreeSet::new());
        assert!(users.take_client(1) && users.take_client(1) && !users.take_client(1));
        assert!(users.take_client(2));
        assert!(!users.take_client(3), "all together");
        users.take_flow(1).unwrap();
        assert!(matches!(users.take_flow(1), Err(Failure::OverLimit { resource: Resource::Flows, limit: 1 })));
        users.take_flow(2).unwrap();
        assert!(matches!(users.take_stream(2, 101), Err(Failure::OverLimit { resource: Resource::RingBytes, .. })));
        users.take_stream(2, 100).unwrap();
        assert!(matches!(users.take_stream(2, 0), Err(Failure::OverLimit { resource: Resource::Streams, .. })));
        assert!(matches!(users.take_zone(2, 1), Err(Failure::OverLimit { resource: Resource::RingBytes, .. })));
        users.hold_credential(1, 0, 60).unwrap();
        assert!(matches!(users.take_zone(1, 41), Err(Failure::OverLimit { resource: Resource::RingBytes, .. })));
        assert!(matches!(users.hold_credential(1, 60, 101), Err(Failure::OverLimit { .. })), "and it is forgotten");
        users.take_zone(1, 100).unwrap();
        assert!(matches!(users.take_zone(1, 0), Err(Failure::OverLimit { resource: Resource::Zones, limit: 1 })));
        users.give_back(1, Usage { zones: 1, ring_bytes: 100, ..Usage::default() });
        users.give_back(1, Usage { clients: 2, flows: 1, ..Usage::default() });
        users.give_back(2, Usage { clients: 1, flows: 1, streams: 1, ring_bytes: 100, ..Usage::default() });
        assert!(users.of.is_empty() && users.clients == 0, "nothing is left of who has nothing");
    }
}
