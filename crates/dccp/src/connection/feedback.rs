//! Feedback on sent data: acknowledgements, timeouts and overdue packets, and the fate of each packet (RFC 4341 §5).

use timeous_cm::{Loss, Manager};
use timeous_core::{Duration, Instant};

use super::Connection;
use super::options::ReceivedOptions;
use super::parity::Verdict;
use super::timers::Timer;
use super::transmission::Control;
use crate::ack_vector::{Reports, vectors_of};
use crate::ccid2::{Feedback, OverdueReport, PacketFate};
use crate::options::{DropBlock, Opt, drop_blocks};
use crate::packet::{Header, Packet, PacketType};
use crate::seq::Seq;

impl Connection {
    /// Processes the acknowledgement of a packet (part of step 8 of RFC 4340 §8.5).
    pub(super) fn process_acknowledgement(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        packet: &Packet<'_>,
        header: &Header,
        options: &ReceivedOptions,
    ) {
        // "receivers MUST NOT assume that a packet was processed simply because it appears in the Acknowledgement
        // Number field of a DCCP-Sync packet" (§5.7).
        let Some(ack) = header.ack().filter(|_| header.packet_type() != PacketType::Sync) else { return };
        self.acknowledgement.on_ack(ack);
        self.delivery.on_ack(ack);
        if self.congestion.flow().is_none() {
            return;
        }
        let drops = packet.options().flatten().filter_map(|item| match item.opt {
            Opt::DataDropped(blocks) => Some(blocks),
            _ => None,
        });
        let dropped: Vec<DropBlock> = drop_blocks(ack, drops).filter(|block| block.code.is_some()).collect();
        let iss = self.sequence.iss();
        // Ack Vectors that cover packets never sent are ignored, as §11.4 allows.
        let Ok(reports) = Reports::new(ack, iss, vectors_of(packet.options())) else {
            self.log.statistics.unexpected += 1;
            return;
        };
        let statistics = &mut self.log.statistics;
        let mut feedback = self.congestion.on_ack(now, (ack, iss), options, &dropped, reports, statistics);
        if options.feedback.is_feedback() {
            self.congestion.steer(now, cm, &mut self.timers);
        }
        let least = self.congestion.path(cm).and_then(|path| path.min_rtt);
        self.round_trip.on_ack(now, least, ack, options.elapsed);
        self.congestion.undo_timeout(now, cm, &mut feedback);
        // Late arrivals already had their fate, but the undone timeout put their bytes in flight again.
        if !feedback.fates.is_empty() || feedback.rtt.is_some() || feedback.acked > 0 {
            self.apply(now, cm, &feedback, Loss::Transient);
            self.congestion.on_drops(now, &feedback, self.round_trip.rtt(), &mut self.timers, &mut self.log);
            if feedback.overflowed > 0 {
                self.congestion.limit_rate(now, cm, feedback.overflowed, &mut self.timers);
            }
            self.congestion.end_silence();
            if feedback.reordered {
                self.retransmission.on_reordered(now);
            }
            self.watch_overdue(now, cm);
            self.restart_feedback_timer(now, cm);
        }
        if !self.congestion.is_rate_based() {
            self.congestion.adapt_ack_ratio(ack, &mut self.negotiation);
        }
    }

    /// Reports feedback to the Congestion Manager and to the driver.
    fn apply(&mut self, now: Instant, cm: &mut Manager, feedback: &Feedback, lost_by: Loss) {
        self.protection.count_losses(&feedback.fates, lost_by);
        self.report_fates(&feedback.fates);
        let grows_in_lossy_windows = self.config.grows_in_lossy_windows;
        self.congestion.update(now, cm, (feedback, lost_by), grows_in_lossy_windows, &mut self.round_trip);
    }

