//! Construction of outgoing packets, in order: control packets, data chosen at this instant, acknowledgements.

use timeous_cm::Manager;
use timeous_core::{AduSource, Copied, Ecn, Instant, PulledAdu, Transmit};

use super::checksum::Checksums;
use super::parity::name::ParityName;
use super::refusal::write_bare;
use super::retransmission;
use super::timers::Timer;
use super::transmission::Control;
use super::{Config, Connection, Event, State};
use crate::features::{Feature, Location, TAKES_PARITY};
use crate::options::{Opt, OptionList};
use crate::packet::{Body, Header, PacketType, begin_encoded, finish};
use crate::seq::Seq;

/// Size of our longest Change or Confirm option, in bytes: Sequence Window, with type, length, feature and six bytes of
/// value (RFC 4340 §6.1, §7.5.2).
const MAX_FEATURE_OPTION: usize = 9;

impl Connection {
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if let Some(control) = self.transmission.next_control() {
            return Some(self.send_control(now, control, packet));
        }
        if !self.state().is_alive() || self.state() < State::PartOpen {
            return None;
        }
        if let Some(transmit) = self.send_data(now, cm, source, packet) {
            return Some(transmit);
        }
        if self.acknowledgement.is_due() || self.must_negotiate(now) {
            return Some(self.send_control(now, Control::Ack, packet));
        }
        self.transmission.end_round();
        None
    }

    fn send_control(&mut self, now: Instant, control: Control, packet: &mut Vec<u8>) -> Transmit {
        let gsr = self.sequence.gsr();
        let service = self.target.service;
        let body = match control {
            Control::Request => Body::Request { service },
            Control::Response => Body::Response { ack: gsr, service },
            Control::Ack => Body::Ack { ack: gsr },
            Control::CloseReq => Body::CloseReq { ack: gsr },
            Control::Close => Body::Close { ack: gsr },
            Control::Sync(ack) => Body::Sync { ack },
            Control::Probe(_) => Body::Sync { ack: gsr },
            Control::SyncAck(ack) => Body::SyncAck { ack },
            Control::Reset(with) => Body::Reset { ack: gsr, code: with.code, data: with.data },
            Control::Refusal(header) => {
                write_bare(&header, self.config.encapsulation, packet);
                return Transmit { ecn: Ecn::NotEct, adu: None };
            }
        };
        let room = OptionList::MAX_BYTES.min(self.config.mps - body.packet_type().header_len(true)) / 4 * 4;
        self.write_options(now, &body, room);
        let start = self.write_header(now, body, packet);
        if let Control::Probe(size) = control {
            self.pad_probe(now, size, packet);
        }
        self.complete(now, body.packet_type(), start, packet);
        self.log.statistics.syncs_sent += u64::from(matches!(body, Body::Sync { .. }));
        Transmit { ecn: self.mark_for(body.packet_type()), adu: None }
    }

    /// Builds a data packet, if the Congestion Manager grants one and the source has an ADU worth sending.
    fn send_data(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let flow = self.congestion.flow().filter(|_| self.may_send_data())?;
        let has_fresh = source.has_queued(now);
        let parity = self.next_parity(now, cm, source, has_fresh);
        if !has_fresh && parity.is_none() {
            if cm.has_grant(flow) {
                self.congestion.notify(now, cm, 0);
            }
            return None;
        }
        if let Some(until) = self.congestion.rate_sender().and_then(|sender| sender.waits_until(now)) {
            self.timers.set(Timer::Gap, until);
            return None;
        }
        self.congestion.set_range(now, cm, source.rate_range(), &mut self.timers);
        // `asked` and `pulled` are used in place: moving them right after they are written stalls on those writes.
        let asked = cm.ask(now, flow);
        debug_assert!(asked.is_ok(), "{:?}", asked.as_ref().err());
        let Ok(Some(path)) = &asked else {
            self.congestion.held_back(now);
            return None;
        };
        let informed;
        let path = if self.takes_repeats() {
            informed = self.protection.informed(*path);
            &informed
        } else {
            path
        };
        let body = match self.plan_data(now) {
            Plan::Data => Body::Data,
            Plan::DataAck => Body::DataAck { ack: self.sequence.gsr() },
            // The grant stays valid for the next call.
            Plan::AckFirst => return Some(self.send_control(now, Control::Ack, packet)),
            Plan::Wait => return None,
        };
        if let Some(place) = parity {
            let sent = self.send_parity(now, cm, body, place, packet);
            return if sent.is_none() && has_fresh { self.send_data(now, cm, source, packet) } else { sent };
        }
        let timestamp = self.acknowledgement.timestamp();
        let reserve = self.retransmission.option_room();
        self.write_options(now, &body, Config::OPTION_ROOM - reserve);
        let start = self.write_header(now, body, packet);
        let room = self.config.mps.saturating_sub(packet.len() + reserve);
        self.transmission.count_pull(now, source, || cm.burst(now, flow));
        let mut pulled = source.pull(now, path, room, packet);
        if let Some(adu) = pulled.as_mut().filter(|adu| adu.copy == Copied::Again || adu.is_fragment)
            && !self.write_marks(now, body, start, adu, packet)
        {
            self.congestion.notify(now, cm, 0);
            packet.clear();
            self.acknowledgement.set_timestamp(timestamp);
            self.log.push(Event::Lost { token: adu.token });
            return None;
        }
        match &mut pulled {
            Some(adu) => {
                // In UDP the DCCP checksum is zero (RFC 6773 §3.3), so the payload is usually not read here.
                let is_first = adu.copy == Copied::First;
                // An ADU with a lost reference may be sent to hold the stream's place, but gets no parity.
                let is_protected = is_first
                    && !adu.is_fragment
                    && self.features().remote(Feature::TakeRepeats) == TAKES_PARITY
                    && self.protection.protects(now, self.config.parity, path, &adu.meta)
                    && source.is_worth_repeating(now, path, &adu.meta);
                let reads_payload = self.checksums().reads_payload();
                if is_protected || reads_payload {
                    adu.gather(source, packet);
                }
                // Size of the DCCP packet: an empty datagram counts, too.
                let bytes = (packet.len() + if adu.apart { adu.len } else { 0 }) as u64;
                if is_protected {
                    let (seq, payload) = (self.sequence.upcoming(), &packet[packet.len() - adu.len..]);
                    let verdicts = self.protection.add(now, path, (seq, bytes), &adu.meta, payload);
                    self.report_verdicts(&verdicts);
                    self.watch_parity(now);
                } else if is_first {
                    self.protection.pass(now, &adu.meta, bytes);
                }
                if reads_payload {
                    self.checksums().seal(body.packet_type(), &mut packet[start..]);
                }
                self.congestion.notify(now, cm, bytes);
                let seq = self.depart(now, body.packet_type(), start, packet);
                self.note_data_left(now, cm, seq, (Some(adu.token), adu.len as u64, bytes));
                self.log.statistics.data_sent += 1;
                self.log.statistics.repeats_sent += u64::from(!is_first);
                self.log.statistics.bytes_sent += adu.len as u64;
                self.watch_sent(now, cm, true);
                Some(Transmit { ecn: self.mark_for(body.packet_type()), adu: pulled })
            }
            None => {
                self.congestion.notify(now, cm, 0);
                packet.clear();
                // The acknowledgement meant for the data leaves alone, once; without one, no packet is sent.
                self.transmission.on_empty_pull();
                let Some(ack) = body.ack() else {
                    self.acknowledgement.set_timestamp(timestamp);
                    return None;
                };
                let start = self.write_header(now, Body::Ack { ack }, packet);
                self.complete(now, PacketType::Ack, start, packet);
                Some(Transmit { ecn: self.mark_for(PacketType::Ack), adu: None })
            }
        }
    }

    /// Selects the block whose parity is to be sent now.
    fn next_parity(&mut self, now: Instant, cm: &Manager, source: &mut dyn AduSource, fresh: bool) -> Option<usize> {
        if self.protection.is_idle() {
            return None;
        }
        let path = self.congestion.path(cm)?;
        let is_rate_based = self.congestion.rate_sender().is_some();
        let (place, verdicts) = self.protection.select(now, path, source, fresh, is_rate_based);
        self.report_verdicts(&verdicts);
        self.watch_parity(now);
        place
    }

    fn watch_parity(&mut self, now: Instant) {
        self.timers.update(Timer::Parity, self.protection.poll_timeout(now, self.congestion.rate_sender().is_some()));
    }

    fn send_parity(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        body: Body,
        place: usize,
        packet: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let (id, parity) = self.protection.take(place, self.sequence.upcoming())?;
        let fitting = parity.and_then(|(name, shard)| Some((name, self.room_beside(name, shard.len())?, shard)));
        let Some((name, room, shard)) = fitting else {
            self.congestion.notify(now, cm, 0);
            let verdicts = self.protection.on_sent(id, None);
            self.report_verdicts(&verdicts);
            return None;
        };
        // If the acknowledgement does not fit beside the parity, it is sent later.
        let body = if self.state() == State::Open && self.acknowledgement_len() > room { Body::Data } else { body };
        self.write_options(now, &body, room);
        let ((option, len), options) = (name.option(), self.transmission.options());
        options.widen(len);
        options.push(&option).expect("there is room for it");
        let start = self.write_header(now, body, packet);
        packet.extend_from_slice(&shard);
        if self.checksums().reads_payload() {
            self.checksums().seal(body.packet_type(), &mut packet[start..]);
        }
        let bytes = packet.len() as u64;
        self.congestion.notify(now, cm, bytes);
        let seq = self.depart(now, body.packet_type(), start, packet);
        self.note_data_left(now, cm, seq, (None, shard.len() as u64, bytes));
        let verdicts = self.protection.on_sent(id, Some(seq));
        self.report_verdicts(&verdicts);
        self.log.statistics.parity_sent += 1;
        self.watch_sent(now, cm, false);
        Some(Transmit { ecn: self.mark_for(body.packet_type()), adu: None })
    }

    /// Room for further options beside the Parity option and its shard. `None`: the maximum packet size has shrunk
    /// since the parity was encoded.
    fn room_beside(&self, name: ParityName, shard: usize) -> Option<usize> {
        let header = Config::HEADER_ROOM - Config::OPTION_ROOM;
        let all = self.config.mps.saturating_sub(header + shard).min(Config::OPTION_ROOM) / 4 * 4;
        all.checked_sub(name.option().1).filter(|&room| room >= self.checksums().option_len())
    }

    /// Marks the packet that starts at `start` as a retransmission, with its data's original number, or as a fragment, or
    /// both. Returns `false` if that number is no longer known or too far back: the packet must not leave.
    fn write_marks(&mut self, now: Instant, body: Body, start: usize, adu: &PulledAdu, packet: &mut Vec<u8>) -> bool {
        let options = self.transmission.options();
        if adu.is_fragment {
            options.widen(PulledAdu::FRAGMENT_MARK);
            if options.push(&Opt::Fragment).is_err() {
                return false;
            }
            self.want_larger_packets(now);
        }
        if adu.copy == Copied::Again {
            let distance = self.retransmission.distance(adu.token, self.sequence.upcoming());
            let Some(back) = distance else { return false };
            let options = self.transmission.options();
            options.widen(retransmission::OPTION_LEN);
            if options.push(&Opt::Repeat(back)).is_err() {
                return false;
            }
        }
        let payload = packet.split_off(packet.len() - adu.len);
        packet.truncate(start);
        self.write_header(now, body, packet);
        packet.extend_from_slice(&payload);
        true
    }

    /// Whether data may flow: in PARTOPEN and OPEN, once the CCID is settled, and with CCID 2 once the peer has agreed
    /// to send Ack Vectors (RFC 4341 §4).
    fn may_send_data(&self) -> bool {
        self.state().is_established()
            && self.negotiation.is_ccid_settled()
            && (self.ccid().is_rate_based() || self.features().remote(Feature::SendAckVector) == 1)
            && self.congestion.is_welcome(&self.timers)
            && !self.sequence.is_full(self.congestion.in_flight().span())
    }

    fn must_negotiate(&mut self, now: Instant) -> bool {
        self.negotiation.must_send(now, self.round_trip.rtt(), &mut self.timers)
    }

    /// Decides whether data travel alone, with an acknowledgement, or after one (RFC 4340 §11.2).
    fn plan_data(&mut self, now: Instant) -> Plan {
        let in_partopen = self.state() == State::PartOpen;
        if in_partopen && self.transmission.found_nothing() {
            return Plan::Wait;
        }
        let (negotiates, rtt) = (self.features().wants_to_send(), self.round_trip.rtt());
        if !in_partopen && !negotiates && !self.acknowledgement.should_ride_along(now, rtt) {
            return Plan::Data;
        }
        let acknowledges = self.acknowledgement.is_due() || self.acknowledgement.is_old_owed(now, rtt);
        let pace = self.acknowledgement.peer_pace(self.sequence.gsr());
        if !in_partopen && !self.sequence.is_ack_timely(pace) {
            return if acknowledges || negotiates && self.must_negotiate(now) { Plan::AckFirst } else { Plan::Data };
        }
        // Feature options ride along if they fit: waiting for a packet of their own takes up to a round trip.
        let more = if negotiates { MAX_FEATURE_OPTION } else { 0 };
        if self.acknowledgement_len() + more + self.retransmission.option_room() <= Config::OPTION_ROOM {
            Plan::DataAck
        } else if negotiates && self.must_negotiate(now) {
            Plan::AckFirst
        } else if in_partopen {
            // "that Init Cookie MUST be included on every packet sent in PARTOPEN" (§8.1.5): data wait for OPEN.
            Plan::Wait
        } else if acknowledges {
            Plan::AckFirst
        } else {
            Plan::Data
        }
    }

    /// Upper bound of the size of an acknowledgement's options.
    fn acknowledgement_len(&self) -> usize {
        // NDP Count has one to six bytes of data (RFC 4340 §7.7).
        let run = self.sequence.ndp_run();
        let count = if run > 0 { 2 + (u64::BITS - run.leading_zeros()).div_ceil(8) as usize } else { 0 };
        let cookies: usize = self.lifecycle.cookies().iter().map(|cookie| cookie.len() + 2).sum();
        let told = self.delivery.options_len() + self.acknowledgement.options_len();
        count + cookies + told + self.checksums().option_len()
    }

    /// Collects the options of the next packet in at most `room` bytes.
    fn write_options(&mut self, now: Instant, body: &Body, room: usize) {
        let packet = body.packet_type();
        let (has_none, sum) = (self.has_nothing_to_add(body), self.checksums().option(packet));
        let options = self.transmission.options();
        options.reset(room);
        if has_none {
            return;
        }
        let (seq, features) = (self.sequence.upcoming(), self.negotiation.features());
        if let Some(sum) = sum {
            let _ = options.push(&sum);
        }
        // An option that does not fit is left to a later packet: none of these has to be in this one.
        if self.sequence.ndp_run() > 0 && features.local(Feature::SendNdpCount) == 1 {
            let _ = options.push(&Opt::NdpCount(self.sequence.ndp_run()));
        }
        let is_partopen = self.lifecycle.state() == State::PartOpen && packet != PacketType::Reset;
        if is_partopen || packet == PacketType::Response {
            for cookie in self.lifecycle.cookies() {
                let _ = options.push(&Opt::InitCookie(cookie));
            }
        }
        self.acknowledgement.write_echo(now, options);
        if let Some(ack) = body.ack()
            && !matches!(packet, PacketType::Sync | PacketType::SyncAck)
        {
            self.delivery.write_options(seq, ack, options);
            self.acknowledgement.write_options(now, (seq, ack), features, options, &mut self.timers);
        }
        self.negotiation.write_options(now + self.round_trip.rtt(), seq, packet, options);
    }

    /// Whether a packet has no options, as most data packets.
    fn has_nothing_to_add(&self, body: &Body) -> bool {
        matches!(body, Body::Data)
            && self.sequence.ndp_run() == 0
            && self.state() != State::PartOpen
            && self.acknowledgement.timestamp().is_none()
            && !self.features().wants_to_send()
            && !self.checksums().sums_data()
    }

    pub(super) fn write_header(&mut self, now: Instant, body: Body, packet: &mut Vec<u8>) -> usize {
        let seq = self.sequence.upcoming();
        let mut header = Header::new(self.target.local_port, self.target.remote_port, seq, body);
        if let (Body::Data | Body::DataAck { .. }, Some(sender)) = (body, self.congestion.rate_sender()) {
            header.ccval = sender.window_counter(now);
        }
        let options = self.transmission.options().as_bytes();
        begin_encoded(&header, options, packet).expect("the option list keeps to a header's limits")
    }

    /// Completes a packet without data.
    pub(super) fn complete(&mut self, now: Instant, sent: PacketType, start: usize, packet: &mut [u8]) {
        let seq = self.depart(now, sent, start, packet);
        // A Request and a Response count as data packets here, though ours carry none (RFC 4340 §7.7).
        self.sequence.count_ndp(sent.carries_data());
        self.congestion.sent_other(now, seq);
    }

    /// Accounts for a sent data packet: the token of an ADU, or none of parity; bytes of data, and in all.
    fn note_data_left(&mut self, now: Instant, cm: &Manager, seq: Seq, sent: (Option<u64>, u64, u64)) {
        let (token, len, bytes) = sent;
        self.sequence.count_ndp(true);
        self.congestion.sent_data(now, seq, token, (len, bytes));
        self.congestion.watch_rate(&mut self.timers);
        self.watch_size(now, cm, bytes);
    }

    /// Finishes any packet of the connection that leaves. Returns its number.
    fn depart(&mut self, now: Instant, sent: PacketType, start: usize, packet: &mut [u8]) -> Seq {
        finish(packet, start, self.config.encapsulation).expect("the checksum covers all, whatever there is");
        let seq = self.sequence.next();
        self.grow_sequence_window();
        self.log.statistics.packets_sent += 1;
        if sent.has_ack() && !matches!(sent, PacketType::Sync | PacketType::SyncAck) {
            self.acknowledgement.on_sent(now, &mut self.timers);
        }
        self.watch_partopen(now);
        seq
    }

    /// Grows the Sequence Window. One Change at a time: only the answer to the newest Change counts (RFC 4340 §6.6.4),
    /// so a new Change in every round trip would never succeed.
    fn grow_sequence_window(&mut self) {
        let features = self.negotiation.features();
        let wider = self.sequence.wider_window(features.local(Feature::SequenceWindow));
        if let Some(window) = wider.filter(|_| features.is_settled(Feature::SequenceWindow, Location::Local)) {
            self.negotiation.announce(Feature::SequenceWindow, window);
        }
    }

    fn checksums(&self) -> Checksums<'_> {
        let covers_all = self.congestion.covers_all();
        Checksums { config: &self.config, features: self.negotiation.features(), covers_all }
    }

    /// ECN codepoint of a packet: ECT(0) if the peer can read marks (RFC 4340 §12.1), except on packets that begin or
    /// reset a connection. ECT(1) is unused: the nonce is historic (RFC 8311 §6).
    pub(super) fn mark_for(&self, packet: PacketType) -> Ecn {
        let begins_or_resets = matches!(packet, PacketType::Request | PacketType::Response | PacketType::Reset);
        let is_capable = self.config.ecn && self.features().remote(Feature::EcnIncapable) == 0;
        if is_capable && !begins_or_resets { Ecn::Ect0 } else { Ecn::NotEct }
    }
}

/// Plan for the next data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Data,
    DataAck,
    /// An acknowledgement leaves first, in a packet of its own.
    AckFirst,
    /// No data now.
    Wait,
}
