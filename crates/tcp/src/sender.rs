//! The send side: what is under way, what has to be sent again, and when (RFC 6675, RFC 6582, RFC 8985).

mod acknowledgement;
mod ecn;
mod feedback;
mod late;
mod payload;
mod phase;
mod probe;
mod rack;
mod sacked;
mod scoreboard;
mod sent;
mod window;

use std::ops::Range;

use timeous_cm::Loss;
use timeous_core::{AduSource, Duration, Instant, PathState, PulledAdu};

pub(crate) use acknowledgement::{Acknowledgement, RoundTrip, Verdict};
pub(crate) use feedback::Feedback;
pub(crate) use late::{Late, datagram_room};
pub(crate) use payload::{Changes, Fresh, Kept, Payload, Room, Settled};
pub(crate) use phase::Phase;
pub(crate) use probe::MAX_ACK_DELAY;
pub(crate) use window::PeerWindow;

use ecn::EcnSender;
use payload::Arrived;
use probe::{Probe, Seen};
use rack::Rack;
use scoreboard::Scoreboard;

/// `DupThresh` of RFC 6675 §2.
const DUP_THRESH: u32 = 3;

/// A timeout is doubled so many times at most; the bound on the timeout itself comes earlier.
const MAX_BACKOFF: u32 = 32;

/// What may be sent next, as far as this end of the path knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The segment at this place again, at once: the window has no say (RFC 6675 §5 step 4.3, RFC 6298 §5.4).
    AgainNow(usize),
    /// The segment at this place again.
    Again(usize),
    /// New data.
    Fresh,
}

/// Which losses are told how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detection {
    /// Three duplicate acknowledgements (RFC 6582).
    DuplicateAcks,
    /// The scoreboard of RFC 6675.
    DupThresh,
    /// RACK, the scoreboard besides (RFC 8985 §6).
    Rack,
}

/// The send side of a connection. Its numbers are offsets in the stream: 0 is the first byte after the SYN.
#[derive(Debug)]
pub(crate) struct Sender {
    board: Scoreboard,
    payload: Box<dyn Payload>,
    detection: Detection,
    rack: Rack,
    phase: Phase,
    dup_acks: u32,
    /// Full-sized segments, for RFC 6675's `DupThresh` in bytes.
    smss: u64,
    /// The next segment to be repeated leaves without a look at the window.
    is_urgent: bool,
    /// What follows RFC 6675's HighRxt.
    next_doubt: u64,
    /// RFC 6675's RescueRxt.
    rescued: u64,
    /// Where the next segment is that a duplicate acknowledgement may be for.
    presumed: u64,
    /// Retransmission timeouts in a row.
    backoff: u32,
    /// Whether a partial acknowledgement came in this recovery.
    had_partial: bool,
    probe: Probe,
    pub(crate) ecn: EcnSender,
    newest_acked: Instant,
}

impl Sender {
    pub(crate) fn new(payload: Box<dyn Payload>, smss: u64, detection: Detection, ecn: bool) -> Self {
        Self {
            board: Scoreboard::default(),
            payload,
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
            had_partial: false,
            probe: Probe::default(),
            ecn: EcnSender::new(ecn),
            newest_acked: Instant::ZERO,
        }
    }

    /// SND.UNA.
    pub(crate) fn una(&self) -> u64 {
        self.board.una()
    }

    /// SND.NXT.
    pub(crate) fn nxt(&self) -> u64 {
        self.board.nxt()
    }

    /// RFC 6675's pipe: data bytes taken to be under way. The Congestion Manager holds the same number.
    pub(crate) fn pipe(&self) -> u64 {
        self.board.pipe()
    }

    /// What is sent and not acknowledged, and yet not in the pipe: the peer holds it beyond a gap, or it is missing.
    fn beyond_gap(&self) -> u64 {
        (self.nxt() - self.una()).saturating_sub(self.pipe())
    }

