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

use timeous_cm::Manager;
use timeous_core::{Instant, Transmit};

use super::candidate::Candidate;
use super::{ConnectionId, Endpoint, FlowKey, Outgoing, Route};
use crate::connection::Event;
use crate::packet::{Body, Header, PacketType};
use crate::seq::Seq;

/// Maximum number of connections checked per stray packet; client ports are random out of 16 384. Chosen by us: a
/// higher value costs time under a flood.
const MAX_CHECKED: usize = 64;
/// Size of a Sync without options, in bytes; a shorter packet triggers none, so that no answer is longer than its
/// cause.
const MIN_TRIGGER_LEN: usize = PacketType::Sync.header_len(true);

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
        let mut found = Stray::Unknown;
        let same_ports = (stray.remote_port, stray.local_port, ConnectionId(0))..;
        let near = self.by_ports.range(same_ports).take(MAX_CHECKED);
        for &(remote_port, local_port, id) in near {
            if (remote_port, local_port) != (stray.remote_port, stray.local_port) {
                break;
            }
            let Some(slot) = self.slots.get_mut(id) else { continue };
            if !slot.key.route.is_movable_to(&stray.route) || !slot.connection.may_move() {
                continue;
            }
            let candidate = slot.candidate.as_ref().filter(|candidate| candidate.route() == stray.route);
            let answers = candidate.is_some_and(|candidate| candidate.is_answered_by(header));
            if slot.connection.would_take(header, !answers) {
                if answers {
                    self.move_to(now, cm, id, stray);
                    return Stray::Moved(id);
                }
                let is_due = slot.candidate.as_ref().is_none_or(|candidate| candidate.may_be_asked(now));
                // A peer that has reset the connection would not answer.
                if is_due && len >= MIN_TRIGGER_LEN && !matches!(header.body, Body::Reset { .. }) {
                    self.probe(now, id, stray.route, header.seq);
                }
                return Stray::Unproved;
            }
            // Too far ahead of the window; packets before it may have been lost in the move.
            if candidate.is_some() {
                found = Stray::Unproved;
            }
        }
        found
    }

    fn probe(&mut self, now: Instant, id: ConnectionId, route: Route, seq: Seq) {
        let Some(slot) = self.slots.get_mut(id) else { return };
        let known = slot.candidate.take().filter(|candidate| candidate.route() == route);
        slot.candidate.insert(known.unwrap_or_else(|| Candidate::new(route))).ask(now, seq);
        self.probes.push_back(id);
    }

    /// Writes the next Sync to a candidate.
    pub(super) fn poll_probe(&mut self, now: Instant, packet: &mut Vec<u8>) -> Option<Outgoing> {
        loop {
            let id = self.probes.pop_front()?;
            let Some(slot) = self.slots.get_mut(id) else { continue };
            let Some(candidate) = slot.candidate.as_mut().filter(|_| slot.connection.may_move()) else { continue };
            let Some(ack) = candidate.take_due() else { continue };
            let route = candidate.route();
            let encapsulation = route.encapsulation(self.config.connection.encapsulation);
            let (seq, ecn) = slot.connection.write_probe(now, encapsulation, ack, packet);
            debug_assert_eq!(packet.len(), MIN_TRIGGER_LEN);
            candidate.sent(seq);
            let transmit = Transmit { ecn, adu: None };
            return Some(Outgoing::on(route, Some(id), transmit));
        }
    }

    fn move_to(&mut self, now: Instant, cm: &mut Manager, id: ConnectionId, key: &FlowKey) {
        let destination = self.destination(key.route);
        let encapsulation = key.route.encapsulation(self.config.connection.encapsulation);
        let Some(slot) = self.slots.get_mut(id) else { return };
        let from = std::mem::replace(&mut slot.key, *key);
        slot.candidate = None;
        slot.connection.move_to(now, cm, destination, encapsulation);
        self.keys.remove(&from);
        self.keys.insert(*key, id);
        self.statistics.moved += 1;
        self.events.push_back((id, Event::Moved { from: from.route.remote(), to: key.route.remote() }));
    }
}
