//! Processing of a received packet: the steps of RFC 4340 §8.5.

use timeous_cm::Manager;
use timeous_core::{Ecn, Instant};

use super::control::Control;
use super::options::Heard;
use super::{CloseReason, Connection, State, Timer};
use crate::ack_vector::{Arrival, PacketState};
use crate::ccid2::DataArrival;
use crate::features::{Feature, Role};
use crate::options::DropCode;
use crate::packet::{Body, Header, Packet, PacketType};
use crate::reset::{ResetCode, ResetReason};
use crate::seq::Seq;

/// Position of a packet relative to those received before.
#[derive(Clone, Copy, Debug)]
struct Order {
    /// GSR before this packet.
    after: Seq,
    arrival: Arrival,
}

impl Connection {
    /// Steps 1 to 7: checks the packet's connection, its sequence numbers and its type.
    pub(super) fn receive(&mut self, now: Instant, cm: &mut Manager, datagram: &[u8], ecn: Ecn) {
        let Ok(packet) = Packet::parse(datagram, self.config.encapsulation) else {
            self.statistics.malformed += 1;
            return;
        };
        let header = packet.header;
        if !self.state.is_alive() {
            self.refuse(now, &header, ResetReason::plain(ResetCode::NoConnection));
            return;
        }
        if self.state == State::Listen {
            if !self.process_listen(now, &header) {
                return;
            }
        } else if (header.dest_port, header.source_port) != (self.target.local_port, self.target.remote_port) {
            self.statistics.malformed += 1;
            return;
        }
        if self.state == State::Request && !self.prepare_request_state(now, &header) {
            return;
        }
        if !header.extended && self.features.remote(Feature::AllowShortSeqnos) == 0 {
            self.statistics.unexpected += 1;
            return;
        }
        let header = header.widened(self.sequence.gsr(), self.sequence.gss());
        if !self.sequence.is_valid(header.packet_type(), header.seq, header.ack(), self.is_active(now)) {
            self.answer_invalid(now, &header);
        } else if self.is_unexpected(&header) {
            self.statistics.unexpected += 1;
            self.sync(now, header.seq);
        } else {
            self.process(now, cm, &packet, &header, ecn);
        }
    }

    /// "a connection is considered active if it has received valid packets from the other endpoint within the last
    /// three round-trip times" (§7.5.3).
    fn is_active(&self, now: Instant) -> bool {
        self.heard_at.is_some_and(|at| now - at <= self.rtt * 3)
    }

    /// Ignores a sequence-invalid packet, apart from a rate-limited Sync (§7.5.4).
    fn answer_invalid(&mut self, now: Instant, header: &Header) {
        self.statistics.sequence_invalid += 1;
        match header.packet_type() {
            PacketType::Sync | PacketType::SyncAck => {}
            PacketType::Reset => self.sync(now, self.sequence.gsr()),
            _ => self.sync(now, header.seq),
        }
    }

    fn sync(&mut self, now: Instant, ack: Seq) {
        if self.answers.take(now) {
            self.queue(Control::Sync { ack });
        }
    }

    /// Step 7: whether the packet's type is unexpected.
    fn is_unexpected(&self, header: &Header) -> bool {
        let is_server = self.role == Role::Server;
        // Packets older than the one that opened the connection are leftovers of the handshake.
        let after_opening =
            self.state >= State::Open && self.sequence.opened.is_some_and(|opened| !header.seq.is_before(opened));
        match header.packet_type() {
            PacketType::CloseReq => is_server,
            PacketType::Response => is_server || after_opening,
            PacketType::Request => !is_server || after_opening,
            PacketType::Data => self.state == State::Respond,
            _ => false,
        }
    }

    /// Step 8 and on, unless the packet is a duplicate.
    fn process(&mut self, now: Instant, cm: &mut Manager, packet: &Packet<'_>, header: &Header, ecn: Ecn) {
        let state = if ecn == Ecn::Ce { PacketState::Marked } else { PacketState::Received };
        let order = Order { after: self.sequence.gsr(), arrival: self.vector.record(header.seq, state) };
        if matches!(order.arrival, Arrival::Duplicate | Arrival::TooOld) {
            self.statistics.duplicates += 1;
            return;
        }
        self.sequence.accept(header.packet_type(), header.seq, header.ack());
        let heard = match self.process_options(now, packet, header) {
            Ok(heard) => heard,
            Err(with) => return self.reset(with, CloseReason::Misbehaved(with)),
        };
        self.mind_peer_ccid(order.after);
        self.hear(now, packet, header, ecn, order, &heard);
        if heard.slow_receiver {
            self.heed_slow_receiver(now, cm);
        }
        self.process_acknowledgement(now, cm, packet, header, &heard);
        if heard.slow_receiver {
            self.restrain_rate(now, cm, 0);
        }
        self.process_type(now, cm, packet, header);
        self.mind_ccid(now, cm);
        if self.state.is_alive() {
            self.confirm_open(header);
            self.mind_repeats();
            self.process_data(now, packet, header, ecn, (order, &heard));
            self.watch_silence(now);
        }
    }