    /// Whether everything sent is acknowledged.
    pub(crate) fn is_idle(&self) -> bool {
        self.board.is_empty()
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    pub(crate) fn backoff(&self) -> u32 {
        self.backoff
    }

    /// Whether [`RoundTrip`] matters to it.
    pub(crate) fn needs_round_trip(&self) -> bool {
        self.detection == Detection::Rack
    }

    /// Whether the retransmission timer starts anew for an acknowledgement that acknowledged something (RFC 6298 §5.3);
    /// in NewReno's recovery only the first partial one does that (RFC 6582 §3.2).
    pub(crate) fn restarts_timer(&self, verdict: &Verdict) -> bool {
        self.detection != Detection::DuplicateAcks || !self.phase.is_recovery() || verdict.first_partial
    }

    /// How many segments are under way or missing.
    pub(crate) fn segments(&self) -> usize {
        self.board.segments()
    }

    /// Takes in an acknowledgement.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        ack: &Acknowledgement<'_>,
        path: RoundTrip,
        feedback: &mut Feedback,
    ) -> Verdict {
        feedback.clear();
        let beyond_gap = self.beyond_gap();
        let had_flight = !self.board.is_empty();
        let had_gap = self.board.sacked_segments() > 0;
        let una = self.una();
        let advanced = ack.ack > una;
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
        let mut verdict = Verdict { advanced, beyond_gap, ..Verdict::default() };
        let was_recovering = self.phase.is_recovery();
        let repaired = self.probe.on_ack(Seen {
            ack: ack.ack,
            dsack: ack.dsack,
            bare_duplicate: bare_duplicate && ack.sacked.is_empty(),
        });
        if ack.dsack {
            self.rack.on_duplicate(self.una(), self.nxt());
        }
        self.leave_phase();
        self.detect(now, path, is_duplicate, advanced, feedback, &mut verdict);
        verdict.ecn_reduced = self.ecn.on_ack(ack.ece, self.una(), self.nxt());
        if verdict.ecn_reduced || repaired {
            let kind = if repaired { Loss::Transient } else { Loss::Ecn };
            self.ecn.reduced(self.nxt());
            verdict.loss = verdict.loss.or(Some((kind, self.newest_acked)));
        }
        // Duplicate acknowledgements leave the window as it is (RFC 5681 §3.2), and so does the one that ends a
        // recovery, and one with ECE (RFC 3168 §6.1.2).
        let marked = ack.ece && self.ecn.is_agreed();
        verdict.holds_window = was_recovering || self.phase.is_recovery() || !advanced || marked;
        verdict.rtt = feedback.rtt(now).or(ack.echoed.filter(|_| advanced));
        if verdict.rtt.is_some() {
            self.backoff = 0;
            self.probe.sampled();
        }
        verdict
    }

    /// What carries the data hears what has arrived.
    fn tell_of_arrivals(
        &mut self,
        now: Instant,
        (una, had_gap): (u64, bool),
        ack: &Acknowledgement<'_>,
        path: RoundTrip,
        feedback: &Feedback,
    ) {
        let echo = ack.echoed.map(|ago| {
            let now = Duration::from_millis((now - Instant::ZERO).as_millis());
            now.saturating_sub(ago)
        });
        let last = feedback.arrived.len().saturating_sub(1);
        for (place, span) in feedback.arrived.iter().enumerate() {
            // A second segment is acknowledged at once, and so is one that makes a gap or fills it (RFC 5681 §4.2).
            let is_prompt = place == last && (last > 0 || had_gap || !ack.sacked.is_empty());
            self.payload.arrived(&Arrived { span: span.clone(), now, least: path.least, una, is_prompt, echo });
        }
        self.payload.release(self.una());
    }

    fn leave_phase(&mut self) {
        if self.phase.point().is_some_and(|point| self.una() >= point) {
            self.phase = Phase::Open;
            self.is_urgent = false;
            self.dup_acks = 0;
            self.rack.recovered();
        }
    }

