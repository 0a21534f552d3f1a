//! Processing of a received packet: the steps of RFC 4340 §8.5.

use timeous_cm::Manager;
use timeous_core::{Duration, Ecn, Instant, RecvMeta};

use super::incoming::{Incoming, ReceivedOptions};
use super::parity::name::ParityName;
use super::round_trip::MAX_REPAIR_ACK_DELAY;
use super::timers::Timer;
use super::transmission::Control;
use super::{CloseReason, Connection, Event, State};
use crate::ack_vector::Arrival;
use crate::ccid3;
use crate::features::{Feature, Role, TAKES_PARITY, TAKES_REPEATS};
use crate::options::{DropCode, Opt, OptionItem};
use crate::packet::{Body, Header, Packet, PacketType};
use crate::reset::{ResetCode, ResetReason};

impl Connection {
    /// Steps 1 to 7: checks the packet's connection, its sequence numbers and its type.
    pub(super) fn receive(&mut self, now: Instant, cm: &mut Manager, datagram: &[u8], meta: RecvMeta) {
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
            // Ignored, apart from a rate-limited Sync (§7.5.4).
            self.log.statistics.sequence_invalid += 1;
            match header.packet_type() {
                PacketType::Sync | PacketType::SyncAck => {}
                PacketType::Reset => self.transmission.answer(now, Control::Sync(self.sequence.gsr())),
                _ => self.transmission.answer(now, Control::Sync(header.seq)),
            }
        } else if self.is_unexpected(&header) {
            self.log.statistics.unexpected += 1;
            self.transmission.answer(now, Control::Sync(header.seq));
        } else {
            self.process(now, cm, &packet, &header, meta);
        }
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
    fn process(&mut self, now: Instant, cm: &mut Manager, packet: &Packet<'_>, header: &Header, meta: RecvMeta) {
        let RecvMeta { ecn, waited } = meta;
        let (gsr, arrival) = (self.sequence.gsr(), self.acknowledgement.record(header.seq, ecn));
        if matches!(arrival, Arrival::Duplicate | Arrival::TooOld) {
            self.log.statistics.duplicates += 1;
            return;
        }
        self.sequence.accept(header.packet_type(), header.seq, header.ack());
        let options = ReceivedOptions::default();
        let mut incoming = Incoming { packet, header, at: now, waited, ecn, gsr, arrival, options };
        if let Err(with) = self.process_options(&mut incoming) {
            return self.reset(with, CloseReason::Misbehaved(with));
        }
        let peer_ccid = self.peer_ccid();
        self.acknowledgement.set_ccid(peer_ccid, gsr, self.config.reports, &mut self.timers);
        self.note_arrival(&mut incoming);
        if incoming.options.slow_receiver {
            self.log.statistics.slow_receiver += 1;
            self.congestion.on_slow_receiver(now, cm, self.round_trip.rtt());
        }
        self.process_acknowledgement(now, cm, &incoming);
        if incoming.options.slow_receiver {
            self.congestion.limit_rate(now, cm, 0, &mut self.timers);
        }
        self.process_type(now, cm, &incoming);
        self.set_ccid(now, cm);
        if self.state().is_alive() {
            // A server without data to send confirms by an Ack, until the client acknowledges a packet of it (§8.1.5).
            if self.lifecycle.must_confirm(header.ack()) {
                self.transmission.queue(Control::Ack);
            }
            self.set_repair();
            if self.path_mtu.is_none() && self.config.largest.is_some() && self.state() == State::Open {
                self.begin_path_mtu(now);
            }
            self.process_data(now, &incoming);
            self.watch_silence(now);
        }
    }

    /// Step 8: the options, and the answers they require (§5.8).
    fn process_options(&mut self, incoming: &mut Incoming<'_>) -> Result<(), ResetReason> {
        let header = incoming.header;
        self.negotiation.features_mut().begin_packet(header.seq, header.ack());
        for item in incoming.packet.options() {
            let item = item.map_err(|error| error.reset())?;
            if let Opt::DataChecksum(sum) = item.opt {
                incoming.options.corrupt |= sum != crc32c::crc32c(incoming.packet.payload);
            }
            self.process_option(&item, incoming)?;
        }
        if let Some(ack) = header.ack().filter(|_| header.packet_type() != PacketType::Sync) {
            self.negotiation.features_mut().on_ack(ack);
        }
        if self.congestion.flow().is_some() {
            self.negotiation.ask_for_vectors();
        }
        self.sequence.set_windows(self.negotiation.features());
        Ok(())
    }

