//! Processing of incoming segments (RFC 9293 §3.10.7, RFC 5961).

use timeous_cm::Manager;
use timeous_core::{Ecn, Instant};

use super::pending_segments::Reset;
use super::{CloseReason, Connection, Event, Receiving, State};
use crate::segment::{Flags, Segment};

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
        if !segment.has(Flags::RST) && self.challenges.take(self.order.now()) {
            self.owed.reset = Some(match segment.header.ack {
                Some(seq) => Reset { seq, ack: None },
                None => Reset { seq: Default::default(), ack: Some(segment.end()) },
            });
        }
    }

    fn is_syn_of_peer(&self, segment: &Segment<'_>) -> bool {
        segment.has(Flags::SYN) && !segment.has(Flags::RST) && segment.header.seq == self.irs
    }

    /// Handles a repeated SYN in SYN-RECEIVED: our answer was lost or, with an ACK, both ends opened at once.
    fn process_syn_again(&mut self, now: Instant, cm: &mut Manager, segment: &Segment<'_>) {
        match segment.header.ack {
            Some(ack) if ack == self.iss + 1 => {
                self.establish(now, cm);
                self.demand_ack();
            }
            Some(seq) => self.owed.reset = Some(Reset { seq, ack: None }),
            None => self.owed.syn = true,
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
            if ack != self.iss + 1 {
                self.owed.reset = Some(Reset { seq: ack, ack: None });
                return;
            }
            self.establish(now, cm);
        }
        self.statistics.segments_received += 1;
        if self.state == State::TimeWait {
            if segment.has(Flags::FIN) {
                self.demand_ack();
                self.restart_time_wait(now);
            }
        } else if self.process_ack(now, cm, segment, ack) {
            self.process_fin_acked(now);
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
        if self.challenges.take(now) {
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
        if has_more && !std::mem::replace(&mut self.told_readable, true) {
            self.events.push_back(Event::Readable);
        }
        if receipt.finished {
            self.process_fin(now);
        }
    }
}
