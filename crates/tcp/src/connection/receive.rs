//! Processing of incoming segments (RFC 9293 §3.10.7, RFC 5961).

use timeous_cm::{FlowSpec, Manager};
use timeous_core::{Ecn, Instant};

use super::{CloseReason, Connection, Control, Event, Flow, Receiving, RetransmissionTimer, State, Timer};
use crate::segment::{Flags, Header, Segment};
use crate::seq::Seq;

impl Connection {
    pub(super) fn receive(&mut self, now: Instant, cm: &mut Manager, segment: &Segment<'_>, ecn: Ecn) {
        match self.state {
            State::Closed => self.refuse(segment),
            State::Listen => self.process_listen(now, segment),
            State::SynSent => self.process_syn_sent(now, cm, segment),
            State::SynReceived if self.is_syn_of_peer(segment) => self.process_syn_again(now, cm, segment),
            _ => self.process_synchronized(now, cm, segment, ecn),
        }
    }

    /// Resets a segment for a connection that is closed here (§3.10.7.1).
    fn refuse(&mut self, segment: &Segment<'_>) {
        self.statistics.unexpected += 1;
        if !segment.has(Flags::RST) && self.pending.may_challenge(self.order.now()) {
            match segment.header.ack {
                Some(seq) => self.reset(seq, None),
                None => self.reset(Default::default(), Some(segment.end())),
            }
        }
    }

    pub(super) fn reset(&mut self, seq: Seq, ack: Option<Seq>) {
        self.pending.set_reset(Header { ack, ..self.target.header(seq, Flags::RST) });
    }

    /// Processes a segment in LISTEN (§3.10.7.2).
    fn process_listen(&mut self, now: Instant, segment: &Segment<'_>) {
        if segment.has(Flags::RST) {
            return;
        }
        if let Some(seq) = segment.header.ack {
            self.reset(seq, None);
        } else if segment.has(Flags::SYN) {
            self.take_syn(now, segment);
            self.begin_syn(now, State::SynReceived);
        }
    }

