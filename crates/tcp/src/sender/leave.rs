//! What leaves next, and what is noted of what has left (RFC 6675 §4, RFC 8985 §7.3).

use std::ops::Range;

use timeous_core::{AduSource, Instant, PathState, PulledAdu};

use super::{Changes, Detection, Fresh, Next, Phase, Room, Sender, Settled};

impl Sender {
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
        self.timeout.resent(now);
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
}
