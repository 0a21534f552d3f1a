//! Send side: data in flight, loss detection, retransmission (RFC 6675, RFC 6582, RFC 8985).

mod acknowledgement;
mod bundle;
mod bundling;
mod detect;
mod ecn;
mod feedback;
mod late;
mod leave;
mod payload;
mod phase;
mod probe;
mod rack;
mod sacked;
mod scoreboard;
mod sent;
mod spurious;

use timeous_cm::{Departure, Loss, Observed};
use timeous_core::{Duration, Instant};

pub(crate) use acknowledgement::{Acknowledgement, RoundTrip, Verdict};
pub(crate) use late::Late;
pub(crate) use payload::{Changes, Fresh, Kept, Payload, Room, Settled};
pub(crate) use phase::Phase;
pub(crate) use probe::MAX_ACK_DELAY;

use bundling::Bundling;
use ecn::EcnSender;
use feedback::Feedback;
use payload::{Arrived, DELAYED_ACK};
use probe::{Probe, Seen};
use rack::Rack;
use scoreboard::Scoreboard;
use spurious::Timeout;

/// Segments SACKed above a segment from which it is lost: `DupThresh` of RFC 6675 §2.
const DUP_THRESH: u32 = 3;

/// Maximum number of times a timeout is doubled; the bound on the timeout itself applies earlier. Chosen by us: it only
/// prevents an overflow.
const MAX_BACKOFF: u32 = 32;

/// Next transmission, as far as this end decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Retransmission of the segment at this place, regardless of the window (RFC 6675 §5 step 4.3, RFC 6298 §5.4).
    AgainNow(usize),
    /// Retransmission of the segment at this place.
    Again(usize),
    /// New data.
    Fresh,
}

/// Loss detection in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detection {
    /// Three duplicate acknowledgements (RFC 6582).
    DuplicateAcks,
    /// RFC 6675's scoreboard.
    DupThresh,
    /// RACK, besides the scoreboard (RFC 8985 §6).
    Rack,
}

/// Send side of a connection. Numbers are stream offsets: 0 is the first byte after the SYN.
#[derive(Debug)]
pub(crate) struct Sender {
    board: Scoreboard,
    payload: Box<dyn Payload>,
    is_refusal_reported: bool,
    detection: Detection,
    rack: Rack,
    phase: Phase,
    dup_acks: u32,
    /// Full-sized segments, for RFC 6675's `DupThresh` in bytes.
    smss: u64,
    /// The next retransmission is sent regardless of the window.
    is_urgent: bool,
    /// Offset behind RFC 6675's HighRxt.
    next_doubt: u64,
    /// RFC 6675's RescueRxt.
    rescued: u64,
    /// Start of the next segment that a duplicate acknowledgement may stand for.
    presumed: u64,
    /// Consecutive retransmission timeouts.
    backoff: u32,
    timeout: Timeout,
    /// Whether this recovery has seen a partial acknowledgement.
    had_partial: bool,
    probe: Probe,
    pub(crate) ecn: EcnSender,
    bundling: Bundling,
    feedback: Feedback,
    newest_acked: Instant,
    /// Arrival time of the latest acknowledgement.
    heard_at: Instant,
}

impl Sender {
    pub(crate) fn new(payload: Box<dyn Payload>, smss: u64, detection: Detection, ecn: bool) -> Self {
        Self {
            board: Scoreboard::default(),
            payload,
            is_refusal_reported: false,
            detection,
            rack: Rack::default(),
            phase: Phase::Open,
            dup_acks: 0,
            smss,
            is_urgent: false,
            next_doubt: 0,
            rescued: 0,
            presumed: 0,
            backoff: 0,
            timeout: Timeout::default(),
            had_partial: false,
            probe: Probe::default(),
            ecn: EcnSender::new(ecn),
            bundling: Bundling::new(false),
            feedback: Feedback::default(),
            newest_acked: Instant::ZERO,
            heard_at: Instant::ZERO,
        }
    }

    /// Returns SND.UNA.
    pub(crate) fn una(&self) -> u64 {
        self.board.una()
    }

    /// Returns SND.NXT.
    pub(crate) fn nxt(&self) -> u64 {
        self.board.nxt()
    }

    /// Returns RFC 6675's pipe: data bytes in flight. The Congestion Manager has the same number.
    pub(crate) fn pipe(&self) -> u64 {
        self.board.pipe()
    }

    /// Returns the unacknowledged bytes that are not in the pipe: SACKed or lost.
    fn beyond_gap(&self) -> u64 {
        (self.nxt() - self.una()).saturating_sub(self.pipe())
    }

