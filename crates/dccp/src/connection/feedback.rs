//! Feedback on sent data: acknowledgements, timeouts and overdue packets, and the fate of each packet (RFC 4341 §5).

use timeous_cm::{Loss, Manager, Update};
use timeous_core::{Arrived, Duration, Instant};

use super::incoming::Incoming;
use super::parity::Verdict;
use super::timers::Timer;
use super::transmission::Control;
use super::{Connection, Event};
use crate::ccid2::{Feedback, OverdueReport, PacketFate};
use crate::packet::PacketType;
use crate::seq::Seq;

impl Connection {
    /// Processes the acknowledgement of a packet (part of step 8 of RFC 4340 §8.5).
    pub(super) fn process_acknowledgement(&mut self, now: Instant, cm: &mut Manager, incoming: &Incoming<'_>) {
        let header = incoming.header;
        // "receivers MUST NOT assume that a packet was processed simply because it appears in the Acknowledgement
        // Number field of a DCCP-Sync packet" (§5.7).
        let Some(ack) = header.ack().filter(|_| header.packet_type() != PacketType::Sync) else { return };
        self.acknowledgement.on_ack(ack);
        self.delivery.on_ack(ack);
        if self.congestion.flow().is_none() {
            return;
        }
        let (iss, _) = self.sequence.initials();
        let Some(mut feedback) = self.congestion.on_ack(iss, incoming, &mut self.log) else {
            self.log.statistics.unexpected += 1;
            return;
        };
        if incoming.options.feedback.is_feedback() {
            self.congestion.steer(now, cm, &mut self.timers);
        }
        let least = self.congestion.path(cm).and_then(|path| path.min_rtt);
        let came = incoming.arrived_at();
        let excess = self.round_trip.excess(came, incoming.options.sent_at, feedback.rtt, least);
        self.round_trip.on_ack(came.saturating_sub(excess), least, ack, incoming.options.elapsed);
        feedback.came_late(excess);
        self.congestion.undo_timeout(now, cm, &mut feedback);
        // Late arrivals already had their fate, but the undone timeout put their bytes in flight again.
        if !feedback.fates.is_empty() || feedback.rtt.is_some() || feedback.acked > 0 {
            self.apply(now, cm, &feedback, Loss::Transient);
            self.congestion.on_feedback(&feedback, now + self.round_trip.rtt(), &mut self.timers, &mut self.log);
            if feedback.overflowed > 0 {
                self.congestion.limit_rate(now, cm, feedback.overflowed, &mut self.timers);
            }
            if feedback.reordered {
                self.retransmission.on_reordered(now);
            }
            self.watch_overdue(now, cm);
            if self.congestion.in_flight().outstanding() > 0 {
                self.set_feedback_timer(now, cm);
            }
        }
        if self.congestion.rate_sender().is_none() {
            self.congestion.adapt_ack_ratio(ack, &mut self.negotiation);
        }
    }

    /// Reports feedback to the Congestion Manager and to the driver.
    fn apply(&mut self, now: Instant, cm: &mut Manager, feedback: &Feedback, lost_by: Loss) {
        let grows_in_lossy_windows = self.config.grows_in_lossy_windows;
        let update = (feedback, lost_by);
        let arrived = self.congestion.update(now, cm, update, grows_in_lossy_windows, &mut self.round_trip);
        self.report_fates(&feedback.fates, lost_by, arrived);
        self.watch_path_mtu(now, &feedback.fates, lost_by);
    }

    fn report_fates(&mut self, fates: &[PacketFate], lost_by: Loss, arrived: Option<(Seq, Arrived)>) {
        for fate in fates {
            let statistics = &mut self.log.statistics;
            match *fate {
                PacketFate::Acked { token, seq, marked, .. } => {
                    statistics.acked += 1;
                    statistics.ce_acked += u64::from(marked);
                    if let Some(token) = token {
                        let exactly = arrived.filter(|&(newest, _)| newest == seq).map(|(_, arrived)| arrived);
                        self.report_acked(token, seq, exactly);
                    }
                }
                PacketFate::Dropped { .. } => statistics.data_dropped += 1,
                PacketFate::Lost { .. } => statistics.lost += 1,
            }
            let verdicts = self.protection.on_fate(fate, lost_by);
            self.report_verdicts(verdicts.as_deref().unwrap_or_default());
            match *fate {
                PacketFate::Dropped { token, seq } => self.report_lost(token, seq),
                // Covered data may have been rebuilt from parity, or may be later.
                PacketFate::Lost { token, seq, .. } if verdicts.is_none() => self.report_lost(token, seq),
                _ => {}
            }
        }
    }

    /// Reports the final fate of lost data that parity covered.
    pub(super) fn report_verdicts(&mut self, verdicts: &[Verdict]) {
        for &Verdict { token, seq, came } in verdicts {
            if came { self.report_acked(token, seq, None) } else { self.report_lost(Some(token), seq) }
        }
    }

    /// Declares everything in flight lost, without a sign of congestion: the path has swallowed large packets, and they
    /// would keep the window closed.
    pub(super) fn abandon_in_flight(&mut self, now: Instant, cm: &mut Manager) {
        let mut feedback = self.congestion.in_flight_mut().give_up();
        feedback.newest_lost = None;
        if !feedback.fates.is_empty() {
            self.apply(now, cm, &feedback, Loss::Transient);
        }
    }

    /// Reports everything in flight as lost: no more feedback will come. Returns whether there was anything.
    pub(super) fn report_all_lost(&mut self) -> bool {
        let feedback = self.congestion.in_flight_mut().give_up();
        self.report_fates(&feedback.fates, Loss::Persistent, None);
        let verdicts = self.protection.give_up();
        self.report_verdicts(&verdicts);
        !feedback.fates.is_empty()
    }

