//! Retransmission: original sequence number, detection of overdue packets, and duplicate detection at the receiver.
//!
//! DCCP identifies a datagram only by its packet's number. A retransmission carries the original number in a four-byte
//! option; first transmissions carry nothing. Feature and option are from the experimental ranges of RFC 4340 §19.3 and
//! §19.4, so other implementations ignore them.

use timeous_cm::{Loss, Manager};
use timeous_core::{Duration, Instant};

use super::delivered::{Delivered, WINDOW};
use super::{Connection, Event, Timer, told};
use crate::ccid2::OverdueReport;
use crate::features::{Feature, TAKES_REPEATS};
use crate::options::Opt;
use crate::packet::Body;
use crate::seq::Seq;

/// Size of the Repeat option, in bytes; a multiple of four, so that padding stays the same (docs/design/repair.md).
const REPEAT_LEN: usize = 4;
/// Maximum distance to the original number, in packets: half of what the receiver remembers, so that it still does for
/// certain. Chosen by us: a higher value repeats older data (docs/design/repair.md).
const MAX_DISTANCE: u64 = WINDOW / 2;
/// Time for which a path counts as reordering after it has reordered once. Chosen by us: a higher value retransmits
/// later for longer.
const REORDERING_LIFETIME: Duration = Duration::from_secs(10);
/// Maximum acknowledgement delay of an end that accepts retransmissions (docs/design/repair.md): with a deadline of two
/// round trips, 20 ms are too long. A higher value makes retransmissions later, and acknowledgements fewer.
const ACK_DELAY: Duration = Duration::from_millis(5);
/// Probe packets beyond the window when an acknowledgement is overdue (RFC 9002 §6.2.4, docs/decisions/probes.md). A
/// higher value ends bursts of losses sooner, and adds load.
const PROBES: u32 = 2;
/// Minimum margin for round-trip variation. Chosen by us: a higher value retransmits later on short paths; a lower one
/// sends needless copies.
const MIN_MARGIN: Duration = Duration::from_millis(2);

impl Connection {
    /// Whether the peer accepts retransmissions.
    pub fn takes_repeats(&self) -> bool {
        self.repeats.is_told
    }

    /// Tells the driver once that the peer accepts retransmissions, and starts recording deliveries here.
    pub(super) fn mind_repeats(&mut self) {
        if !self.repeats.is_told && self.flow.is_some() && self.features.remote(Feature::TakeRepeats) >= TAKES_REPEATS {
            self.repeats.is_told = true;
            self.events.push_back(Event::TakesRepeats);
        }
        if self.repeats.delivered.is_none() && self.features.local(Feature::TakeRepeats) >= TAKES_REPEATS {
            self.repeats.delivered = Some(Delivered::new(self.sequence.gsr()));
        }
        self.mind_parity();
    }

    /// Whether data first sent as `seq` must not be delivered (again).
    pub(super) fn has_delivered(&self, seq: Seq) -> bool {
        self.repeats.delivered.as_ref().is_some_and(|delivered| delivered.has(seq))
    }

    pub(super) fn note_delivered(&mut self, seq: Seq) {
        if let Some(delivered) = &mut self.repeats.delivered {
            delivered.add(seq);
        }
    }

    /// Bytes reserved in each data packet for the Repeat option.
    pub(super) fn repeat_room(&self) -> usize {
        if self.repeats.is_told { REPEAT_LEN } else { 0 }
    }

    /// Adds the original number of the `len` bytes of data to the packet that starts at `start`. Returns `false` if it
    /// is no longer known or too far back: the packet must not leave.
    pub(super) fn name_repeat(
        &mut self,
        now: Instant,
        body: Body,
        token: u64,
        (start, len): (usize, usize),
        packet: &mut Vec<u8>,
    ) -> bool {
        let back = self.repeats.first.get(&token).map(|&first| self.sequence.upcoming().distance_from(first));
        let Some(back) = back.filter(|&back| back <= MAX_DISTANCE).and_then(|back| u16::try_from(back).ok()) else {
            return false;
        };
        self.options.widen(REPEAT_LEN);
        if self.options.push(&Opt::Repeat(back)).is_err() {
            return false;
        }
        let payload = packet.split_off(packet.len() - len);
        packet.truncate(start);
        self.write_header(now, body, packet);
        packet.extend_from_slice(&payload);
        true
    }

    /// Starts the timer for overdue acknowledgements after data were sent.
    pub(super) fn watch_sent(&mut self, now: Instant) {
        if self.repeats.is_told && !self.timers.is_set(Timer::Overdue) {
            self.timers.set(Timer::Overdue, now + self.patience_of(Duration::ZERO, false));
        }
    }

