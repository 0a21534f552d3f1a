//! Three-way handshake: SYN, SYN with ACK, ACK (RFC 9293 §3.5, §3.10.7.2, §3.10.7.3).

use timeous_cm::{Loss, Manager, Update};
use timeous_core::{Duration, Instant};

use super::agreed::Agreed;
use super::pending_segments::Reset;
use super::{
    CloseReason, Config, Connection, Event, LossDetection, Receiving, Sending, State, Timer, backed_off, told,
};
use crate::receiver::{Receiver, ReceiverConfig, window_scale_for};
use crate::segment::{Flags, Segment};
use crate::sender::{Detection, Kept, Late, Payload, PeerWindow, Sender};

/// Initial timeout of a SYN (RFC 6298 §2.1).
const SYN_TIMEOUT: Duration = Duration::from_secs(1);

/// "If the timer expires awaiting the ACK of a SYN segment …, the RTO MUST be re-initialized to 3 seconds when data
/// transmission begins" (RFC 6298 §5.7).
const TIMEOUT_AFTER_LOST_SYN: Duration = Duration::from_secs(3);

impl Connection {
    /// Changes from CLOSED to SYN-SENT.
    pub(super) fn begin_connecting(&mut self, now: Instant) {
        self.state = State::SynSent;
        self.owed.syn = true;
        self.timers.set(Timer::Handshake, now + SYN_TIMEOUT);
    }

    /// Retransmits the SYN after a timeout, or gives up.
    pub(super) fn repeat_syn(&mut self, now: Instant) {
        let limit = if self.state == State::SynSent { self.config.syn_retries } else { self.config.syn_ack_retries };
        if self.repeats >= limit {
            return self.tear_down(State::Closed, CloseReason::Timeout);
        }
        self.repeats += 1;
        self.owed.syn = true;
        self.timers.set(Timer::Handshake, now + backed_off(SYN_TIMEOUT, self.repeats));
    }

    /// Processes a segment in LISTEN (§3.10.7.2).
    pub(super) fn process_listen(&mut self, now: Instant, segment: &Segment<'_>) {
        if segment.has(Flags::RST) {
            return;
        }
        if let Some(seq) = segment.header.ack {
            self.owed.reset = Some(Reset { seq, ack: None });
        } else if segment.has(Flags::SYN) {
            self.take_syn(now, segment);
            self.enter_syn_received(now);
        }
    }

    /// Processes a segment in SYN-SENT (§3.10.7.3).
    pub(super) fn process_syn_sent(&mut self, now: Instant, cm: &mut Manager, segment: &Segment<'_>) {
        let is_reset = segment.has(Flags::RST);
        if let Some(ack) = segment.header.ack.filter(|&ack| ack != self.iss + 1) {
            self.statistics.unexpected += 1;
            if !is_reset {
                self.owed.reset = Some(Reset { seq: ack, ack: None });
            }
            return;
        }
        if is_reset {
            // A reset without an acknowledgement is not acceptable here.
            if segment.header.ack.is_some() {
                self.tear_down(State::Closed, CloseReason::Refused);
            }
            return;
        }
        if !segment.has(Flags::SYN) {
            self.statistics.unexpected += 1;
            return;
        }
        self.take_syn(now, segment);
        if segment.header.ack.is_some() {
            self.establish(now, cm);
            self.demand_ack();
        } else {
            // Simultaneous open (§3.5, figure 7).
            self.enter_syn_received(now);
        }
    }

    fn enter_syn_received(&mut self, now: Instant) {
        self.state = State::SynReceived;
        self.owed.syn = true;
        self.timers.set(Timer::Handshake, now + backed_off(SYN_TIMEOUT, self.repeats));
    }

    /// Takes the peer's sequence number, window and options from its SYN.
    fn take_syn(&mut self, now: Instant, syn: &Segment<'_>) {
        let agreed = Agreed::from_syn(&self.config, syn, self.target.remote.is_ipv6());
        let Config { receive_buffer: buffer, mss, delayed_ack, loss_detection, .. } = self.config;
        let receiver = ReceiverConfig {
            buffer,
            window_scale: if agreed.peer_shift.is_some() { window_scale_for(buffer) } else { 0 },
            mss,
            sack: agreed.sack,
            ecn: agreed.ecn,
            delayed_ack,
            datagrams: self.config.receiving == Receiving::Unordered,
            ..ReceiverConfig::default()
        };
        let timestamp = syn.options.timestamps.filter(|_| agreed.timestamps).map(|timestamps| timestamps.value);
        let detection = match loss_detection {
            _ if !agreed.sack => Detection::DuplicateAcks,
            LossDetection::DupThresh => Detection::DupThresh,
            LossDetection::Rack => Detection::Rack,
        };
        self.irs = syn.header.seq;
        self.receiver = Some(Receiver::new(now, &receiver, self.irs, timestamp));
        let payload: Box<dyn Payload> = match self.config.sending {
            Sending::Stream => Box::new(Kept::default()),
            Sending::Records => Box::new(Late::new(false)),
            Sending::LateChoice => Box::new(Late::new(true)),
        };
        let sender = Sender::new(payload, agreed.payload, detection, agreed.ecn);
        self.sender = sender.with_bundling(self.config.bundling && agreed.sack);
        self.window = PeerWindow::new();
        // "The window field in a segment where the SYN bit is set … MUST NOT be scaled" (RFC 7323 §2.2).
        self.window.update(self.irs, 0, u64::from(syn.header.window));
        self.window.shift = agreed.peer_shift.unwrap_or(0);
        self.agreed = agreed;
    }

    /// Changes to ESTABLISHED and opens the flow.
    pub(super) fn establish(&mut self, now: Instant, cm: &mut Manager) {
        self.state = State::Established;
        self.timers.stop(Timer::Handshake);
        let flow = cm.open(self.destination(), self.agreed.payload);
        self.flow = Some(flow);
        // No RTT sample after a retransmission (Karn's algorithm); after two or more the window begins with one segment
        // (RFC 6928 §2, as in Linux).
        let update = match self.repeats {
            0 => Update { rtt: Some(now - self.syn_sent_at), ..Update::default() },
            1 => Update::default(),
            _ => Update { loss: Some((Loss::Persistent, self.syn_sent_at)), ..Update::default() },
        };
        told(cm.update(now, flow, update));
        let is_unknown = told(cm.query(flow)).is_none_or(|path| path.srtt.is_none());
        self.first_timeout = is_unknown.then_some(TIMEOUT_AFTER_LOST_SYN);
        self.repeats = 0;
        self.events.push_back(Event::Connected);
    }
}