    fn process_option(&mut self, item: &OptionItem<'_>, incoming: &mut Incoming<'_>) -> Result<(), ResetReason> {
        match item.opt {
            Opt::Change { .. } | Opt::Confirm { .. } => {
                self.negotiation.features_mut().on_option(&item.opt, item.mandatory).map_err(|error| error.reset())?;
            }
            // "after the connection has been established … MUST be ignored" (§8.1.4).
            Opt::InitCookie(cookie) => {
                if self.state() == State::Request && matches!(incoming.header.body, Body::Response { .. }) {
                    self.lifecycle.add_cookie(cookie);
                }
            }
            Opt::Timestamp(value) => self.acknowledgement.set_timestamp(Some((value, incoming.arrived_at()))),
            Opt::ElapsedTime(elapsed) => incoming.options.elapsed = elapsed.to_duration(),
            Opt::SentAt(at) => incoming.options.sent_at = Some(at),
            Opt::NdpCount(count) => incoming.options.ndp_count = count,
            // From the receiver of our data, for a CCID that defines such options; "on received DCCP-Data packets MUST
            // be ignored" (RFC 4342 §8).
            Opt::CcidSpecific { kind, data }
                if kind >= ccid3::options::LOSS_EVENT_RATE
                    && self.congestion.rate_sender().is_some()
                    && incoming.header.packet_type() != PacketType::Data =>
            {
                if !incoming.options.feedback.take(kind, data) && item.mandatory {
                    return Err(item.refusal());
                }
            }
            Opt::Repeat(back) if self.features().local(Feature::TakeRepeats) >= TAKES_REPEATS => {
                incoming.options.repeat = Some(back);
            }
            Opt::Fragment if self.features().local(Feature::TakeFragments) == 1 => incoming.options.is_fragment = true,
            Opt::Parity { back, index, of, map } if self.features().local(Feature::TakeRepeats) == TAKES_PARITY => {
                incoming.options.parity = ParityName::read(back, index, of, map);
                incoming.options.corrupt |= incoming.options.parity.is_none();
            }
            Opt::SlowReceiver => incoming.options.slow_receiver = true,
            // Handled with the acknowledgement or the data; we send no Timestamp, so its echo has no use.
            Opt::AckVector { .. } | Opt::DataDropped(_) | Opt::TimestampEcho { .. } | Opt::DataChecksum(_) => {}
            // Unknown here: an error only if marked Mandatory (§5.8.2).
            Opt::CcidSpecific { .. }
            | Opt::Fragment
            | Opt::Repeat(_)
            | Opt::Parity { .. }
            | Opt::Padding
            | Opt::Mandatory => {
                return if item.mandatory { Err(item.refusal()) } else { Ok(()) };
            }
        }
        Ok(())
    }

    /// Records that the peer is alive, and any gap before this packet.
    fn note_arrival(&mut self, incoming: &mut Incoming<'_>) {
        let (seq, statistics) = (incoming.header.seq, &mut self.log.statistics);
        statistics.packets_received += 1;
        statistics.ce_received += u64::from(incoming.ecn == Ecn::Ce);
        let gap = seq.offset_from(incoming.gsr).max(1) as u64 - 1;
        let counts = self.negotiation.features().remote(Feature::SendNdpCount) == 1;
        statistics.data_gaps += u64::from(counts && gap > incoming.options.ndp_count);
        incoming.options.ndp_count *= u64::from(counts);
        self.round_trip.on_packet(incoming.at);
        self.acknowledgement.on_packet(incoming, self.round_trip.rtt(), &mut self.timers);
        // With NDP Count, a single missing packet is known to be data or not (RFC 4341 §6.1.1).
        let was_data = counts && gap == 1 && incoming.options.ndp_count == 0;
        self.congestion.on_peer_packet(incoming, if was_data { seq.prev() } else { incoming.gsr });
    }

    /// Starts retransmission, parity and fragmentation as far as they are negotiated.
    fn set_repair(&mut self) {
        let features = self.negotiation.features();
        if !self.takes_fragments && self.congestion.flow().is_some() && features.remote(Feature::TakeFragments) == 1 {
            self.takes_fragments = true;
            self.log.push(Event::TakesFragments);
        }
        let is_accepted = self.congestion.flow().is_some() && features.remote(Feature::TakeRepeats) >= TAKES_REPEATS;
        if is_accepted && self.retransmission.accept() {
            self.log.push(Event::TakesRepeats);
        }
        self.delivery.set_repair(features.local(Feature::TakeRepeats), self.sequence.gsr(), self.config.mps);
    }

    /// Steps 9 to 15.
    fn process_type(&mut self, now: Instant, cm: &mut Manager, incoming: &Incoming<'_>) {
        let header = incoming.header;
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
                if !incoming.packet.payload.is_empty() {
                    self.delivery.refuse(header, DropCode::ProtocolConstraints, &mut self.log);
                }
                self.negotiation.ask_for_vectors();
                self.negotiation.features_mut().retransmit();
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
            // Step 13: the server asks this client to close and to hold TIMEWAIT.
            Body::CloseReq { .. } if self.state() < State::CloseReq => self.enter_closing(now, State::Closing),
            Body::Close { .. } => self.reset(ResetReason::plain(ResetCode::Closed), self.lifecycle.ended_by()),
            Body::Sync { .. } => {
                self.log.statistics.syncs_received += 1;
                self.transmission.queue(Control::SyncAck(header.seq));
            }
            Body::SyncAck { ack } => self.on_sync_ack(now, ack),
            _ => {}
        }
    }

    /// Step 16.
    fn process_data(&mut self, now: Instant, incoming: &Incoming<'_>) {
        let header = incoming.header;
        match header.packet_type() {
            PacketType::Data | PacketType::DataAck => {}
            PacketType::Response if !incoming.packet.payload.is_empty() => {
                return self.delivery.refuse(header, DropCode::ProtocolConstraints, &mut self.log);
            }
            // "may be included on other packets": corruption of other packets' data is reported as well (§9.3).
            _ if incoming.options.corrupt => return self.delivery.refuse(header, DropCode::Corrupt, &mut self.log),
            _ => return,
        }
        let (ack_ratio, rtt) = (self.features().remote(Feature::AckRatio), self.round_trip.rtt());
        let repairs = self.delivery.takes_repeats();
        if self.acknowledgement.on_data(incoming, ack_ratio, rtt, repairs) && !self.timers.is_set(Timer::AckDelay) {
            let max = if repairs { MAX_REPAIR_ACK_DELAY } else { Duration::MAX };
            self.timers.set(Timer::AckDelay, now + self.config.ack_delay.min(max));
        }
        if let Some(back) = incoming.options.repeat {
            self.acknowledgement.on_repeat(header.seq - u64::from(back));
        }
        self.delivery.deliver(incoming, &self.config, self.negotiation.features(), &mut self.log);
    }
}