    fn report_acked(&mut self, token: u64, seq: Seq, exactly: Option<Arrived>) {
        self.retransmission.forget(token);
        self.log.push(Event::Acked { token, at: self.round_trip.earliest_arrival(seq), exactly });
    }

    fn report_lost(&mut self, token: Option<u64>, seq: Seq) {
        if let Some(token) = token {
            self.retransmission.remember(token, seq);
            self.log.push(Event::Lost { token });
        }
    }

    /// Starts the timers for feedback after data were sent; restarts that of feedback if nothing else is in flight (RFC
    /// 6298 §5).
    pub(super) fn watch_sent(&mut self, now: Instant, cm: &Manager, is_adu: bool) {
        if self.congestion.in_flight().outstanding() == 1 && self.timers.is_set(Timer::Feedback) {
            self.set_feedback_timer(now, cm);
        }
        self.expect_feedback(now, cm);
        if is_adu && self.takes_repeats() && !self.timers.is_set(Timer::Overdue) {
            self.timers.set(Timer::Overdue, now + self.round_trip.patience(Duration::ZERO, None));
        }
    }

    /// Reports ADUs whose acknowledgement is overdue, and sets the timer for the next check.
    pub(super) fn watch_overdue(&mut self, now: Instant, cm: &mut Manager) {
        if !self.takes_repeats() {
            return;
        }
        let passed_due = self.find_passed(now, cm);
        let rttvar = self.congestion.rttvar(cm);
        let is_reordered = self.retransmission.is_reordered(now);
        let reordering = self.congestion.in_flight().reordering();
        let passed = if is_reordered { self.round_trip.patience(rttvar, Some(reordering)) } else { Duration::ZERO };
        let patience = [self.round_trip.patience(rttvar, None), passed];
        while let Some(untold) = self.congestion.in_flight_mut().first_untold() {
            let due = untold.at + patience[usize::from(untold.is_passed)];
            if due > now {
                self.timers.set(Timer::Overdue, passed_due.map_or(due, |at| at.min(due)));
                return;
            }
            let is_late = !untold.is_passed;
            *untold.told = if is_late { OverdueReport::Late } else { OverdueReport::Passed };
            self.retransmission.remember(untold.token, untold.seq);
            self.log.push(Event::Overdue { token: untold.token });
            // Without a measured round trip, nothing can be called overdue.
            if is_late && self.round_trip.is_measured() {
                self.congestion.probe(now, cm, patience[0], self.round_trip.rtt());
            }
        }
        self.timers.update(Timer::Overdue, passed_due);
    }

    /// Declares packets lost that later ones passed long enough ago. Returns the time of the next check.
    fn find_passed(&mut self, now: Instant, cm: &mut Manager) -> Option<Instant> {
        // With CCID 3 and 4 the receiver reports losses itself (RFC 4342 §6).
        if self.congestion.rate_sender().is_some() {
            return None;
        }
        let reordering = self.congestion.in_flight().reordering();
        let patience = self.round_trip.patience(self.congestion.rttvar(cm), Some(reordering));
        let feedback = self.congestion.in_flight_mut().declare_passed(now, patience);
        if !feedback.fates.is_empty() {
            self.apply(now, cm, &feedback, Loss::Transient);
            if self.congestion.in_flight().outstanding() > 0 {
                self.set_feedback_timer(now, cm);
            }
        }
        self.congestion.in_flight().passed().map(|at| at + patience)
    }

    /// Handles a feedback timeout: all packets in flight are lost, and the window collapses (RFC 4341 §5). With nothing
    /// in flight and a silent peer, probes the peer.
    pub(super) fn on_feedback_timeout(&mut self, now: Instant, cm: &mut Manager) {
        let had_data = self.congestion.in_flight().outstanding() > 0;
        self.round_trip.end_wait();
        if had_data {
            self.log.statistics.timeouts += 1;
            let patience = self.round_trip.patience(self.congestion.rttvar(cm), None);
            let feedback = self.congestion.time_out(now, patience);
            self.apply(now, cm, &feedback, Loss::Persistent);
        } else if self.timers.is_set(Timer::Silence) {
            // "if DCCP B wants to elicit an acknowledgement, it can send a DCCP-Sync" (RFC 4340 §11.2).
            self.transmission.queue(Control::Sync(self.sequence.gsr()));
        } else {
            return;
        }
        self.congestion.count_silence(had_data);
        self.set_feedback_timer(now, cm);
    }

    fn set_feedback_timer(&mut self, now: Instant, cm: &Manager) {
        self.congestion.set_feedback_timer(now, cm, &self.round_trip, &mut self.timers);
    }

    pub(super) fn expect_feedback(&mut self, now: Instant, cm: &Manager) {
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
        if self.congestion.in_flight().outstanding() > 0 {
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
        if self.congestion.rate_sender().is_some() || had_packets {
            self.congestion.close(now, cm);
            self.congestion.open(cm, self.target.destination, &self.config);
        }
        let handshake_rtt = self.handshake_rtt();
        self.congestion.set_ccid(now, ccid, handshake_rtt, &self.config);
        self.congestion.steer(now, cm, &mut self.timers);
        if let Some(rtt) = handshake_rtt.filter(|_| ccid.is_rate_based()) {
            self.congestion.tell(now, cm, Update { rtt: Some(rtt), ..Update::default() });
            self.round_trip.on_update(Some(rtt), None);
        }
    }
}
