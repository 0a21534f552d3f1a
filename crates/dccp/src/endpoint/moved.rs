//! Migration of peers to a new address, such as after a NAT rebinding: followed once the new address is verified.
//!
//! RFC 4340 §5.1 and RFC 6773 §3.8 tie a connection to its addresses. A packet from another address that matches a
//! connection by ports and sequence numbers makes that address a candidate, which gets a Sync. The connection moves
//! when a packet from there acknowledges that Sync: the path validation of RFC 9000 §8.2 by DCCP's own means.
//!
//! Security: an attacker off the path knows neither the 48-bit numbers that make a candidate nor that of the Sync, so
//! forged packets cannot take or end a stream. An attacker on the path can take it: without encryption the two cannot
//! be told apart. The true peer's next packets then bring the stream back.
//!
//! Amplification: until it is verified, an address gets at most as many bytes as came from it (RFC 9000 §8.1 allows
//! three times that).

use std::net::SocketAddr;

use timeous_cm::Manager;
use timeous_core::Instant;
use timeous_transport::{ConnectionId, Event};

use super::Endpoint;
use super::candidate::{Candidate, SYNC_LEN};
use super::route::FlowKey;
use crate::packet::{Body, Header};

/// Maximum number of connections checked per stray packet; client ports are random out of 16 384. Chosen by us: a
/// higher value costs time under a flood.
const MAX_CHECKED: usize = 64;

/// Classification of a packet that matches no connection by address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stray {
    /// Belongs to a connection whose peer has verified this address: it has moved.
    Moved(ConnectionId),
    /// May belong to a connection whose peer has to verify the address first: no answer.
    Unproved,
    /// Belongs to no connection.
    Unknown,
}

impl Endpoint {
    /// Looks for the connection of a packet from a new address, and moves it if the address is verified.
    pub(super) fn follow(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        stray: &FlowKey,
        header: &Header,
        len: usize,
    ) -> Stray {
        let (id, answers) = match self.nearest(stray, header) {
            Ok(found) => found,
            Err(none) => return none,
        };
        if answers {
            self.move_to(now, cm, id, stray);
            return Stray::Moved(id);
        }
        // A peer that has reset the connection would not answer.
        if len >= SYNC_LEN
            && !matches!(header.body, Body::Reset { .. })
            && let Some(slot) = self.table.get_mut(id)
            && slot.data.as_ref().is_none_or(|candidate| candidate.may_be_asked(now))
        {
            let known = slot.data.take().filter(|candidate| candidate.route() == stray.route);
            slot.data.insert(known.unwrap_or_else(|| Candidate::new(stray.route))).ask(now, header.seq);
            self.protocol.probes.push_back(id);
        }
        Stray::Unproved
    }

    /// Returns the connection with the packet's ports that would take its sequence number, and whether the packet answers a Sync to its
    /// address.
    fn nearest(&self, stray: &FlowKey, header: &Header) -> Result<(ConnectionId, bool), Stray> {
        let mut none = Stray::Unknown;
        // Keys are in the order of their ports, and this address is the first of all.
        let first = FlowKey { route: SocketAddr::from(([0; 4], 0)).into(), ..*stray };
        for (key, id) in self.table.range(first..).take(MAX_CHECKED) {
            if (key.remote_port, key.local_port) != (stray.remote_port, stray.local_port) {
                break;
            }
            let Some(slot) = self.table.get(id) else { continue };
            if slot.key.route.end() != stray.route.end() || !slot.connection.may_move() {
                continue;
            }
            let candidate = slot.data.as_ref().filter(|candidate| candidate.route() == stray.route);
            let answers = candidate.is_some_and(|candidate| candidate.is_answered_by(header));
            if slot.connection.would_take(header, !answers) {
                return Ok((id, answers));
            }
            // Too far ahead of the window; packets before it may have been lost in the move.
            if candidate.is_some() {
                none = Stray::Unproved;
            }
        }
        Err(none)
    }

    fn move_to(&mut self, now: Instant, cm: &mut Manager, id: ConnectionId, key: &FlowKey) {
        let table = &mut self.table;
        let destination = table.config.destination(key.route.remote().ip());
        let encapsulation = key.route.encapsulation(table.config.connection.encapsulation);
        let Some(slot) = table.get_mut(id) else { return };
        slot.data = None;
        slot.connection.move_to(now, cm, destination, encapsulation);
        let Some(from) = table.set_key(id, *key) else { return };
        table.statistics.moved += 1;
        table.report(id, Event::Moved { from: from.route.remote(), to: key.route.remote() });
    }
}
