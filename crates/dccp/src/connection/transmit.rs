//! Construction of outgoing packets, in order: control packets, data chosen at this instant, acknowledgements.

use timeous_cm::Manager;
use timeous_core::{AduSource, Copied, Ecn, Instant, PulledAdu, Transmit};

use super::Timer;
use super::control::Control;
use super::refusal::write_bare;
use super::seal::DATA_CHECKSUM_LEN;
use super::{Config, Connection, Event, State, told};
use crate::features::{Feature, Location};
use crate::options::{Opt, OptionList, Ticks};
use crate::packet::{Body, Header, PacketType, begin_encoded, finish};
use crate::seq::Seq;

/// Maximum number of queued control packets; a peer that provokes more gets no answer to them. Chosen by us: a higher
/// value lets a peer provoke more packets.
const MAX_CONTROL: usize = 16;
/// Size of our longest Change or Confirm option, in bytes: Sequence Window, with type, length, feature and six bytes of
/// value (RFC 4340 §6.1, §7.5.2).
const MAX_FEATURE_OPTION: usize = 9;
/// Maximum number of pulls announced to the source at once. Chosen by us: a higher value prepares more packets that may
/// not leave.
const MAX_EXPECTED: u32 = 16;

impl Connection {
    /// Queues a control packet, unless an equal one waits already.
    pub(super) fn queue(&mut self, control: Control) {
        if self.control.len() < MAX_CONTROL && !self.control.contains(&control) {
            self.control.push_back(control);
        }
    }

