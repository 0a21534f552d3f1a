//! Choice of the next transmission, and bookkeeping of sent segments (RFC 6675 §4, RFC 8985 §7.3).

use std::ops::Range;

use timeous_core::{AduSource, Instant, PathState, PulledAdu};

use super::{Changes, Detection, Fresh, Next, Phase, Room, Sender, Settled};

impl Sender {
    /// Returns the next transmission: `NextSeg` of RFC 6675 §4. `fresh`: there is new data, and room for it at the peer.
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
        // RACK decides by time, also for the last segment: those sent before a retransmission are judged when that arrives. Retransmitting
        // segments in flight would cause DSACKs, which widen its window.
        if self.detection == Detection::Rack {
            return None;
        }
        let doubtful = self.board.next_doubtful(self.next_doubt.max(self.una()));
        doubtful.or_else(|| self.rescue()).map(Next::Again)
    }

    /// Returns the last missing segment, once per recovery: rule (4).
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

    /// Returns the expected size of the next new segment.
    pub(crate) fn next_size(&self, source: &dyn AduSource) -> u64 {
        self.payload.next_size(source).map_or(self.smss, |size| size.min(self.smss))
    }

    /// Returns whether there may be new data.
    pub(crate) fn has_fresh(&mut self, now: Instant, source: &mut dyn AduSource) -> bool {
        self.payload.has_fresh(now, source)
    }

    /// Returns the counters of changed retransmissions, and once that the path rejects changes.
    pub(crate) fn changes(&mut self) -> Changes {
        let changes = self.payload.changes();
        let was_reported = std::mem::replace(&mut self.is_refusal_reported, changes.refused);
        Changes { refused: changes.refused && !was_reported, ..changes }
    }

    /// Returns the next ADU whose fate does not follow from its segment's acknowledgement.
    pub(crate) fn poll_settled(&mut self) -> Option<Settled> {
        self.payload.poll_settled()
    }

    /// Notes that new data was sent.
    pub(crate) fn sent_fresh(&mut self, now: Instant, fresh: &Fresh) {
        let start = self.nxt();
        self.board.push(now, fresh.len as u64, fresh.token);
        self.log(now, start, self.nxt(), 1);
    }

    /// Notes that the FIN was sent.
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

    /// Returns the range of the segment at a place, and whether it is the FIN.
    pub(crate) fn segment_at(&self, at: usize) -> Option<(Range<u64>, bool)> {
        self.board.get(at).map(|sent| (sent.span(), sent.fin))
    }

    /// Notes a retransmission.
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

    /// Returns whether a tail loss probe is useful: "unless it is already in fast recovery, RTO recovery, or segments have been SACKed"
    /// (RFC 8985 §7.2).
    pub(crate) fn wants_probe(&self) -> bool {
        self.detection != Detection::DuplicateAcks
            && self.phase == Phase::Open
            && self.board.sacked_segments() == 0
            && !self.is_idle()
    }

    /// Returns whether a probe may be sent now (RFC 8985 §7.3).
    pub(crate) fn may_probe(&self) -> bool {
        self.wants_probe() && self.probe.may_send()
    }

    /// Returns the segment that a probe retransmits if there is no new data.
    pub(crate) fn last_segment(&self) -> Option<usize> {
        self.board.segments().checked_sub(1)
    }

    /// Notes that the last transmission was a probe.
    pub(crate) fn sent_probe(&mut self, repeats: bool) {
        self.probe.sent(self.nxt(), repeats);
    }
}