    /// Returns whether everything sent is acknowledged.
    pub(crate) fn is_idle(&self) -> bool {
        self.board.is_empty()
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    pub(crate) fn backoff(&self) -> u32 {
        self.backoff
    }

    /// Returns whether the loss detection uses [`RoundTrip`].
    pub(crate) fn needs_round_trip(&self) -> bool {
        self.detection == Detection::Rack
    }

    /// Returns whether an acknowledgement of new data restarts the retransmission timer (RFC 6298 §5.3); in NewReno's recovery only the
    /// first partial one does (RFC 6582 §3.2).
    pub(crate) fn restarts_timer(&self, verdict: &Verdict) -> bool {
        self.detection != Detection::DuplicateAcks || !self.phase.is_recovery() || verdict.first_partial
    }

    /// Returns the number of segments that are in flight or lost.
    pub(crate) fn segments(&self) -> usize {
        self.board.segments()
    }

    /// Processes an acknowledgement.
    pub(crate) fn on_ack(&mut self, now: Instant, ack: &Acknowledgement<'_>, path: RoundTrip) -> Verdict {
        let feedback = &mut self.feedback.take_cleared();
        let beyond_gap = self.beyond_gap();
        let had_flight = !self.board.is_empty();
        let had_gap = self.board.sacked_segments() > 0;
        let una = self.una();
        let advanced = ack.ack > una;
        let restored = if advanced { self.undo_if_spurious(now, ack) } else { None };
        if advanced {
            self.board.acknowledge(ack.ack, feedback);
            self.presumed = self.presumed.max(ack.ack);
            self.dup_acks = 0;
        }
        let mut news = false;
        for range in ack.sacked {
            news |= self.board.sack(range.clone(), feedback);
            self.payload.is_held(range.clone());
        }
        self.tell_of_arrivals(now, (una, had_gap), ack, path, feedback);
        if let Some(newest) = feedback.newest {
            self.newest_acked = self.newest_acked.max(newest.sent_at);
        }
        let bare_duplicate = !advanced && ack.is_bare;
        let is_duplicate =
            if self.detection == Detection::DuplicateAcks { had_flight && bare_duplicate } else { had_flight && news };
        let dsack = ack.dsack.is_some() && !self.is_of_bundle(ack, feedback);
        let hidden = self.judge_bundles(ack, feedback);
        let mut verdict = Verdict { advanced, beyond_gap, restored, hidden: hidden.count, ..Verdict::default() };
        let was_recovering = self.phase.is_recovery();
        let repaired =
            self.probe.on_ack(Seen { ack: ack.ack, dsack, bare_duplicate: bare_duplicate && ack.sacked.is_empty() });
        if dsack {
            self.rack.on_duplicate(self.una(), self.nxt());
        }
        self.leave_phase();
        if self.detection == Detection::Rack {
            self.rack.on_delivered(now, feedback, path.least, (ack.ack, ack.echo(now)));
        }
        self.detect(now, path, is_duplicate, advanced, feedback, &mut verdict);
        verdict.ecn_reduced = self.ecn.on_ack(ack.ece, self.una(), self.nxt());
        if verdict.ecn_reduced || repaired {
            let kind = if repaired { Loss::Transient } else { Loss::Ecn };
            self.ecn.reduced(self.nxt());
            verdict.loss = verdict.loss.or(Some((kind, self.newest_acked)));
        }
        if let Some(sent_at) = self.answer_hidden(hidden) {
            verdict.loss = Some((Loss::Transient, sent_at));
        }
        // Duplicate acknowledgements leave the window unchanged (RFC 5681 §3.2), and so do the one that ends a recovery, and one with ECE
        // (RFC 3168 §6.1.2).
        let marked = ack.ece && self.ecn.is_agreed();
        let answers = was_recovering || self.phase.is_recovery() || self.answers_hidden();
        verdict.holds_window = answers || !advanced || marked;
        verdict.rtt = feedback.rtt(now).or(ack.echoed.filter(|_| advanced));
        let is_prompt = had_gap || feedback.arrived.len() > 1 || !ack.sacked.is_empty();
        verdict.observed = feedback.newest.filter(|newest| !newest.resent).map(|newest| Observed {
            departure: newest.departure,
            answered: now,
            // The peer acknowledges a second segment at once, and one beside a gap (RFC 5681 §4.2).
            uncertain: if is_prompt { Duration::ZERO } else { DELAYED_ACK },
        });
        if verdict.rtt.is_some() {
            verdict.path_rtt = verdict.observed.map(|observed| observed.path_rtt(path.least));
            self.backoff = 0;
            self.probe.sampled();
        }
        self.report(feedback, verdict)
    }

    /// Reports arrived segments to the payload.
    fn tell_of_arrivals(
        &mut self,
        now: Instant,
        (una, had_gap): (u64, bool),
        ack: &Acknowledgement<'_>,
        path: RoundTrip,
        feedback: &Feedback,
    ) {
        let echo = ack.echo(now);
        let last = feedback.arrived.len().saturating_sub(1);
        for (place, span) in feedback.arrived.iter().enumerate() {
            // The peer acknowledges a second segment at once, and one that makes or fills a gap (RFC 5681 §4.2).
            let is_prompt = place == last && (last > 0 || had_gap || !ack.sacked.is_empty());
            let (span, before, least) = (span.clone(), self.heard_at, path.least);
            self.payload.arrived(&Arrived { span, now, before, least, una, is_prompt, echo });
        }
        if let Some(span) = feedback.front.clone() {
            let (before, least) = (self.heard_at, path.least);
            self.payload.arrived(&Arrived { span, now, before, least, una, is_prompt: false, echo });
        }
        self.heard_at = now;
        self.payload.release(self.una());
    }

    /// Notes the place of the newest segment in the path's model.
    pub(crate) fn departed(&mut self, departure: Departure) {
        self.board.departed(departure);
    }

    /// Undoes a spurious timeout: everything is in flight again, and nothing more is retransmitted (RFC 4015 §3.2, step 8). An ECN mark
    /// means congestion all the same (step 9). Returns the number of bytes restored.
    fn undo_if_spurious(&mut self, now: Instant, ack: &Acknowledgement<'_>) -> Option<u64> {
        let marked = ack.ece && self.ecn.is_agreed();
        if !self.timeout.was_spurious(ack.echo(now), ack.ack >= self.nxt()) || marked {
            return None;
        }
        self.phase = Phase::Open;
        (self.is_urgent, self.dup_acks, self.backoff) = (false, 0, 0);
        self.presumed = ack.ack;
        let bytes = self.board.restore();
        if self.detection == Detection::Rack {
            self.rack.restore(&self.board);
        }
        Some(bytes)
    }

    fn leave_phase(&mut self) {
        if self.phase.point().is_some_and(|point| self.una() >= point) {
            self.phase = Phase::Open;
            self.is_urgent = false;
            self.dup_acks = 0;
            self.rack.recovered();
        }
    }

    /// Handles a retransmission timeout (RFC 6298 §5.4 to §5.6).
    pub(crate) fn on_timeout(&mut self, now: Instant, path: RoundTrip) -> Verdict {
        let feedback = &mut self.feedback.take_cleared();
        let beyond_gap = self.beyond_gap();
        self.backoff = (self.backoff + 1).min(MAX_BACKOFF);
        // The peer SACKed the first segment and does not acknowledge it: it has reneged (RFC 2018 §8).
        if self.board.get(0).is_some_and(|first| first.sacked) {
            self.board.forget_sacked();
        }
        let recent = match self.detection {
            Detection::Rack => {
                let (recovering, sacked) = (self.phase != Phase::Open, self.board.sacked_segments());
                self.rack.recent(now, recovering, sacked, (path.least, path.smoothed))
            }
            _ => now,
        };
        self.timeout.went_off(self.phase);
        self.board.lose_all_sent_until(recent, feedback);
        self.phase = Phase::Timeout { point: self.nxt() };
        self.is_urgent = true;
        self.dup_acks = 0;
        self.presumed = self.nxt();
        self.probe.reset();
        self.ecn.reduced(self.nxt());
        let loss = Some((Loss::Persistent, feedback.newest_lost.unwrap_or_default()));
        self.report(feedback, Verdict { loss, beyond_gap, ..Verdict::default() })
    }

    /// Completes a verdict, and keeps the tokens of acknowledged segments for [`acked_tokens`](Self::acked_tokens).
    fn report(&mut self, feedback: &mut Feedback, verdict: Verdict) -> Verdict {
        self.feedback = std::mem::take(feedback);
        Verdict { acked: self.feedback.acked, lost: self.feedback.lost, ..verdict }
    }

    /// Returns the tokens of the segments that the last verdict found acknowledged, once.
    pub(crate) fn acked_tokens(&mut self) -> impl Iterator<Item = u64> + '_ {
        self.feedback.acked_tokens.drain(..)
    }

    /// Ends the connection, and returns the tokens of data in flight.
    pub(crate) fn give_up(&mut self) -> impl Iterator<Item = u64> + '_ {
        self.payload.give_up();
        self.board.give_up()
    }
}