    fn report_fates(&mut self, fates: &[PacketFate]) {
        for fate in fates {
            match *fate {
                PacketFate::Acked { token, seq, marked } => {
                    self.log.statistics.acked += 1;
                    self.log.statistics.ce_acked += u64::from(marked);
                    if let Some(token) = token {
                        self.report_acked(token, seq);
                    }
                    let verdicts = self.protection.decide(seq, true, token);
                    let verdicts = verdicts.or_else(|| token.map(|token| self.protection.came_again(seq, token)));
                    self.report_verdicts(&verdicts.unwrap_or_default());
                }
                PacketFate::Dropped { token, seq } => {
                    self.log.statistics.data_dropped += 1;
                    let verdicts = self.protection.decide(seq, false, None);
                    self.report_verdicts(&verdicts.unwrap_or_default());
                    self.report_lost(token, seq);
                }
                PacketFate::Lost { token, seq } => {
                    self.log.statistics.lost += 1;
                    match self.protection.decide(seq, false, token) {
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

    /// Reports everything in flight as lost: no more feedback will come. Returns whether there was anything.
    pub(super) fn report_all_lost(&mut self) -> bool {
        let feedback = self.congestion.give_up();
        self.report_fates(&feedback.fates);
        let verdicts = self.protection.give_up();
        self.report_verdicts(&verdicts);
        !feedback.fates.is_empty()
    }

    fn report_acked(&mut self, token: u64, seq: Seq) {
        self.retransmission.on_acked(token, self.round_trip.earliest_arrival(seq), &mut self.log.events);
    }

    fn report_lost(&mut self, token: Option<u64>, seq: Seq) {
        if let Some(token) = token {
            self.retransmission.on_lost(token, seq, &mut self.log.events);
        }
    }

    /// Starts the timers for feedback after data were sent; restarts that of feedback if nothing else is in flight (RFC
    /// 6298 §5).
    pub(super) fn watch_sent(&mut self, now: Instant, cm: &Manager) {
        if self.congestion.outstanding() == 1 && self.timers.is_set(Timer::Feedback) {
            self.set_feedback_timer(now, cm);
        }
        self.expect_feedback(now, cm);
    }

    /// Starts the timer for overdue acknowledgements after an ADU was sent.
    pub(super) fn watch_sent_adu(&mut self, now: Instant) {
        if self.retransmission.is_accepted() && !self.timers.is_set(Timer::Overdue) {
            self.timers.set(Timer::Overdue, now + self.round_trip.patience(Duration::ZERO, false));
        }
    }

    /// Reports ADUs whose acknowledgement is overdue, and sets the timer for the next check.
    pub(super) fn watch_overdue(&mut self, now: Instant, cm: &mut Manager) {
        if !self.retransmission.is_accepted() {
            return;
        }
        let passed_due = self.find_passed(now, cm);
        let rttvar = self.congestion.rttvar(cm);
        let is_reordered = self.retransmission.is_reordered(now);
        let passed = if is_reordered { self.round_trip.patience(rttvar, true) } else { Duration::ZERO };
        let patience = [self.round_trip.patience(rttvar, false), passed];
        while let Some(untold) = self.congestion.first_untold() {
            let due = untold.at + patience[usize::from(untold.is_passed)];
            if due > now {
                self.timers.set(Timer::Overdue, passed_due.map_or(due, |at| at.min(due)));
                return;
            }
            let is_late = !untold.is_passed;
            *untold.told = if is_late { OverdueReport::Late } else { OverdueReport::Passed };
            self.retransmission.on_overdue(untold.token, untold.seq, &mut self.log.events);
            if is_late {
                self.probe(now, patience[0], cm);
            }
        }
        self.timers.update(Timer::Overdue, passed_due);
    }

    /// Sends probes beyond the window: an acknowledgement is overdue and no later one has come. Their feedback reveals
    /// losses a round trip from now, if that is sooner than the timeout. At most once per `patience`.
    fn probe(&mut self, now: Instant, patience: Duration, cm: &mut Manager) {
        let is_sooner = self.congestion.may_probe(cm, patience, self.round_trip.rtt());
        // Without a measured round trip, nothing can be called overdue.
        if is_sooner && self.retransmission.may_probe(now, patience) && self.round_trip.is_measured() {
            self.retransmission.on_probe(now);
            self.congestion.probe(now, cm);
        }
    }

    /// Declares packets lost that later ones passed long enough ago. Returns the time of the next check.
    fn find_passed(&mut self, now: Instant, cm: &mut Manager) -> Option<Instant> {
        // With CCID 3 and 4 the receiver reports losses itself (RFC 4342 §6).
        if self.congestion.is_rate_based() {
            return None;
        }
        let patience = self.round_trip.patience(self.congestion.rttvar(cm), true);
        let feedback = self.congestion.declare_passed(now, patience);
        if !feedback.fates.is_empty() {
            self.apply(now, cm, &feedback, Loss::Transient);
            self.restart_feedback_timer(now, cm);
        }
        self.congestion.passed().map(|at| at + patience)
    }

    /// Handles a feedback timeout: all packets in flight are lost, and the window collapses (RFC 4341 §5). With nothing
    /// in flight and a silent peer, probes the peer.
    pub(super) fn on_feedback_timeout(&mut self, now: Instant, cm: &mut Manager) {
        let had_data = self.congestion.outstanding() > 0;
        self.round_trip.end_wait();
        if had_data {
            self.log.statistics.timeouts += 1;
            let patience = self.round_trip.patience(self.congestion.rttvar(cm), false);
            let feedback = self.congestion.time_out(now, patience);
            self.apply(now, cm, &feedback, Loss::Persistent);
        } else if self.timers.is_set(Timer::Silence) {
            // "if DCCP B wants to elicit an acknowledgement, it can send a DCCP-Sync" (RFC 4340 §11.2).
            self.transmission.queue(Control::Sync { ack: self.sequence.gsr() });
        } else {
            return;
        }
        self.congestion.count_silence(had_data);
        self.set_feedback_timer(now, cm);
    }

    /// Probes an idle peer.
    pub(super) fn on_keep_alive(&mut self, now: Instant, cm: &Manager) {
        self.transmission.queue(Control::Sync { ack: self.sequence.gsr() });
        self.expect_feedback(now, cm);
    }

    fn set_feedback_timer(&mut self, now: Instant, cm: &Manager) {
        self.congestion.set_feedback_timer(now, cm, &self.round_trip, &mut self.timers);
    }

    /// Restarts the feedback timer if data are in flight.
    fn restart_feedback_timer(&mut self, now: Instant, cm: &Manager) {
        if self.congestion.outstanding() > 0 {
            self.set_feedback_timer(now, cm);
        }
    }

    /// Starts the feedback and silence timers.
    fn expect_feedback(&mut self, now: Instant, cm: &Manager) {
        if !self.timers.is_set(Timer::Feedback) {
            self.round_trip.begin_wait(now);
            self.set_feedback_timer(now, cm);
        }
        if !self.timers.is_set(Timer::Silence) {
            self.timers.set(Timer::Silence, now + self.config.silence);
        }
    }

    /// Restarts the silence and keep-alive timers: the peer has shown that it is alive.
    pub(super) fn watch_silence(&mut self, now: Instant) {
        if let Some(after) = self.config.keep_alive.filter(|_| self.state().is_established()) {
            self.timers.set(Timer::KeepAlive, now + after);
        }
        if self.congestion.outstanding() > 0 {
            self.timers.set(Timer::Silence, now + self.config.silence);
        } else {
            self.timers.stop(Timer::Silence);
            self.timers.stop(Timer::Feedback);
        }
    }

    /// Sets up the sender for the negotiated congestion control of our data, once data may flow.
    pub(super) fn set_ccid(&mut self, now: Instant, cm: &mut Manager) {
        let ccid = self.ccid();
        if self.congestion.ccid() == ccid || self.congestion.flow().is_none() || !self.negotiation.is_ccid_settled() {
            return;
        }
        // Packets in flight were sent under another congestion control.
        let had_packets = self.report_all_lost();
        if self.congestion.is_rate_based() || had_packets {
            self.congestion.close(now, cm);
            self.congestion.open(cm, self.target.destination, &self.config);
        }
        let handshake_rtt = self.handshake_rtt();
        self.congestion.set_ccid(now, cm, (ccid, handshake_rtt), &self.config, &mut self.timers);
        if let Some(rtt) = handshake_rtt.filter(|_| ccid.is_rate_based()) {
            self.round_trip.set(rtt);
        }
    }
}
