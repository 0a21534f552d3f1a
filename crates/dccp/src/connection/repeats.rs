//! Data that are sent again: under which number they were sent first, when it is time, and how the receiver knows them.
//!
//! DCCP has no name for a datagram but the number of its packet. Data that leave again say under which number they left
//! first, in an option of four bytes; what leaves once says nothing, and costs nothing. Feature and option are of those that
//! RFC 4340 §19.3 and §19.4 reserve for experiments, so that every other DCCP ignores them.

use timeous_cm::{Loss, Manager};
use timeous_core::{Duration, Instant};

use super::delivered::{Delivered, WINDOW};
use super::{Connection, Event, Timer, told};
use crate::ccid2::Told;
use crate::features::{Feature, TAKES_REPEATS};
use crate::options::Opt;
use crate::packet::Body;
use crate::seq::Seq;

/// The option, which changes no padding.
const OPTION_LEN: usize = 4;
/// Data that were sent first so many numbers ago are not sent again: the receiver has to remember them for certain.
const FARTHEST: u64 = WINDOW / 2;
/// For so long a path is thought to reorder that did once.
const REMEMBERED: Duration = Duration::from_secs(10);
/// An end that takes repeats holds an acknowledgement for so long at most.
const ACK_DELAY: Duration = Duration::from_millis(5);
/// As many packets leave beyond the window when one is overdue (RFC 9002 §6.2.4).
const PROBES: u32 = 2;
/// A round trip that hardly varies varies by so much.
const LEAST_MARGIN: Duration = Duration::from_millis(2);

impl Connection {
    /// Whether the peer takes data that are sent again.
    pub fn takes_repeats(&self) -> bool {
        self.repeats.is_told
    }

    /// Tells the driver once that the peer takes data again, and begins to remember what is delivered here.
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

    /// Whether the data that were sent first as `seq` must not be delivered (again).
    pub(super) fn has_delivered(&self, seq: Seq) -> bool {
        self.repeats.delivered.as_ref().is_some_and(|delivered| delivered.has(seq))
    }

    pub(super) fn note_delivered(&mut self, seq: Seq) {
        if let Some(delivered) = &mut self.repeats.delivered {
            delivered.add(seq);
        }
    }

    /// What a data packet has to leave room for.
    pub(super) fn repeat_room(&self) -> usize {
        if self.repeats.is_told { OPTION_LEN } else { 0 }
    }

    /// Says in the header of the packet that begins at `start` under which number its `len` bytes of data were sent first.
    /// `false`: nobody knows any more, and it must not leave.
    pub(super) fn name_repeat(
        &mut self,
        now: Instant,
        body: Body,
        token: u64,
        (start, len): (usize, usize),
        packet: &mut Vec<u8>,
    ) -> bool {
        let back = self.repeats.first.get(&token).map(|&first| self.sequence.upcoming().distance_from(first));
        let Some(back) = back.filter(|&back| back <= FARTHEST).and_then(|back| u16::try_from(back).ok()) else {
            return false;
        };
        self.options.widen(OPTION_LEN);
        if self.options.push(&Opt::Repeat(back)).is_err() {
            return false;
        }
        let payload = packet.split_off(packet.len() - len);
        packet.truncate(start);
        self.write_header(now, body, packet);
        packet.extend_from_slice(&payload);
        true
    }

    /// Data left: should nothing be heard of them in time, it will be said.
    pub(super) fn watch_sent(&mut self, now: Instant) {
        if self.repeats.is_told && !self.timers.is_set(Timer::Overdue) {
            self.timers.set(Timer::Overdue, now + self.patience_of(Duration::ZERO, false));
        }
    }

    /// Tells what should have been acknowledged by now, and when to look again.
    pub(super) fn watch_overdue(&mut self, now: Instant, cm: &mut Manager) {
        if !self.repeats.is_told {
            return;
        }
        let passed_due = self.find_passed(now, cm);
        let rttvar = self.flow.and_then(|flow| told(cm.query(flow))).map_or(Duration::ZERO, |path| path.rttvar);
        let is_reordered = self.repeats.reordered_at.is_some_and(|at| now - at < REMEMBERED);
        let passed = if is_reordered { self.patience_of(rttvar, true) } else { Duration::ZERO };
        let patience = [self.patience_of(rttvar, false), passed];
        while let Some(untold) = self.sender.first_untold() {
            let due = untold.at + patience[usize::from(untold.is_passed)];
            if due > now {
                self.timers.set(Timer::Overdue, passed_due.map_or(due, |at| at.min(due)));
                return;
            }
            let is_late = !untold.is_passed;
            *untold.told = if is_late { Told::Late } else { Told::Passed };
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

    /// Something is overdue, and nothing that was sent later is known to have arrived: what is sent now, though the window may be
    /// full, tells a round trip from now what was lost, if that is sooner than the timeout. Once in that time, and not after a timeout,
    /// which has probes of its own.
    fn probe(&mut self, now: Instant, patience: Duration, cm: &mut Manager) {
        let Some(flow) = self.flow.filter(|_| self.rate_sender.is_none() && self.silences == 0) else { return };
        let is_sooner = told(cm.timeout(flow)).is_some_and(|timeout| patience + self.rtt <= timeout);
        let is_due = self.repeats.probed_at.is_none_or(|at| now - at >= patience);
        // Before a round trip was measured nobody knows what is overdue.
        if is_sooner && is_due && self.measured_at.is_some() {
            self.repeats.probed_at = Some(now);
            told(cm.probe(now, flow, PROBES));
        }
    }

    /// What later packets have passed for long enough is lost. Gives when to look again.
    fn find_passed(&mut self, now: Instant, cm: &mut Manager) -> Option<Instant> {
        // A receiver that tells of rates tells of losses itself (RFC 4342 §6).
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

    /// How long after its sending something should have been heard of a packet.
    pub(super) fn patience(&self, cm: &Manager) -> Duration {
        let rttvar = self.flow.and_then(|flow| told(cm.query(flow))).map_or(Duration::ZERO, |path| path.rttvar);
        self.patience_of(rttvar, false)
    }

    /// How long after its sending a packet is overdue. If later ones have arrived (`is_passed`), a quarter of a round trip is
    /// granted to reordering, as RFC 8985 §6.2 does; else what round trips vary by, and for how long the peer is known to
    /// hold an acknowledgement.
    fn patience_of(&self, rttvar: Duration, is_passed: bool) -> Duration {
        if is_passed {
            self.rtt + (self.rtt / 4).max(LEAST_MARGIN).max(rttvar)
        } else {
            self.rtt + (self.rtt / 16).max(LEAST_MARGIN).max(rttvar * 4) + self.peer_delay.max(ACK_DELAY)
        }
    }

    /// How long the acknowledgement of the peer's data may wait here: not long, where a loss can still be made good.
    pub(super) fn ack_delay(&self) -> Duration {
        if self.repeats.delivered.is_some() { self.config.ack_delay.min(ACK_DELAY) } else { self.config.ack_delay }
    }
}
