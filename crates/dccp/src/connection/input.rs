//! Processing of a received packet: the steps of RFC 4340 §8.5.

use timeous_cm::Manager;
use timeous_core::{Duration, Ecn, Instant};

use super::acknowledgement::Order;
use super::options::{OptionsContext, ReceivedOptions};
use super::round_trip::MAX_REPAIR_ACK_DELAY;
use super::transmission::Control;
use super::{CloseReason, Connection, State};
use crate::ack_vector::Arrival;
use crate::features::{Feature, Role, TAKES_REPEATS};
use crate::options::DropCode;
use crate::packet::{Body, Header, Packet, PacketType};
use crate::reset::{ResetCode, ResetReason};
use crate::seq::Seq;

impl Connection {
    /// Steps 1 to 7: checks the packet's connection, its sequence numbers and its type.
    pub(super) fn receive(&mut self, now: Instant, cm: &mut Manager, datagram: &[u8], ecn: Ecn) {
        let Ok(packet) = Packet::parse(datagram, self.config.encapsulation) else {
            self.log.statistics.malformed += 1;
            return;
        };
        let header = packet.header;
        if !self.state().is_alive() {
            self.refuse(now, &header, ResetReason::plain(ResetCode::NoConnection));
            return;
        }
        if self.state() == State::Listen {
            if !self.process_listen(now, &header) {
                return;
            }
        } else if (header.dest_port, header.source_port) != (self.target.local_port, self.target.remote_port) {
            self.log.statistics.malformed += 1;
            return;
        }
        if self.state() == State::Request && !self.prepare_request_state(now, &header) {
            return;
        }
        if !header.extended && self.features().remote(Feature::AllowShortSeqnos) == 0 {
            self.log.statistics.unexpected += 1;
            return;
        }
        let header = header.widened(self.sequence.gsr(), self.sequence.gss());
        if !self.sequence.is_valid(header.packet_type(), header.seq, header.ack(), self.round_trip.is_active(now)) {
            self.answer_invalid(now, &header);
        } else if self.is_unexpected(&header) {
            self.log.statistics.unexpected += 1;
            self.sync(now, header.seq);
        } else {
            self.process(now, cm, &packet, &header, ecn);
        }
    }

    /// Ignores a sequence-invalid packet, apart from a rate-limited Sync (§7.5.4).
    fn answer_invalid(&mut self, now: Instant, header: &Header) {
        self.log.statistics.sequence_invalid += 1;
        match header.packet_type() {
            PacketType::Sync | PacketType::SyncAck => {}
            PacketType::Reset => self.sync(now, self.sequence.gsr()),
            _ => self.sync(now, header.seq),
        }
    }

    fn sync(&mut self, now: Instant, ack: Seq) {
        self.transmission.answer(now, Control::Sync { ack });
    }

    /// Step 7: whether the packet's type is unexpected.
    fn is_unexpected(&self, header: &Header) -> bool {
        let is_server = self.role() == Role::Server;
        // Packets older than the one that opened the connection are leftovers of the handshake.
        let after_opening = self.state() >= State::Open && self.sequence.is_after_opening(header.seq);
        match header.packet_type() {
            PacketType::CloseReq => is_server,
            PacketType::Response => is_server || after_opening,
            PacketType::Request => !is_server || after_opening,
            PacketType::Data => self.state() == State::Respond,
            _ => false,
        }
    }

    /// Step 8 and on, unless the packet is a duplicate.
    fn process(&mut self, now: Instant, cm: &mut Manager, packet: &Packet<'_>, header: &Header, ecn: Ecn) {
        let order = self.acknowledgement.record(self.sequence.gsr(), header.seq, ecn);
        if matches!(order.arrival, Arrival::Duplicate | Arrival::TooOld) {
            self.log.statistics.duplicates += 1;
            return;
        }
        self.sequence.accept(header.packet_type(), header.seq, header.ack());
        let options = match self.process_options(now, packet, header) {
            Ok(options) => options,
            Err(with) => return self.reset(with, CloseReason::Misbehaved(with)),
        };
        let peer_ccid = self.peer_ccid();
        self.acknowledgement.set_ccid(peer_ccid, order.after, self.config.reports, &mut self.timers);
        self.note_arrival(now, packet, header, ecn, order, &options);
        if options.slow_receiver {
            self.log.statistics.slow_receiver += 1;
            self.congestion.on_slow_receiver(now, cm, self.round_trip.rtt());
        }
        self.process_acknowledgement(now, cm, packet, header, &options);
        if options.slow_receiver {
            self.congestion.limit_rate(now, cm, 0, &mut self.timers);
        }
        self.process_type(now, cm, packet, header);
        self.set_ccid(now, cm);
        if self.state().is_alive() {
            self.confirm_open(header);
            self.set_repair();
            self.process_data(now, packet, header, ecn, (order, &options));
            self.watch_silence(now);
        }
    }