    pub(super) fn transmit(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if let Some(control) = self.control.pop_front() {
            return Some(self.send_control(now, control, packet));
        }
        if !self.state.is_alive() || self.state < State::PartOpen {
            return None;
        }
        if let Some(transmit) = self.send_data(now, cm, source, packet) {
            return Some(transmit);
        }
        if self.owes_acknowledgement() || self.must_negotiate(now) {
            return Some(self.send_control(now, Control::Ack, packet));
        }
        self.found_nothing = false;
        self.expected = 0;
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
            Control::Sync { ack } => Body::Sync { ack },
            Control::SyncAck { ack } => Body::SyncAck { ack },
            Control::Reset { with } => Body::Reset { ack: gsr, code: with.code, data: with.data },
            Control::Refusal(header) => {
                write_bare(&header, self.config.encapsulation, packet);
                return Transmit { ecn: Ecn::NotEct, adu: None };
            }
        };
        let room = OptionList::MAX_BYTES.min(self.config.mps - body.packet_type().header_len(true)) / 4 * 4;
        self.write_options(now, &body, room);
        let start = self.write_header(now, body, packet);
        self.complete(now, body.packet_type(), start, packet);
        self.statistics.syncs_sent += u64::from(matches!(control, Control::Sync { .. }));
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
        let flow = self.flow.filter(|_| self.may_send_data())?;
        let has_fresh = source.has_queued(now);
        let parity = self.next_parity(now, cm, source, has_fresh);
        if !has_fresh && parity.is_none() {
            if cm.has_grant(flow) {
                told(cm.notify(now, flow, 0));
            }
            return None;
        }
        if let Some(until) = self.rate_sender.as_ref().and_then(|sender| sender.waits_until(now)) {
            self.timers.set(Timer::Gap, until);
            return None;
        }
        // `asked` and `pulled` are used in place: moving them right after they are written stalls on those writes.
        let asked = cm.ask(now, flow);
        debug_assert!(asked.is_ok(), "{:?}", asked.as_ref().err());
        let Ok(Some(path)) = &asked else {
            if let Some(sender) = &mut self.rate_sender {
                sender.held_back(now);
            }
            return None;
        };
        let informed;
        let path = if self.takes_repeats() {
            informed = self.informed(*path);
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
            let sent = self.send_parity(now, cm, (flow, body), place, packet);
            return if sent.is_none() && has_fresh { self.send_data(now, cm, source, packet) } else { sent };
        }
        let timestamp = self.received.timestamp;
        let reserve = self.repeat_room();
        self.write_options(now, &body, Config::OPTION_ROOM - reserve);
        let start = self.write_header(now, body, packet);
        let room = self.config.mps.saturating_sub(packet.len() + reserve);
        // Pulls announced at an earlier instant and not made are void.
        if self.expected == 0 || self.expected_at != now {
            self.expected = cm.burst(now, flow).min(MAX_EXPECTED);
            self.expected_at = now;
            source.will_pull(self.expected);
        }
        self.expected = self.expected.saturating_sub(1);
        let mut pulled = source.pull(now, path, room, packet);
        if let Some(adu) = pulled.as_mut().filter(|adu| adu.copy == Copied::Again)
            && !self.name_repeat(now, body, adu.token, (start, adu.len), packet)
        {
            told(cm.notify(now, flow, 0));
            packet.clear();
            self.received.timestamp = timestamp;
            self.events.push_back(Event::Lost { token: adu.token });
            return None;
        }
        match &mut pulled {
            Some(adu) => {
                // In UDP the DCCP checksum is zero (RFC 6773 §3.3), so the payload is usually not read here.
                let is_first = adu.copy == Copied::First;
                // An ADU with a lost reference may be sent to hold the stream's place, but gets no parity.
                let is_protected =
                    is_first && self.protects(now, path, &adu.meta) && source.is_worth_repeating(now, path, &adu.meta);
                if is_protected || self.reads_payload() {
                    adu.gather(source, packet);
                }
                if is_first {
                    self.protect(now, path, adu, packet, is_protected);
                }
                if self.reads_payload() {
                    self.seal(body.packet_type(), start, packet);
                }
                // Size of the DCCP packet: an empty datagram counts, too.
                let bytes = (packet.len() + if adu.apart { adu.len } else { 0 }) as u64;
                told(cm.notify(now, flow, bytes));
                self.complete_data(now, body.packet_type(), start, adu, bytes, packet);
                self.watch_for_feedback(now, cm);
                self.watch_sent(now);
                Some(Transmit { ecn: self.mark_for(body.packet_type()), adu: pulled })
            }
            None => {
                told(cm.notify(now, flow, 0));
                packet.clear();
                // The acknowledgement meant for the data leaves alone, once; without one, no packet is sent.
                self.found_nothing = true;
                let Some(ack) = body.ack() else {
                    self.received.timestamp = timestamp;
                    return None;
                };
                let start = self.write_header(now, Body::Ack { ack }, packet);
                self.complete(now, PacketType::Ack, start, packet);
                Some(Transmit { ecn: self.mark_for(PacketType::Ack), adu: None })
            }
        }
    }

    /// Whether data may flow: in PARTOPEN and OPEN, once the CCID is settled, and with CCID 2 once the peer has agreed
    /// to send Ack Vectors (RFC 4341 §4).
    fn may_send_data(&self) -> bool {
        self.state.is_established()
            && self.features.is_settled(Feature::Ccid, Location::Local)
            && (self.ccid().is_rate_based() || self.features.remote(Feature::SendAckVector) == 1)
            && self.is_welcome()
            && !self.is_sequence_window_full()
    }

    /// Decides whether data travel alone, with an acknowledgement, or after one (RFC 4340 §11.2).
    fn plan_data(&mut self, now: Instant) -> Plan {
        let in_partopen = self.state == State::PartOpen;
        if in_partopen && self.found_nothing {
            return Plan::Wait;
        }
        let negotiates = self.features.wants_to_send();
        if !in_partopen && !negotiates && !self.should_piggyback(now) {
            return Plan::Data;
        }
        let acknowledges = self.owes_acknowledgement() || self.owes_old_ack(now);
        if !in_partopen && !self.is_ack_timely() {
            return if acknowledges || negotiates && self.must_negotiate(now) { Plan::AckFirst } else { Plan::Data };
        }
        // Feature options ride along if they fit: waiting for a packet of their own takes up to a round trip.
        let more = if negotiates { MAX_FEATURE_OPTION } else { 0 };
        if self.acknowledgement_len() + more + self.repeat_room() <= Config::OPTION_ROOM {
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
    pub(super) fn acknowledgement_len(&self) -> usize {
        // NDP Count has one to six bytes of data (RFC 4340 §7.7).
        let count =
            if self.ndp_run > 0 { 2 + (u64::BITS - self.ndp_run.leading_zeros()).div_ceil(8) as usize } else { 0 };
        // Timestamp Echo (10), Elapsed Time (6).
        let small = usize::from(self.received.timestamp.is_some()) * 10 + 6 + count;
        let cookies: usize = self.received.cookies.iter().map(|cookie| cookie.len() + 2).sum();
        let feedback = self.rate_receiver.as_ref().filter(|receiver| receiver.is_due());
        let feedback = feedback.map_or(0, |receiver| receiver.options_len());
        let sum = if self.sums_data() { DATA_CHECKSUM_LEN } else { 0 };
        let told = usize::from(self.reception.is_slow) + self.reception.drops.option_len();
        small + sum + told + cookies + feedback + self.vector.vector_len() + 2
    }

    /// Collects the options of the next packet in at most `room` bytes.
    pub(super) fn write_options(&mut self, now: Instant, body: &Body, room: usize) {
        if self.has_nothing_to_add(body) {
            self.options.reset(room);
            return;
        }
        let packet = body.packet_type();
        let seq = self.sequence.upcoming();
        let mut options = std::mem::take(&mut self.options);
        options.reset(room);
        if let Some(sum) = self.data_checksum(packet) {
            let _ = options.push(&sum);
        }
        // An option that does not fit is left to a later packet: none of these has to be in this one.
        if self.ndp_run > 0 && self.features.local(Feature::SendNdpCount) == 1 {
            let _ = options.push(&Opt::NdpCount(self.ndp_run));
        }
        if self.state == State::PartOpen && packet != PacketType::Reset {
            for cookie in &self.received.cookies {
                let _ = options.push(&Opt::InitCookie(cookie));
            }
        }
        if let Some((echo, at)) = self.received.timestamp
            && options.push(&Opt::TimestampEcho { echo, elapsed: Ticks::elapsed(now - at) }).is_ok()
        {
            self.received.timestamp = None;
        }
        if let Some(ack) = body.ack()
            && !matches!(packet, PacketType::Sync | PacketType::SyncAck)
        {
            self.write_acknowledgement(now, seq, ack, &mut options);
        }
        if packet != PacketType::Reset && self.features.wants_to_send() {
            self.features.poll_options(seq, packet, &mut options);
            // Options that did not fit follow at once.
            if !self.features.wants_to_send() {
                self.features_at = now + self.rtt;
            }
        }
        self.options = options;
    }

    /// Whether a packet has no options, as most data packets.
    fn has_nothing_to_add(&self, body: &Body) -> bool {
        matches!(body, Body::Data)
            && self.ndp_run == 0
            && self.state != State::PartOpen
            && self.received.timestamp.is_none()
            && !self.features.wants_to_send()
            && !self.sums_data()
    }

    fn write_acknowledgement(&mut self, now: Instant, seq: Seq, ack: Seq, options: &mut OptionList) {
        self.reception.drops.push_option(seq, ack, options);
        if self.reception.is_slow {
            let _ = options.push(&Opt::SlowReceiver);
        }
        let elapsed = Ticks::elapsed(self.receiver.elapsed(now));
        // Feedback must carry Elapsed Time (RFC 4342 §8.2).
        if elapsed != Ticks::ZERO || self.owes_feedback() {
            let _ = options.push(&Opt::ElapsedTime(elapsed));
        }
        let wants_rate = self.features.local(Feature::SendLossEventRate) == 1;
        if let Some(receiver) = self.rate_receiver.as_mut().filter(|receiver| receiver.is_due()) {
            receiver.push_options(now, wants_rate, options);
            self.watch_feedback();
        }
        let agreed = self.features.local(Feature::SendAckVector) == 1;
        if agreed && self.vector.ack_number() == Some(ack) {
            self.vector.push_options(seq, options);
        }
    }

    pub(super) fn write_header(&self, now: Instant, body: Body, packet: &mut Vec<u8>) -> usize {
        let seq = self.sequence.upcoming();
        let mut header = Header::new(self.target.local_port, self.target.remote_port, seq, body);
        if let (Body::Data | Body::DataAck { .. }, Some(sender)) = (body, &self.rate_sender) {
            header.ccval = sender.window_counter(now);
        }
        begin_encoded(&header, self.options.as_bytes(), packet).expect("the option list keeps to a header's limits")
    }

    /// Completes a packet without data.
    pub(super) fn complete(&mut self, now: Instant, sent: PacketType, start: usize, packet: &mut [u8]) {
        let seq = self.depart(now, sent, start, packet);
        // A Request and a Response count as data packets here, though ours carry none (RFC 4340 §7.7).
        self.ndp_run = if sent.carries_data() { 0 } else { self.ndp_run + 1 };
        self.sender.sent_other(now, seq);
        if let Some(sender) = &mut self.rate_sender {
            sender.sent_other(now, seq);
        }
    }

    /// Completes a packet with data.
    fn complete_data(
        &mut self,
        now: Instant,
        sent: PacketType,
        start: usize,
        adu: &PulledAdu,
        bytes: u64,
        packet: &mut [u8],
    ) {
        let seq = self.depart(now, sent, start, packet);
        if adu.copy == Copied::First {
            self.protection.spare.note(&adu.meta, bytes);
        }
        self.note_data_left(now, seq, Some(adu.token), (adu.len as u64, bytes));
        self.statistics.data_sent += 1;
        self.statistics.repeats_sent += u64::from(adu.copy == Copied::Again);
        self.statistics.bytes_sent += adu.len as u64;
    }

    /// Accounts for a sent data packet, an ADU or parity: `len` bytes of data, `bytes` in all.
    pub(super) fn note_data_left(&mut self, now: Instant, seq: Seq, token: Option<u64>, (len, bytes): (u64, u64)) {
        self.ndp_run = 0;
        self.sender.sent_data(now, seq, token, bytes);
        if let Some(sender) = &mut self.rate_sender {
            sender.sent_data(now, seq, len, bytes);
            self.watch_rate();
        }
        self.round.on_data_sent(seq);
    }

    /// Finishes any packet of the connection that leaves. Returns its number.
    pub(super) fn depart(&mut self, now: Instant, sent: PacketType, start: usize, packet: &mut [u8]) -> Seq {
        finish(packet, start, self.config.encapsulation).expect("the checksum covers all, whatever there is");
        let seq = self.sequence.next();
        self.grow_sequence_window();
        self.statistics.packets_sent += 1;
        if sent.has_ack() && !matches!(sent, PacketType::Sync | PacketType::SyncAck) {
            self.acknowledged(now);
        }
        self.watch_partopen(now);
        seq
    }

    /// ECN codepoint of a packet: ECT(0) if the peer can read marks (RFC 4340 §12.1), except on packets that begin or
    /// reset a connection. ECT(1) is unused: the nonce is historic (RFC 8311 §6).
    pub(super) fn mark_for(&self, packet: PacketType) -> Ecn {
        let capable = self.config.ecn && self.features.remote(Feature::EcnIncapable) == 0;
        match packet {
            PacketType::Request | PacketType::Response | PacketType::Reset => Ecn::NotEct,
            _ if capable => Ecn::Ect0,
            _ => Ecn::NotEct,
        }
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
