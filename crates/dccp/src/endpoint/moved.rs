//! Peers whose address has changed, as behind a NAT that has forgotten them: they are followed once they have answered.
//!
//! RFC 4340 §5.1 and RFC 6773 §3.8 tie a connection to its addresses. A packet from elsewhere that fits into a connection,
//! by its ports and by sequence and acknowledgement numbers within the windows, makes that address a candidate: it gets a
//! Sync, and the connection goes on with the old address. It moves there when a packet comes from there that acknowledges
//! that very Sync. This is the path validation of RFC 9000 §8.2 with the means that DCCP has.
//!
//! What the check is worth: whoever cannot read the path knows neither the numbers of 48 bits that make a candidate nor
//! those of the Sync, so that no forged packet takes or ends a stream. Whoever can read the path, or has read it a moment
//! ago, can take the stream: without encryption nothing tells the two apart. The true peer's next packets then make its
//! address a candidate, and bring the stream back.
//!
//! An address gets at most as many bytes as came from it until it has answered (RFC 9000 §8.1 allows three times that).

use timeous_cm::Manager;
use timeous_core::{Instant, Transmit};

use super::candidate::Candidate;
use super::{ConnectionId, Endpoint, FlowKey, Outgoing, Route};
use crate::connection::Event;
use crate::packet::{Body, Header, PacketType};
use crate::seq::Seq;

/// Connections with the ports of a stray packet that are looked at: client ports are chosen at random out of 16 384.
const MAX_LOOKS: usize = 64;
/// A Sync without options: as many bytes have to come before one is sent.
const PROBE_LEN: usize = PacketType::Sync.header_len(true);

/// What a packet is that no connection has at its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stray {
    /// A connection's, whose peer has answered from there: it has moved.
    Moved(ConnectionId),
    /// Perhaps a connection's, whose peer has to answer first: nothing is said to it.
    Unproved,
    /// Nobody's.
    Unknown,
}

impl Endpoint {
    /// Finds out whether a packet from a new address belongs to a connection, and moves that if its peer has answered.
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
        let near = self.by_ports.range(same_ports).take(MAX_LOOKS);
        for &(remote_port, local_port, id) in near {
            if (remote_port, local_port) != (stray.remote_port, stray.local_port) {
                break;
            }
            let Some(slot) = self.slots.get_mut(&id) else { continue };
            if slot.key.route.local() != stray.route.local() || !slot.connection.may_move() {
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
                // Who has reset the connection does not answer.
                if is_due && len >= PROBE_LEN && !matches!(header.body, Body::Reset { .. }) {
                    self.probe(now, id, stray.route, header.seq);
                }
                return Stray::Unproved;
            }
            // What came before it was lost, perhaps: its number is too far ahead.
            if candidate.is_some() {
                found = Stray::Unproved;
            }
        }
        found
    }

    fn probe(&mut self, now: Instant, id: ConnectionId, route: Route, seq: Seq) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let known = slot.candidate.take().filter(|candidate| candidate.route() == route);
        slot.candidate.insert(known.unwrap_or_else(|| Candidate::new(route))).ask(now, seq);
        self.probes.push_back(id);
    }

    /// The next Sync to a candidate.
    pub(super) fn poll_probe(&mut self, now: Instant, packet: &mut Vec<u8>) -> Option<Outgoing> {
        loop {
            let id = self.probes.pop_front()?;
            let Some(slot) = self.slots.get_mut(&id) else { continue };
            let Some(candidate) = slot.candidate.as_mut().filter(|_| slot.connection.may_move()) else { continue };
            let Some(ack) = candidate.take_due() else { continue };
            let route = candidate.route();
            let encapsulation = route.encapsulation(self.config.connection.encapsulation);
            let (seq, ecn) = slot.connection.write_probe(now, encapsulation, ack, packet);
            debug_assert_eq!(packet.len(), PROBE_LEN);
            candidate.sent(seq);
            let transmit = Transmit { ecn, adu: None };
            return Some(Outgoing { to: route.remote(), from: route.local(), connection: Some(id), transmit });
        }
    }

    fn move_to(&mut self, now: Instant, cm: &mut Manager, id: ConnectionId, key: &FlowKey) {
        let destination = self.destination(key.route);
        let encapsulation = key.route.encapsulation(self.config.connection.encapsulation);
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let from = std::mem::replace(&mut slot.key, *key);
        slot.candidate = None;
        slot.connection.move_to(now, cm, destination, encapsulation);
        self.keys.remove(&from);
        self.keys.insert(*key, id);
        self.statistics.moved += 1;
        self.events.push_back((id, Event::Moved { from: from.route.remote(), to: key.route.remote() }));
    }
}
