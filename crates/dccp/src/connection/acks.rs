//! Processing of the peer's acknowledgements: fate of each packet, congestion response, Ack Ratio (RFC 4341 §5, §6).

use timeous_cm::{Loss, Manager, Update};
use timeous_core::{Duration, Instant};

use super::options::Heard;
use super::parity::covered::Verdict;
use super::sequence::MAX_SEQUENCE_WINDOW;
use super::{Connection, Event, Timer, told};
use crate::ack_vector::{PacketState, Report, Reports, vectors_of};
use crate::ccid2::{Feedback, Late, PacketFate};
use crate::features::{Feature, Location};
use crate::options::{DropBlock, Opt, drop_blocks};
use crate::packet::{Header, Packet, PacketType};
use crate::seq::Seq;

/// Upper bound of the acknowledgement delay that we believe a peer to have: TCP's (RFC 9293 §3.8.6.3). A higher value
/// lets a peer make our timeouts longer.
const MAX_PEER_DELAY: Duration = Duration::from_millis(500);

impl Connection {
    /// Processes the acknowledgement of a packet (part of step 8 of RFC 4340 §8.5).
    pub(super) fn process_acknowledgement(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        packet: &Packet<'_>,
        header: &Header,
        heard: &Heard,
    ) {
        // "receivers MUST NOT assume that a packet was processed simply because it appears in the Acknowledgement
        // Number field of a DCCP-Sync packet" (§5.7).
        let Some(ack) = header.ack().filter(|_| header.packet_type() != PacketType::Sync) else { return };
        self.vector.on_ack(ack);
        self.reception.drops.on_ack(ack);
        if self.flow.is_none() {
            return;
        }
        let options = packet.options().flatten().filter_map(|item| match item.opt {
            Opt::DataDropped(blocks) => Some(blocks),
            _ => None,
        });
        let dropped: Vec<DropBlock> = drop_blocks(ack, options).filter(|block| block.code.is_some()).collect();
        let elapsed = heard.elapsed;
        let mut feedback = match Reports::new(ack, self.sequence.iss(), vectors_of(packet.options())) {
            Ok(reports) if self.rate_sender.is_some() => {
                let reports = self.heed_feedback(now, cm, ack, heard, reports.collect());
                self.sender.on_ack(now, ack, elapsed, &dropped, reports.into_iter())
            }
            // Without an Ack Vector only the Acknowledgement Number itself is acknowledged.
            Ok(mut reports) => match reports.next() {
                None => {
                    let only = Report { newest: ack, oldest: ack, state: PacketState::Received };
                    self.sender.on_ack(now, ack, elapsed, &dropped, std::iter::once(only))
                }
                Some(first) => self.sender.on_ack(now, ack, elapsed, &dropped, std::iter::once(first).chain(reports)),
            },
            // Ack Vectors that cover packets never sent are ignored, as §11.4 allows.
            Err(_) => {
                self.statistics.unexpected += 1;
                return;
            }
        };
        let least = self.flow.and_then(|flow| told(cm.query(flow))).and_then(|path| path.min_rtt);
        self.arrival.note(now, least, ack, elapsed);
        self.peer_delay = self.peer_delay.max(elapsed.min(MAX_PEER_DELAY));
        self.heed_late(now, cm, &mut feedback);
        // Late arrivals already had their fate, but `heed_late` put their bytes in flight again: `acked` counts them.
        if !feedback.fates.is_empty() || feedback.rtt.is_some() || feedback.acked > 0 {
            self.apply(now, cm, &feedback, Loss::Transient);
            self.heed_drops(now, &feedback);
            if feedback.overflowed > 0 {
                self.restrain_rate(now, cm, feedback.overflowed);
            }
            self.silences = 0;
            if feedback.reordered {
                self.repeats.reordered_at = Some(now);
            }
            self.watch_overdue(now, cm);
            if self.sender.outstanding() > 0 {
                self.set_feedback_timer(now, cm);
            }
        }
        if self.rate_sender.is_none() {
            self.end_round(ack);
        }
    }

    /// Undoes a spurious timeout: the packets taken for lost were in flight. The source has had their fate already.
    fn heed_late(&mut self, now: Instant, cm: &mut Manager, feedback: &mut Feedback) {
        let Late { bytes, is_spurious } = feedback.late;
        let Some(flow) = self.flow.filter(|_| is_spurious && self.rate_sender.is_none()) else { return };
        told(cm.undo_timeout(now, flow, bytes, bytes));
        feedback.acked += bytes;
    }

    /// Reports an acknowledgement's result to the Congestion Manager and to the driver.
    pub(super) fn apply(&mut self, now: Instant, cm: &mut Manager, feedback: &Feedback, lost_by: Loss) {
        self.protection.losses.note(&feedback.fates, lost_by);
        self.report_fates(&feedback.fates);
        let Some(flow) = self.flow else { return };
        // A loss outweighs an ECN mark; both in one window are one congestion event (RFC 4341 §5).
        let loss = match (feedback.newest_lost, feedback.newest_marked) {
            (Some(lost), marked) => Some((lost_by, marked.map_or(lost, |marked| marked.max(lost)))),
            (None, Some(marked)) => Some((Loss::Ecn, marked)),
            (None, None) => None,
        };
        let (acked, lost) = (feedback.acked, feedback.lost);
        // After a timeout, slow start does the recovery (RFC 5681 §3.1).
        let congested = loss.is_some() && lost_by != Loss::Persistent;
        let recovering = self.sender.holds_window(congested) && !self.config.grows_in_lossy_windows;
        let recovering = recovering || self.restraint.is_level(now);
        let update = Update {
            acked,
            lost,
            loss,
            rtt: feedback.rtt,
            overtaken_by: feedback.overtaken_by,
            recovering,
            ..Update::default()
        };
        told(cm.update(now, flow, update));
        if let Some(srtt) = told(cm.query(flow)).and_then(|path| path.srtt) {
            self.rtt = srtt;
        }
        if feedback.rtt.is_some() {
            (self.measured_at, self.least_timeout) = (Some(now), Duration::ZERO);
        }
    }