    fn detect(
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
            Detection::Rack => {
                self.rack.on_delivered(now, feedback, path.least);
                verdict.look_again = self.detect_by_time(now, path, feedback);
            }
        }
        // "If DupAcks >= DupThresh", for segments that are smaller than SMSS (RFC 6675 §5 step 1).
        if self.detection == Detection::DupThresh && self.dup_acks >= DUP_THRESH && self.phase == Phase::Open {
            self.board.lose(0, feedback);
        }
        self.answer_loss(feedback, verdict);
    }

    /// Takes for lost what RACK says, and gives when it wants to look again.
    fn detect_by_time(&mut self, now: Instant, path: RoundTrip, feedback: &mut Feedback) -> Option<Instant> {
        let recovering = self.phase != Phase::Open;
        self.rack.detect(now, &mut self.board, recovering, (path.least, path.smoothed), feedback)
    }

    /// What was overtaken has had the time that it may take (RFC 8985 §6.2, step 5).
    pub(crate) fn look_again(&mut self, now: Instant, path: RoundTrip, feedback: &mut Feedback) -> Verdict {
        feedback.clear();
        let mut verdict = Verdict { holds_window: true, beyond_gap: self.beyond_gap(), ..Verdict::default() };
        if self.detection == Detection::Rack {
            verdict.look_again = self.detect_by_time(now, path, feedback);
            self.answer_loss(feedback, &mut verdict);
        }
        verdict
    }

    /// NewReno: each duplicate acknowledgement is a segment that has arrived, the third one tells of a loss, and a
    /// partial acknowledgement of the next one (RFC 6582 §3.2).
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
            // The first segment is the one that is missing.
            let from = self.presumed.max(self.board.get(0).map_or(0, |first| first.end));
            if let Some((end, bytes)) = self.board.presume_departed(from) {
                self.presumed = end;
                feedback.acked += bytes;
            }
        } else if advanced && self.phase.is_recovery() {
            verdict.first_partial = !std::mem::replace(&mut self.had_partial, true);
            // If it was presumed to have arrived, it was another one that did.
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

    /// What was found lost begins a recovery, unless one goes on.
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
            // belong to the event that was told.
            _ => {
                let again = feedback.newest_lost_again.map(|at| (Loss::Transient, at));
                verdict.loss = again.or(feedback.newest_lost.map(|at| (Loss::None, at)));
            }
        }
    }

    /// The retransmission timer went off (RFC 6298 §5.4 to §5.6).
    pub(crate) fn on_timeout(&mut self, now: Instant, path: RoundTrip, feedback: &mut Feedback) -> Verdict {
        feedback.clear();
        let beyond_gap = self.beyond_gap();
        self.backoff = (self.backoff + 1).min(MAX_BACKOFF);
        // The peer holds what comes first and does not acknowledge it: it has dropped it (RFC 2018 §8).
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
        self.board.lose_all_sent_until(recent, feedback);
        self.phase = Phase::Timeout { point: self.nxt() };
        self.is_urgent = true;
        self.dup_acks = 0;
        self.presumed = self.nxt();
        self.probe.reset();
        self.ecn.reduced(self.nxt());
        let loss = Some((Loss::Persistent, feedback.newest_lost.unwrap_or_default()));
        Verdict { loss, beyond_gap, ..Verdict::default() }
    }

    /// `NextSeg` of RFC 6675 §4: what is to be sent next. `fresh` says whether there are new data, and room for them at
    /// the peer.
    pub(crate) fn next(&mut self, fresh: bool) -> Option<Next> {
        if let Some(at) = self.board.next_waiting() {
            return Some(if self.is_urgent { Next::AgainNow(at) } else { Next::Again(at) });
        }
        if fresh {
            return Some(Next::Fresh);
        }
        if !self.phase.is_recovery() || self.detection == Detection::DuplicateAcks {
            return None;
        }
        // RACK knows how long the doubtful may take, and the last one, too: what was sent before the retransmission is judged
        // when that arrives. To repeat what is merely under way would come back as a duplicate, and widen its window.
        if self.detection == Detection::Rack {
            return None;
        }
        let doubtful = self.board.next_doubtful(self.next_doubt.max(self.una()));
        doubtful.or_else(|| self.rescue()).map(Next::Again)
    }

    /// Rule (4): once in a recovery, the last segment that is missing.
    fn rescue(&self) -> Option<usize> {
        if self.una() > self.rescued { self.board.last_missing() } else { None }
    }

    /// Appends new data to `packet`; see [`Payload::fresh`].
    pub(crate) fn pull(
        &mut self,
        now: Instant,
        path: &PathState,
        room: Room,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Option<Fresh> {
        self.payload.fresh(now, path, room, source, packet)
    }

    /// How large the next new segment is thought to be.
    pub(crate) fn next_size(&self, source: &dyn AduSource) -> u64 {
        self.payload.next_size(source).map_or(self.smss, |size| size.min(self.smss))
    }

    /// Whether there may be new data.
    pub(crate) fn has_fresh(&mut self, now: Instant, source: &mut dyn AduSource) -> bool {
        self.payload.has_fresh(now, source)
    }

    /// What was sent again as something else.
    pub(crate) fn changes(&self) -> Changes {
        self.payload.changes()
    }

    /// The next ADU whose fate is known by something else than its segment's acknowledgement.
    pub(crate) fn poll_settled(&mut self) -> Option<Settled> {
        self.payload.poll_settled()
    }

    /// New data left.
    pub(crate) fn sent_fresh(&mut self, now: Instant, fresh: &Fresh) {
        let start = self.nxt();
        self.board.push(now, fresh.len as u64, fresh.token);
        self.log(now, start, self.nxt(), 1);
    }

    /// The FIN left.
    pub(crate) fn sent_fin(&mut self, now: Instant) {
        let start = self.nxt();
        self.board.push_fin(now);
        self.log(now, start, self.nxt(), 1);
    }

    /// Appends the data of the segment at a place to `packet`; see [`Payload::again`].
    pub(crate) fn repeat(
        &mut self,
        now: Instant,
        path: &PathState,
        at: usize,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Option<PulledAdu> {
        let span = self.board.get(at).filter(|sent| !sent.fin)?.span();
        self.payload.again(now, path, span, source, packet)
    }

    /// The segment at a place, without its data.
    pub(crate) fn segment_at(&self, at: usize) -> Option<(Range<u64>, bool)> {
        self.board.get(at).map(|sent| (sent.span(), sent.fin))
    }

    /// It left again.
    pub(crate) fn sent_again(&mut self, now: Instant, at: usize) {
        let Some(was) = self.board.get(at).copied() else { return };
        self.board.resent(now, at);
        self.log(now, was.start, was.end, was.transmissions.saturating_add(1));
        if self.phase.is_recovery() {
            let first = std::mem::take(&mut self.is_urgent);
            if was.waiting && first {
                // "set both HighRxt and RescueRxt to the highest sequence number in the retransmitted segment"
                // (step 4.3).
                self.rescued = self.rescued.max(was.end);
            }
            let is_rescue = !was.waiting && self.board.highest_sacked().is_none_or(|highest| was.end > highest);
            if is_rescue {
                self.rescued = self.phase.point().unwrap_or_default();
            } else {
                self.next_doubt = self.next_doubt.max(was.end);
            }
        }
        self.is_urgent = false;
    }

    fn log(&mut self, now: Instant, start: u64, end: u64, number: u16) {
        if self.detection == Detection::Rack {
            self.rack.transmitted(now, self.board.latest_order(), start, end, number);
        }
    }

    /// Whether a tail loss probe is of use: "unless it is already in fast recovery, RTO recovery, or segments have been
    /// SACKed" (RFC 8985 §7.2).
    pub(crate) fn wants_probe(&self) -> bool {
        self.detection != Detection::DuplicateAcks
            && self.phase == Phase::Open
            && self.board.sacked_segments() == 0
            && !self.is_idle()
    }

    /// Whether the rules let one leave now (RFC 8985 §7.3).
    pub(crate) fn may_probe(&self) -> bool {
        self.wants_probe() && self.probe.may_send()
    }

    /// The segment that a probe repeats if there are no new data.
    pub(crate) fn last_segment(&self) -> Option<usize> {
        self.board.segments().checked_sub(1)
    }

    /// What just left was a probe.
    pub(crate) fn sent_probe(&mut self, repeats: bool) {
        self.probe.sent(self.nxt(), repeats);
    }

    /// The connection ends: the tokens of what is under way.
    pub(crate) fn give_up(&mut self) -> impl Iterator<Item = u64> + '_ {
        self.payload.give_up();
        self.board.give_up()
    }
}