    /// Step 8: the options.
    fn process_options(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        header: &Header,
    ) -> Result<ReceivedOptions, ResetReason> {
        let mut context = OptionsContext {
            lifecycle: &mut self.lifecycle,
            negotiation: &mut self.negotiation,
            acknowledgement: &mut self.acknowledgement,
            is_rate_based: self.congestion.is_rate_based(),
        };
        let options = context.process(now, packet, header)?;
        if self.congestion.flow().is_some() {
            self.negotiation.ask_for_vectors();
        }
        let features = self.negotiation.features();
        let windows = (features.local(Feature::SequenceWindow), features.remote(Feature::SequenceWindow));
        self.sequence.set_windows(windows.0, windows.1);
        Ok(options)
    }

    /// Records that the peer is alive, and any gap before this packet.
    fn note_arrival(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        header: &Header,
        ecn: Ecn,
        order: Order,
        options: &ReceivedOptions,
    ) {
        self.round_trip.on_packet(now);
        self.log.statistics.packets_received += 1;
        self.log.statistics.ce_received += u64::from(ecn == Ecn::Ce);
        let gap = header.seq.offset_from(order.after).max(1) as u64 - 1;
        let counts = self.features().remote(Feature::SendNdpCount) == 1;
        if counts && gap > options.ndp_count {
            self.log.statistics.data_gaps += 1;
        }
        let (rtt, ndp_count) = (self.round_trip.rtt(), counts.then_some(options.ndp_count));
        let arrival = (ecn, order.arrival, ndp_count);
        self.acknowledgement.on_packet(now, (packet, header), arrival, rtt, &mut self.timers);
        // With NDP Count, a single missing packet is known to be data or not (RFC 4341 §6.1.1).
        let was_data = counts && gap == 1 && options.ndp_count == 0;
        let newest = if was_data { header.seq.prev() } else { order.after };
        self.congestion.on_peer_packet(header.seq, newest, header.packet_type().carries_data(), ecn);
    }

    /// Starts retransmission and parity as far as they are negotiated.
    fn set_repair(&mut self) {
        let features = self.negotiation.features();
        if self.congestion.flow().is_some() && features.remote(Feature::TakeRepeats) >= TAKES_REPEATS {
            self.retransmission.accept(&mut self.log.events);
        }
        self.delivery.set_repair(features.local(Feature::TakeRepeats), self.sequence.gsr());
    }

    /// Steps 9 to 15.
    fn process_type(&mut self, now: Instant, cm: &mut Manager, packet: &Packet<'_>, header: &Header) {
        if let Body::Reset { code, data, .. } = header.body {
            return self.process_reset(now, ResetReason { code, data });
        }
        match self.state() {
            State::Request => {
                self.lifecycle.on_answered(now);
                self.enter_partopen(now, cm);
                self.transmission.queue(Control::Ack);
            }
            State::Respond if matches!(header.body, Body::Request { .. }) => {
                if !packet.payload.is_empty() {
                    self.delivery.refuse(header, DropCode::ProtocolConstraints, &mut self.log);
                }
                self.negotiation.ask_for_vectors();
                self.negotiation.retransmit();
                self.lifecycle.on_asked(now);
                self.transmission.queue(Control::Response);
            }
            State::Respond => {
                self.lifecycle.on_answered(now);
                self.enter_open(cm, header.seq);
            }
            State::PartOpen if matches!(header.body, Body::Response { .. }) => self.transmission.queue(Control::Ack),
            State::PartOpen if !matches!(header.body, Body::Sync { .. }) => self.enter_open(cm, header.seq),
            _ => {}
        }
        match header.body {
            Body::CloseReq { .. } if self.state() < State::CloseReq => self.process_close_req(now),
            Body::Close { .. } => self.process_close(),
            Body::Sync { .. } => {
                self.log.statistics.syncs_received += 1;
                self.transmission.queue(Control::SyncAck { ack: header.seq });
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
        (order, options): (Order, &ReceivedOptions),
    ) {
        match header.packet_type() {
            PacketType::Data | PacketType::DataAck => {}
            PacketType::Response if !packet.payload.is_empty() => {
                return self.delivery.refuse(header, DropCode::ProtocolConstraints, &mut self.log);
            }
            // "may be included on other packets": corruption of other packets' data is reported as well (§9.3).
            _ if options.corrupt => return self.delivery.refuse(header, DropCode::Corrupt, &mut self.log),
            _ => return,
        }
        let takes_repeats = self.delivery.takes_repeats();
        let max_delay = if takes_repeats { MAX_REPAIR_ACK_DELAY } else { Duration::MAX };
        let delay = self.config.ack_delay.min(max_delay);
        let ack_ratio = self.features().remote(Feature::AckRatio);
        let pace = (ack_ratio, delay, self.round_trip.rtt());
        self.acknowledgement.on_data(now, (header.seq, order, ecn), pace, &mut self.timers);
        let limits = (&self.config, self.negotiation.features());
        self.delivery.deliver(packet, header, options, limits, &mut self.log);
    }
}
