//! Loss detection and recovery (RFC 6675 §5, RFC 6582 §3.2, RFC 8985 §6.2).

use timeous_cm::Loss;
use timeous_core::Instant;

use super::{DUP_THRESH, Detection, Feedback, Phase, RoundTrip, Sender, Verdict};

impl Sender {
    pub(super) fn detect(
        &mut self,
        now: Instant,
        path: RoundTrip,
        is_duplicate: bool,
        advanced: bool,
        feedback: &mut Feedback,
        verdict: &mut Verdict,
    ) {
        if is_duplicate && self.phase == Phase::Open {
            self.dup_acks += 1;
        }
        match self.detection {
            Detection::DuplicateAcks => self.detect_by_duplicates(is_duplicate, advanced, feedback, verdict),
            Detection::DupThresh => self.board.lose_by_dup_thresh(DUP_THRESH as usize, 2 * self.smss, feedback),
            Detection::Rack => verdict.look_again = self.detect_by_time(now, path, feedback),
        }
        // "If DupAcks >= DupThresh", for segments that are smaller than SMSS (RFC 6675 §5 step 1).
        if self.detection == Detection::DupThresh && self.dup_acks >= DUP_THRESH && self.phase == Phase::Open {
            self.board.lose(0, feedback);
        }
        self.answer_loss(feedback, verdict);
    }

    /// Runs RACK, and returns when it has to run again.
    fn detect_by_time(&mut self, now: Instant, path: RoundTrip, feedback: &mut Feedback) -> Option<Instant> {
        let recovering = self.phase != Phase::Open;
        self.rack.detect(now, &mut self.board, recovering, (path.least, path.smoothed), feedback)
    }

    /// Handles the RACK reordering timer: an overtaken segment is lost by now (RFC 8985 §6.2, step 5).
    pub(crate) fn look_again(&mut self, now: Instant, path: RoundTrip) -> Verdict {
        let feedback = &mut self.feedback.take_cleared();
        let mut verdict = Verdict { holds_window: true, beyond_gap: self.beyond_gap(), ..Verdict::default() };
        if self.detection == Detection::Rack {
            verdict.look_again = self.detect_by_time(now, path, feedback);
            self.answer_loss(feedback, &mut verdict);
        }
        self.report(feedback, verdict)
    }

    /// Runs NewReno: each duplicate acknowledgement stands for an arrived segment, the third one shows a loss, and a
    /// partial acknowledgement shows the next one (RFC 6582 §3.2).
    fn detect_by_duplicates(
        &mut self,
        is_duplicate: bool,
        advanced: bool,
        feedback: &mut Feedback,
        verdict: &mut Verdict,
    ) {
        if is_duplicate && !matches!(self.phase, Phase::Timeout { .. }) {
            if self.phase == Phase::Open && self.dup_acks == DUP_THRESH {
                self.board.lose(0, feedback);
            }
            // The first segment is the missing one.
            let from = self.presumed.max(self.board.get(0).map_or(0, |first| first.end));
            if let Some((end, bytes)) = self.board.presume_departed(from) {
                self.presumed = end;
                feedback.acked += bytes;
            }
        } else if advanced && self.phase.is_recovery() {
            verdict.first_partial = !std::mem::replace(&mut self.had_partial, true);
            // If it was presumed to have arrived, another segment did.
            if self.board.get(0).is_some_and(|first| first.copies == 0 && !first.waiting)
                && let Some((end, bytes)) = self.board.presume_departed(self.presumed)
            {
                self.presumed = end;
                feedback.lost += bytes;
            }
            self.board.lose(0, feedback);
            self.is_urgent = true;
        }
    }

    /// Begins a recovery for detected losses, unless one is in progress.
    fn answer_loss(&mut self, feedback: &Feedback, verdict: &mut Verdict) {
        let first_waiting = self.board.next_waiting().and_then(|at| self.board.get(at)).map(|sent| sent.sent_at);
        match (self.phase, first_waiting) {
            (Phase::Open, Some(first)) => {
                self.phase = Phase::Recovery { point: self.nxt() };
                self.is_urgent = true;
                self.had_partial = false;
                (self.next_doubt, self.rescued) = (self.una(), self.una());
                self.probe.reset();
                self.ecn.reduced(self.nxt());
                verdict.recovery_began = true;
                verdict.loss = Some((Loss::Transient, feedback.newest_lost.unwrap_or(first)));
            }
            // "the loss of a retransmission, should be taken as two indications of congestion" (RFC 5681 §4.3). Others
            // belong to the event that was reported.
            _ => {
                let again = feedback.newest_lost_again.map(|at| (Loss::Transient, at));
                verdict.loss = again.or(feedback.newest_lost.map(|at| (Loss::None, at)));
            }
        }
    }
}