    /// Records that the peer is alive, and any gap before this packet.
    fn hear(&mut self, now: Instant, packet: &Packet<'_>, header: &Header, ecn: Ecn, order: Order, heard: &Heard) {
        let is_data = header.packet_type().carries_data();
        self.heard_at = Some(now);
        self.owes_ack = true;
        self.statistics.packets_received += 1;
        self.statistics.ce_received += u64::from(ecn == Ecn::Ce);
        if order.arrival == Arrival::Newest {
            self.receiver.on_newest(now);
            self.peer_pace.on_newest(now, header.seq, self.rtt);
        }
        let gap = header.seq.offset_from(order.after).max(1) as u64 - 1;
        let counts = self.features.remote(Feature::SendNdpCount) == 1;
        if counts && gap > heard.ndp_count {
            self.statistics.data_gaps += 1;
        }
        self.note_arrival(now, packet, header, ecn, counts.then_some(heard.ndp_count));
        // With NDP Count, a single missing packet is known to be data or not (RFC 4341 §6.1.1).
        let was_data = counts && gap == 1 && heard.ndp_count == 0;
        let lost = self.gaps.on_packet(header.seq, if was_data { header.seq.prev() } else { order.after });
        if lost || (ecn == Ecn::Ce && !is_data) {
            self.ack_ratio.on_lost_ack();
        }
    }

    /// Steps 9 to 15.
    fn process_type(&mut self, now: Instant, cm: &mut Manager, packet: &Packet<'_>, header: &Header) {
        if let Body::Reset { code, data, .. } = header.body {
            return self.process_reset(now, ResetReason { code, data });
        }
        match self.state {
            State::Request => {
                self.handshake.answered(now);
                self.enter_partopen(now, cm);
                self.queue(Control::Ack);
            }
            State::Respond if matches!(header.body, Body::Request { .. }) => {
                if !packet.payload.is_empty() {
                    self.refuse_data(header, DropCode::ProtocolConstraints);
                }
                self.ask_for_acks();
                self.features.retransmit();
                self.handshake.asked(now);
                self.queue(Control::Response);
            }
            State::Respond => {
                self.handshake.answered(now);
                self.enter_open(cm, header.seq);
            }
            State::PartOpen if matches!(header.body, Body::Response { .. }) => self.queue(Control::Ack),
            State::PartOpen if !matches!(header.body, Body::Sync { .. }) => self.enter_open(cm, header.seq),
            _ => {}
        }
        match header.body {
            Body::CloseReq { .. } if self.state < State::CloseReq => self.process_close_req(now),
            Body::Close { .. } => self.process_close(),
            Body::Sync { .. } => {
                self.statistics.syncs_received += 1;
                self.queue(Control::SyncAck { ack: header.seq });
            }
            _ => {}
        }
    }

    /// Step 16.
    fn process_data(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        header: &Header,
        ecn: Ecn,
        (order, heard): (Order, &Heard),
    ) {
        let corrupt = heard.corrupt;
        match header.packet_type() {
            PacketType::Data | PacketType::DataAck => {}
            PacketType::Response if !packet.payload.is_empty() => {
                return self.refuse_data(header, DropCode::ProtocolConstraints);
            }
            // "may be included on other packets": corruption of other packets' data is reported as well (§9.3).
            _ if corrupt => return self.refuse_data(header, DropCode::Corrupt),
            _ => return,
        }
        let by_rate = self.rate_receiver.is_some();
        let arrival = DataArrival {
            out_of_order: !by_rate && (order.arrival != Arrival::Newest || header.seq != order.after.next()),
            marked: !by_rate && ecn == Ecn::Ce,
            ack_ratio: if by_rate { u64::MAX } else { self.features.remote(Feature::AckRatio) },
            rtt: self.rtt,
        };
        self.receiver.on_data(now, arrival);
        if !by_rate && !self.receiver.is_due() && !self.timers.is_set(Timer::AckDelay) {
            self.timers.set(Timer::AckDelay, now + self.ack_delay());
        }
        self.deliver(packet, header, heard);
    }
}
