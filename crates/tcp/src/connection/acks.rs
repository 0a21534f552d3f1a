//! Processing of acknowledgements, with updates of the Congestion Manager and the timers.

use std::ops::Range;

use timeous_cm::{Manager, Update};
use timeous_core::{Duration, Instant};

use super::{Connection, Event, Timer, told};
use crate::segment::{Segment, Timestamps};
use crate::sender::{Acknowledgement, Changes, RoundTrip, Settled, Verdict};

/// SACK blocks of a segment, in stream offsets.
#[derive(Debug)]
struct Blocks {
    ranges: [Range<u64>; 4],
    count: usize,
    /// The first block, if it reports duplicate data (RFC 2883 §4).
    dsack: Option<Range<u64>>,
}

impl Connection {
    /// Processes the acknowledgement: step 5 of RFC 9293 §3.10.7.4. Returns whether to go on with the segment.
    pub(super) fn process_ack(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        segment: &Segment<'_>,
        ack: crate::Seq,
    ) -> bool {
        let (una, nxt) = (self.sender.una(), self.sender.nxt());
        let ack = self.offset(ack);
        if ack > nxt as i64 {
            // "If the ACK acks something not yet sent …, then send an ACK, drop the segment".
            self.challenge(now);
            return false;
        }
        // RFC 5961 §5.2: an ACK older than any window is not accepted.
        if ack < una as i64 - self.window.greatest() as i64 {
            self.challenge(now);
            return false;
        }
        let ack = u64::try_from(ack).unwrap_or(0);
        let window = u64::from(segment.header.window) << self.window.shift;
        let window_changed = self.window.update(segment.header.seq, ack, window);
        self.unanswered_probes = 0;
        if window == 0 {
            // "as long as the receiving TCP peer continues to send acknowledgments in response to the probe segments, the
            // sending TCP peer MUST allow the connection to stay open", and retransmissions are probes, too (RFC 9293
            // §3.8.6.1).
            self.repeats = 0;
        }
        // An open window that is too small for a segment is probed with back-off, too.
        if self.window.room(nxt) >= self.window.segment(self.agreed.payload) || !self.sender.is_idle() {
            self.probes = 0;
            self.timers.stop(Timer::Persist);
        }
        let blocks = self.sack_blocks(segment, ack);
        let acknowledgement = Acknowledgement {
            ack: ack.max(una),
            sacked: &blocks.ranges[..blocks.count],
            dsack: blocks.dsack,
            is_bare: ack == una && segment.seq_len() == 0 && !window_changed,
            ece: segment.has(crate::Flags::ECE),
            echoed: segment.options.timestamps.filter(|_| self.agreed.timestamps).and_then(|t| self.echoed(now, t)),
        };
        let path = self.round_trip(cm);
        let verdict = self.sender.on_ack(now, &acknowledgement, path, &mut self.feedback);
        // A FIN takes a sequence number, but is no byte.
        let data_end = self.fin.map_or(u64::MAX, |fin| fin - 1);
        self.statistics.bytes_acked += self.sender.una().min(data_end) - una.min(data_end);
        self.apply(now, cm, &verdict);
        self.time_acknowledged(now, cm, &verdict);
        true
    }

    /// Returns the SACK blocks within the range that was sent and is not acknowledged.
    fn sack_blocks(&self, segment: &Segment<'_>, ack: u64) -> Blocks {
        let mut blocks = Blocks { ranges: [const { 0..0 }; 4], count: 0, dsack: None };
        if !self.agreed.sack {
            return blocks;
        }
        let sack = &segment.options.sack;
        let range = |at: usize| sack.get(at).map(|block| self.offset(block.left)..self.offset(block.right));
        for at in 0..sack.len() {
            let Some(block) = range(at).filter(|block| block.start < block.end) else { continue };
            let is_duplicate = at == 0
                && (block.end <= ack as i64
                    || range(1).is_some_and(|second| second.start <= block.start && block.end <= second.end));
            if is_duplicate {
                blocks.dsack = Some(block.start.max(0) as u64..block.end.max(0) as u64);
            } else if block.start >= ack as i64 && block.end <= self.sender.nxt() as i64 {
                blocks.ranges[blocks.count] = block.start as u64..block.end as u64;
                blocks.count += 1;
            }
        }
        blocks
    }

    /// Returns the RTT sample of a timestamp echo; `None` for an echo of a timestamp that was never sent.
    fn echoed(&self, now: Instant, timestamps: Timestamps) -> Option<Duration> {
        let millis = self.timestamp(now).wrapping_sub(timestamps.echo);
        // Within one tick of the clock the RTT was not zero.
        Some(Duration::from_millis(u64::from(millis.max(1)))).filter(|_| millis <= i32::MAX as u32)
    }

    /// Returns the path's RTTs; queried only where the loss detection needs them.
    pub(super) fn round_trip(&self, cm: &Manager) -> RoundTrip {
        if !self.sender.needs_round_trip() {
            return RoundTrip::default();
        }
        let path = self.flow.and_then(|flow| told(cm.query(flow))).unwrap_or_default();
        RoundTrip { smoothed: path.srtt.unwrap_or_default(), least: path.min_rtt.unwrap_or_default() }
    }

    /// Reports arrivals to the source, and the whole verdict to the Congestion Manager.
    pub(super) fn apply(&mut self, now: Instant, cm: &mut Manager, verdict: &Verdict) {
        if verdict.rtt.is_some() {
            self.first_timeout = None;
        }
        self.events.extend(self.feedback.acked_tokens.drain(..).map(|token| Event::Acked { token, at: Instant::ZERO }));
        self.tell_settled();
        self.statistics.hidden_losses += verdict.hidden;
        self.statistics.recoveries += u64::from(verdict.recovery_began);
        self.statistics.ecn_reductions += u64::from(verdict.ecn_reduced);
        self.timers.set_to(Timer::Reordering, verdict.look_again);
        let (acked, lost) = (self.feedback.acked, self.feedback.lost);
        if let (Some(bytes), Some(flow)) = (verdict.restored, self.flow) {
            self.statistics.spurious_timeouts += 1;
            told(cm.undo_timeout(now, flow, bytes, acked));
        }
        if acked == 0 && lost == 0 && verdict.loss.is_none() && verdict.rtt.is_none() {
            return;
        }
        let Some(flow) = self.flow else { return };
        let update = Update {
            overtaken_by: Duration::ZERO,
            acked,
            lost,
            loss: verdict.loss,
            rtt: verdict.rtt,
            recovering: verdict.holds_window,
            beyond_gap: verdict.beyond_gap,
            slow_receiver: false,
        };
        told(cm.update(now, flow, update));
    }

    /// Reports fates that are not those of whole segments to the source, and updates the counters of changed segments.
    pub(super) fn tell_settled(&mut self) {
        let Changes { replaced, padded, refused } = self.sender.changes();
        (self.statistics.replaced, self.statistics.padded) = (replaced, padded);
        if refused && !std::mem::replace(&mut self.told_refusal, true) {
            self.events.push_back(Event::ChangesRefused);
        }
        while let Some(Settled { token, arrived }) = self.sender.poll_settled() {
            self.events.push_back(if arrived {
                Event::Acked { token, at: Instant::ZERO }
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
            self.repeats = 0;
            return;
        }
        if verdict.advanced {
            self.repeats = 0;
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