    /// Processes a segment in SYN-SENT (§3.10.7.3).
    fn process_syn_sent(&mut self, now: Instant, cm: &mut Manager, segment: &Segment<'_>) {
        let is_reset = segment.has(Flags::RST);
        if let Some(ack) = segment.header.ack.filter(|&ack| ack != self.numbers.seq(0)) {
            self.statistics.unexpected += 1;
            if !is_reset {
                self.reset(ack, None);
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
            self.begin_syn(now, State::SynReceived);
        }
    }

    /// Enters SYN-SENT or SYN-RECEIVED, and sends a SYN.
    pub(super) fn begin_syn(&mut self, now: Instant, next: State) {
        self.state = next;
        self.pending.set(Control::Syn, true);
        self.timers.set(Timer::Handshake, now + self.handshake.timeout());
    }

    /// Takes the peer's sequence number, window and options from its SYN.
    fn take_syn(&mut self, now: Instant, syn: &Segment<'_>) {
        let agreed = self.handshake.agree(&self.config, syn, self.target.remote.is_ipv6());
        let secrets = self.secrets();
        self.receiver = Some(agreed.receiver(now, &self.config, syn, secrets.as_ref()));
        self.sender = agreed.sender(&self.config, secrets.as_ref());
        self.window = agreed.window(syn);
    }

    /// Changes to ESTABLISHED and opens the flow.
    fn establish(&mut self, now: Instant, cm: &mut Manager) {
        self.state = State::Established;
        self.timers.stop(Timer::Handshake);
        let (agreed, to) = (self.handshake.agreed(), self.target.destination());
        let headers = to.ip_header() + agreed.header();
        let spec = FlowSpec { headers, ..FlowSpec::to(to, agreed.payload()) };
        self.flow = Flow::open(now, cm, spec, self.handshake.update(now));
        self.retransmission = RetransmissionTimer::new(
            self.flow.path(cm, self.handshake.agreed().payload()).is_some_and(|path| path.srtt.is_some()),
        );
        self.events.push_back(Event::Connected);
    }

    fn is_syn_of_peer(&self, segment: &Segment<'_>) -> bool {
        let receiver = self.receiver.as_ref().filter(|_| segment.has(Flags::SYN) && !segment.has(Flags::RST));
        receiver.is_some_and(|receiver| receiver.is_first(segment.data_seq()))
    }

    /// Handles a repeated SYN in SYN-RECEIVED: our answer was lost or, with an ACK, both ends opened at once.
    fn process_syn_again(&mut self, now: Instant, cm: &mut Manager, segment: &Segment<'_>) {
        match segment.header.ack {
            Some(ack) if ack == self.numbers.seq(0) => {
                self.establish(now, cm);
                self.demand_ack();
            }
            Some(seq) => self.reset(seq, None),
            None => self.pending.set(Control::Syn, true),
        }
    }

    /// Processes a segment in a synchronized state (§3.10.7.4).
    fn process_synchronized(&mut self, now: Instant, cm: &mut Manager, segment: &Segment<'_>, ecn: Ecn) {
        let Some(receiver) = &mut self.receiver else { return };
        if !receiver.accept(now, segment).is_acceptable() {
            self.statistics.unexpected += 1;
            return;
        }
        if segment.has(Flags::RST) {
            return self.process_reset(now, segment);
        }
        if segment.has(Flags::SYN) {
            return self.challenge(now);
        }
        let Some(ack) = segment.header.ack else {
            self.statistics.unexpected += 1;
            return;
        };
        if self.state == State::SynReceived {
            if ack != self.numbers.seq(0) {
                return self.reset(ack, None);
            }
            self.establish(now, cm);
        }
        self.statistics.segments_received += 1;
        if self.state == State::TimeWait {
            if segment.has(Flags::FIN) {
                self.demand_ack();
                self.timers.set(Timer::TimeWait, now + self.config.time_wait);
            }
        } else if self.process_ack(now, cm, segment, ack) {
            if self.closing.is_fin_acked(self.sender.una()) {
                self.advance(now, self.state.after_fin_acked());
            }
            self.process_data(now, segment, ecn);
        }
    }

    /// Processes a reset. RFC 5961 §3.2: it must have exactly the expected number, or else the peer is challenged to
    /// confirm it. In TIME-WAIT it is ignored (RFC 1337).
    fn process_reset(&mut self, now: Instant, segment: &Segment<'_>) {
        let expected = self.receiver.as_ref().map(|receiver| receiver.next());
        if expected != Some(segment.header.seq) {
            return self.challenge(now);
        }
        match self.state {
            State::TimeWait => {}
            // A peer that has finished may reset as soon as it has all data it wants, which acknowledges our FIN; for
            // data that it never acknowledged this does not hold.
            State::Closing | State::LastAck if self.unacknowledged() == 0 => {
                self.tear_down(State::Closed, CloseReason::Finished);
            }
            _ => self.tear_down(State::Closed, CloseReason::Reset),
        }
    }

    /// Sends a challenge ACK for a suspicious segment, which somebody else may have sent (RFC 5961).
    pub(super) fn challenge(&mut self, now: Instant) {
        self.statistics.unexpected += 1;
        if self.pending.may_challenge(now) {
            self.statistics.challenges += 1;
            self.demand_ack();
        }
    }

    /// Requests an immediate acknowledgement.
    pub(super) fn demand_ack(&mut self) {
        if let Some(receiver) = &mut self.receiver {
            receiver.demand_ack();
        }
    }

    /// Processes data and FIN: steps 7 and 8.
    fn process_data(&mut self, now: Instant, segment: &Segment<'_>, ecn: Ecn) {
        let Some(receiver) = &mut self.receiver else { return };
        let receipt = receiver.on_segment(now, segment, ecn);
        self.statistics.ce_received += u64::from(ecn == Ecn::Ce && !segment.payload.is_empty());
        self.statistics.bytes_received += receipt.bytes as u64;
        let has_more = match self.config.receiving {
            Receiving::Stream => receipt.bytes > 0,
            Receiving::Unordered => receipt.datagrams > 0,
        };
        if has_more && receiver.report_readable() {
            self.events.push_back(Event::Readable);
        }
        if receipt.finished {
            self.events.push_back(Event::PeerFinished);
            self.advance(now, self.state.after_peer_fin());
        }
    }

    /// Enters a state of the close (RFC 9293 §3.6).
    fn advance(&mut self, now: Instant, next: State) {
        if next == self.state || next.is_alive() {
            self.state = next;
            return;
        }
        self.tear_down(next, CloseReason::Finished);
        if next == State::TimeWait {
            self.timers.set(Timer::TimeWait, now + self.config.time_wait);
        }
    }
}
