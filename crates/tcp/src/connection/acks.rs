//! Processing of acknowledgements, with updates of the Congestion Manager and the timers.

use timeous_cm::{Manager, Update};
use timeous_core::Instant;

use super::sack_blocks::SackedRanges;
use super::{Connection, Event, Timer};
use crate::segment::{Flags, Segment};
use crate::sender::{Acknowledgement, Changes, RoundTrip, Settled, Verdict};
use crate::seq::Seq;

impl Connection {
    /// Processes the acknowledgement: step 5 of RFC 9293 §3.10.7.4. Returns whether to go on with the segment.
    pub(super) fn process_ack(&mut self, now: Instant, cm: &mut Manager, segment: &Segment<'_>, ack: Seq) -> bool {
        let (una, nxt) = (self.sender.una(), self.sender.nxt());
        let ack = self.numbers.offset(ack, una);
        if !self.window.accepts(ack, una, nxt) {
            // "If the ACK acks something not yet sent …, then send an ACK, drop the segment".
            self.challenge(now);
            return false;
        }
        let ack = u64::try_from(ack).unwrap_or(0);
        let window_changed = self.window.update(&segment.header, ack);
        if segment.header.window == 0 {
            // "as long as the receiving TCP peer continues to send acknowledgments in response to the probe segments, the
            // sending TCP peer MUST allow the connection to stay open", and retransmissions are probes, too (RFC 9293
            // §3.8.6.1).
            self.retransmission.answered();
        }
        // An open window that is too small for a segment is probed with back-off, too.
        if self.window.fits_segment(nxt) || !self.sender.is_idle() {
            self.window.opened();
            self.timers.stop(Timer::Persist);
        }
        let agreed = self.handshake.agreed();
        let blocks = agreed.sack_blocks(segment);
        let sacked = SackedRanges::new(&blocks, ack, nxt, |seq| self.numbers.offset(seq, una));
        let acknowledgement = Acknowledgement {
            ack: ack.max(una),
            sacked: sacked.ranges(),
            dsack: sacked.dsack.clone(),
            is_bare: ack == una && segment.seq_len() == 0 && !window_changed,
            ece: segment.has(Flags::ECE),
            echoed: agreed.in_use(segment.options.timestamps).and_then(|echo| self.numbers.rtt(now, echo)),
        };
        let verdict = self.sender.on_ack(now, &acknowledgement, self.round_trip(cm));
        self.statistics.bytes_acked += self.closing.data_bytes(una, self.sender.una());
        self.apply(now, cm, &verdict);
        self.time_acknowledged(now, cm, &verdict);
        true
    }

    /// Returns the path's RTTs; queried only where the loss detection needs them.
    pub(super) fn round_trip(&self, cm: &Manager) -> RoundTrip {
        let path =
            if self.sender.needs_round_trip() { self.flow.path(cm, self.handshake.agreed().payload()) } else { None }
                .unwrap_or_default();
        RoundTrip { smoothed: path.srtt.unwrap_or_default(), least: path.min_rtt.unwrap_or_default() }
    }

    /// Reports arrivals to the source, and the whole verdict to the Congestion Manager.
    pub(super) fn apply(&mut self, now: Instant, cm: &mut Manager, verdict: &Verdict) {
        if verdict.rtt.is_some() {
            self.retransmission.sampled();
        }
        self.events.extend(self.sender.acked_tokens().map(|token| Event::Acked {
            token,
            at: Instant::ZERO,
            exactly: None,
        }));
        self.tell_settled();
        self.statistics.hidden_losses += verdict.hidden;
        self.statistics.recoveries += u64::from(verdict.recovery_began);
        self.statistics.ecn_reductions += u64::from(verdict.ecn_reduced);
        self.timers.set(Timer::Reordering, verdict.look_again);
        let &Verdict { acked, lost, .. } = verdict;
        if let Some(bytes) = verdict.restored.filter(|_| self.flow.id().is_some()) {
            self.statistics.spurious_timeouts += 1;
            self.flow.with(|flow| cm.undo_timeout(now, flow, bytes, acked));
        }
        if acked == 0 && lost == 0 && verdict.loss.is_none() && verdict.rtt.is_none() {
            return;
        }
        let update = Update {
            acked,
            lost,
            loss: verdict.loss,
            rtt: verdict.rtt,
            path_rtt: verdict.path_rtt,
            recovering: verdict.holds_window,
            beyond_gap: verdict.beyond_gap,
            ..Update::default()
        };
        self.flow.with(|flow| cm.update(now, flow, update));
        if let Some(observed) = verdict.observed {
            self.flow.with(|flow| cm.observe(flow, observed));
        }
    }

    /// Reports fates that are not those of whole segments to the source, and updates the counters of changed segments.
    pub(super) fn tell_settled(&mut self) {
        let Changes { replaced, padded, refused } = self.sender.changes();
        (self.statistics.replaced, self.statistics.padded) = (replaced, padded);
        if refused {
            self.events.push_back(Event::ChangesRefused);
        }
        while let Some(Settled { token, arrived }) = self.sender.poll_settled() {
            self.events.push_back(if arrived {
                Event::Acked { token, at: Instant::ZERO, exactly: None }
            } else {
                Event::Lost { token }
            });
        }
    }

    /// Restarts or stops the timers for data in flight (RFC 6298 §5.2, §5.3; RFC 8985 §7.2).
    fn time_acknowledged(&mut self, now: Instant, cm: &Manager, verdict: &Verdict) {
        if self.sender.is_idle() {
            for timer in [Timer::Retransmit, Timer::TailProbe, Timer::GiveUp] {
                self.timers.stop(timer);
            }
            self.retransmission.answered();
            return;
        }
        if verdict.advanced {
            self.retransmission.answered();
            self.watch_user_timeout(now);
            if self.sender.restarts_timer(verdict) {
                self.restart_retransmission_timer(now, cm);
            }
        }
        if !self.sender.wants_probe() {
            self.timers.stop(Timer::TailProbe);
        } else if verdict.advanced {
            self.schedule_tail_probe(now, cm);
        }
    }
}
