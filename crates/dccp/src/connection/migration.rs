//! Migration to a new peer address: a Sync that validates it, then the switch of the path.

use timeous_cm::{Destination, Manager};
use timeous_core::{Ecn, Instant};

use super::{Connection, State};
use crate::features::Feature;
use crate::packet::{Body, Encapsulation, Header, PacketType};
use crate::seq::Seq;

impl Connection {
    /// Whether the peer may migrate to another address in this state.
    pub(crate) fn may_move(&self) -> bool {
        self.state().is_alive() && self.state() >= State::PartOpen
    }

    /// Whether the packet would be valid if it came from the peer's address. `is_active`: check Syncs as strictly as on
    /// an active connection, rather than accept them from far ahead (RFC 4340 §7.5.3).
    pub(crate) fn would_take(&self, header: &Header, is_active: bool) -> bool {
        let short = !header.extended && self.features().remote(Feature::AllowShortSeqnos) == 0;
        let header = header.widened(self.sequence.gsr(), self.sequence.gss());
        !short && self.sequence.is_valid(header.packet_type(), header.seq, header.ack(), is_active)
    }

    /// Writes a Sync without options for another path, about the packet `ack`. Returns its number and ECN mark.
    pub(crate) fn write_probe(
        &mut self,
        now: Instant,
        encapsulation: Encapsulation,
        ack: Seq,
        packet: &mut Vec<u8>,
    ) -> (Seq, Ecn) {
        let seq = self.sequence.upcoming();
        let own = std::mem::replace(&mut self.config.encapsulation, encapsulation);
        self.transmission.options().reset(0);
        let start = self.write_header(now, Body::Sync { ack }, packet);
        self.complete(now, PacketType::Sync, start, packet);
        self.config.encapsulation = own;
        self.log.statistics.syncs_sent += 1;
        (seq, self.mark_for(PacketType::Sync))
    }

    /// Continues on another path. Another port of the same host is taken for the same path (RFC 9000 §9.4); another
    /// host is an unknown path: the flow joins the flows to that host, and its RTT is measured anew.
    pub(crate) fn move_to(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        destination: Destination,
        encapsulation: Encapsulation,
    ) {
        self.config.encapsulation = encapsulation;
        if destination == self.target.destination {
            return;
        }
        self.target.destination = destination;
        self.round_trip.forget();
        self.forget_path_mtu();
        self.congestion.redirect(now, cm, destination, &self.config);
        self.congestion.steer(now, cm, &mut self.timers);
    }
}