    pub(super) fn report_fates(&mut self, fates: &[PacketFate]) {
        for fate in fates {
            match *fate {
                PacketFate::Acked { token, seq, marked } => {
                    self.statistics.acked += 1;
                    self.statistics.ce_acked += u64::from(marked);
                    if let Some(token) = token {
                        self.report_acked(token, seq);
                    }
                    let covered = &mut self.protection.covered;
                    let verdicts = covered.decide(seq, true, token);
                    let verdicts = verdicts.or_else(|| token.map(|token| covered.came_again(seq, token)));
                    self.report_verdicts(&verdicts.unwrap_or_default());
                }
                PacketFate::Dropped { token, seq } => {
                    self.statistics.data_dropped += 1;
                    let verdicts = self.protection.covered.decide(seq, false, None);
                    self.report_verdicts(&verdicts.unwrap_or_default());
                    self.report_lost(token, seq);
                }
                PacketFate::Lost { token, seq } => {
                    self.statistics.lost += 1;
                    match self.protection.covered.decide(seq, false, token) {
                        // The data may have been rebuilt from parity, or may be later.
                        Some(verdicts) => self.report_verdicts(&verdicts),
                        None => self.report_lost(token, seq),
                    }
                }
            }
        }
    }

    /// Reports the final fate of lost data that parity covered.
    pub(super) fn report_verdicts(&mut self, verdicts: &[Verdict]) {
        for &Verdict { token, seq, came } in verdicts {
            if came { self.report_acked(token, seq) } else { self.report_lost(Some(token), seq) }
        }
    }

    /// Reports everything in flight as lost: no more feedback will come.
    pub(super) fn report_all_lost(&mut self) {
        let feedback = self.sender.give_up();
        self.report_fates(&feedback.fates);
        let verdicts = self.protection.covered.give_up();
        self.report_verdicts(&verdicts);
    }

    fn report_acked(&mut self, token: u64, seq: Seq) {
        self.repeats.forget(token);
        self.events.push_back(Event::Acked { token, at: self.arrival.earliest(seq) });
    }

    fn report_lost(&mut self, token: Option<u64>, seq: Seq) {
        if let Some(token) = token {
            self.repeats.remember(token, seq);
            self.events.push_back(Event::Lost { token });
        }
    }

    /// Adapts the Ack Ratio, once per window of data (RFC 4341 §6.1.2). Waits while another feature is being
    /// negotiated: a further Change would void the answer on its way.
    fn end_round(&mut self, ack: Seq) {
        if let Some(data) = self.round.end(ack) {
            self.ack_ratio.on_window(data);
        }
        let ratio = self.ack_ratio.ratio();
        if ratio != self.features.local(Feature::AckRatio) && !self.features.is_negotiating() {
            self.announce(Feature::AckRatio, ratio);
        }
    }

    /// Grows the Sequence Window to "about five times the maximum number of packets it expects to send in a round-trip
    /// time" (RFC 4340 §7.5.2), estimated by the unacknowledged packets, pure acknowledgements included. Grows early,
    /// since the answer takes a round trip, and never shrinks: a pause should not desynchronize the connection later.
    ///
    /// One Change at a time: only the answer to the newest Change counts (§6.6.4), so a new Change in every round trip
    /// would never succeed.
    pub(super) fn grow_sequence_window(&mut self) {
        let open = self.sequence.gss().distance_from(self.sequence.gar());
        let wanted = (open * 5).next_power_of_two().min(MAX_SEQUENCE_WINDOW);
        let current = self.features.local(Feature::SequenceWindow);
        if open * 4 > current && wanted > current && self.features.is_settled(Feature::SequenceWindow, Location::Local)
        {
            self.announce(Feature::SequenceWindow, wanted);
        }
    }

    fn announce(&mut self, feature: Feature, value: u64) {
        self.features.propose(feature, Location::Local, &[value], false).expect("a legal value of our own feature");
    }

    /// Whether more packets in flight could push their acknowledgements out of the window (§7.5.1).
    pub(super) fn is_sequence_window_full(&self) -> bool {
        self.sender.span() >= self.sequence.window_sent * 3 / 4
    }

    /// Notes that an acknowledgement leaves, alone or with data.
    pub(super) fn acknowledged(&mut self, now: Instant) {
        self.receiver.on_acknowledged();
        self.timers.stop(Timer::AckDelay);
        self.owes_ack = false;
        self.acked_at = now;
    }

    /// Whether a data packet should carry an acknowledgement: always for received data, and for received
    /// acknowledgements "at least once per congestion window" (RFC 4341 §6.2).
    pub(super) fn should_piggyback(&self, now: Instant) -> bool {
        self.receiver.has_unacknowledged() || self.owes_old_ack(now)
    }

    /// Whether an acknowledgement sent now will be in the peer's window on arrival (RFC 4340 §7.5.1), even if the peer
    /// sends up to three round trips' worth meanwhile. Linux keeps windows too small for its own acknowledgements and
    /// drops data with an acknowledgement outside of them; it always takes data without one.
    pub(super) fn is_ack_timely(&self) -> bool {
        self.peer_pace.numbers(self.sequence.gsr()) * 3 < self.sequence.window_received
    }

    /// Whether the peer has had no acknowledgement for a round trip although its packets arrive.
    pub(super) fn owes_old_ack(&self, now: Instant) -> bool {
        self.owes_ack && now - self.acked_at >= self.rtt
    }
}