    /// Reports ADUs whose acknowledgement is overdue, and sets the timer for the next check.
    pub(super) fn watch_overdue(&mut self, now: Instant, cm: &mut Manager) {
        if !self.repeats.is_told {
            return;
        }
        let passed_due = self.find_passed(now, cm);
        let rttvar = self.flow.and_then(|flow| told(cm.query(flow))).map_or(Duration::ZERO, |path| path.rttvar);
        let is_reordered = self.repeats.reordered_at.is_some_and(|at| now - at < REORDERING_LIFETIME);
        let passed = if is_reordered { self.patience_of(rttvar, true) } else { Duration::ZERO };
        let patience = [self.patience_of(rttvar, false), passed];
        while let Some(untold) = self.sender.first_untold() {
            let due = untold.at + patience[usize::from(untold.is_passed)];
            if due > now {
                self.timers.set(Timer::Overdue, passed_due.map_or(due, |at| at.min(due)));
                return;
            }
            let is_late = !untold.is_passed;
            *untold.told = if is_late { OverdueReport::Late } else { OverdueReport::Passed };
            self.repeats.remember(untold.token, untold.seq);
            self.events.push_back(Event::Overdue { token: untold.token });
            if is_late {
                self.probe(now, patience[0], cm);
            }
        }
        match passed_due {
            Some(at) => self.timers.set(Timer::Overdue, at),
            None => self.timers.stop(Timer::Overdue),
        }
    }

    /// Sends probes beyond the window: an acknowledgement is overdue and no later one has come. Their feedback reveals
    /// losses a round trip from now, if that is sooner than the timeout. At most once per `patience`, and not after a
    /// timeout, which has probes of its own.
    fn probe(&mut self, now: Instant, patience: Duration, cm: &mut Manager) {
        let Some(flow) = self.flow.filter(|_| self.rate_sender.is_none() && self.silences == 0) else { return };
        let is_sooner = told(cm.timeout(flow)).is_some_and(|timeout| patience + self.rtt <= timeout);
        let is_due = self.repeats.probed_at.is_none_or(|at| now - at >= patience);
        // Without a measured round trip, nothing can be called overdue.
        if is_sooner && is_due && self.measured_at.is_some() {
            self.repeats.probed_at = Some(now);
            told(cm.probe(now, flow, PROBES));
        }
    }

    /// Declares packets lost that later ones passed long enough ago. Returns the time of the next check.
    fn find_passed(&mut self, now: Instant, cm: &mut Manager) -> Option<Instant> {
        // With CCID 3 and 4 the receiver reports losses itself (RFC 4342 §6).
        if self.rate_sender.is_some() {
            return None;
        }
        let rttvar = self.flow.and_then(|flow| told(cm.query(flow))).map_or(Duration::ZERO, |path| path.rttvar);
        let patience = self.patience_of(rttvar, true);
        let feedback = self.sender.declare_passed(now, patience);
        if !feedback.fates.is_empty() {
            self.apply(now, cm, &feedback, Loss::Transient);
            if self.sender.outstanding() > 0 {
                self.set_feedback_timer(now, cm);
            }
        }
        self.sender.passed().map(|at| at + patience)
    }

    /// Time after which a packet's acknowledgement is overdue, if no later packet has arrived.
    pub(super) fn patience(&self, cm: &Manager) -> Duration {
        let rttvar = self.flow.and_then(|flow| told(cm.query(flow))).map_or(Duration::ZERO, |path| path.rttvar);
        self.patience_of(rttvar, false)
    }

    /// Time after which a packet's acknowledgement is overdue. If later packets have arrived (`is_passed`), it allows a
    /// quarter of a round trip for reordering (RFC 8985 §6.2); else the round-trip variation and the peer's
    /// acknowledgement delay.
    fn patience_of(&self, rttvar: Duration, is_passed: bool) -> Duration {
        if is_passed {
            self.rtt + (self.rtt / 4).max(MIN_MARGIN).max(rttvar)
        } else {
            self.rtt + (self.rtt / 16).max(MIN_MARGIN).max(rttvar * 4) + self.peer_delay.max(ACK_DELAY)
        }
    }

    /// Acknowledgement delay for the peer's data: short where a lost packet can be retransmitted.
    pub(super) fn ack_delay(&self) -> Duration {
        if self.repeats.delivered.is_some() { self.config.ack_delay.min(ACK_DELAY) } else { self.config.ack_delay }
    }
}
