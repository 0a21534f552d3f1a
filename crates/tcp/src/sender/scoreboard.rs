//! Segments in flight, in order, with the state of each: RFC 6675's scoreboard, per segment.
//!
//! All costs are proportional to changes: repeated SACK blocks are found by bisection, and losses by a boundary that moves up.

use std::collections::VecDeque;
use std::ops::Range;

use timeous_cm::Departure;
use timeous_core::Instant;

use super::feedback::Feedback;
use super::sacked::Sacked;
use super::sent::Sent;

/// RFC 6675's scoreboard.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    flight: VecDeque<Sent>,
    /// SND.UNA and SND.NXT as stream offsets.
    una: u64,
    nxt: u64,
    sacked: Sacked,
    /// Offset up to which `lose_by_dup_thresh` has checked.
    lost_to: u64,
    /// Number of segments waiting for retransmission; none lies below `first_waiting`.
    waiting: usize,
    first_waiting: u64,
    /// RFC 6675's pipe: data bytes in flight.
    pipe: u64,
    /// Number of SACKed segments.
    sacked_segments: usize,
    /// Number of transmissions so far.
    transmissions: u64,
}

impl Scoreboard {
    pub(super) fn una(&self) -> u64 {
        self.una
    }

    pub(super) fn nxt(&self) -> u64 {
        self.nxt
    }

    pub(super) fn pipe(&self) -> u64 {
        self.pipe
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flight.is_empty()
    }

    pub(super) fn segments(&self) -> usize {
        self.flight.len()
    }

    /// Returns the order number of the latest transmission.
    pub(super) fn latest_order(&self) -> u64 {
        self.transmissions
    }

    pub(super) fn sacked_segments(&self) -> usize {
        self.sacked_segments
    }

    pub(super) fn get(&self, at: usize) -> Option<&Sent> {
        self.flight.get(at)
    }

    pub(super) fn highest_sacked(&self) -> Option<u64> {
        self.sacked.highest()
    }

    /// Returns the index of the segment that holds `offset`, or of the first one after it.
    pub(super) fn find(&self, offset: u64) -> usize {
        self.flight.partition_point(|sent| sent.end <= offset)
    }

    /// Adds a sent segment.
    pub(super) fn push(&mut self, now: Instant, len: u64, token: Option<u64>) {
        self.append(now, len, false, token);
        self.pipe += len;
    }

    /// Notes the place of the last segment in the path's model.
    pub(super) fn departed(&mut self, departure: Departure) {
        self.flight.back_mut().into_iter().for_each(|last| last.departure = departure);
    }

    /// Notes that the last segment carries `bytes` bundled bytes of those before it. They are in flight with it, whatever the fate of the
    /// originals.
    pub(super) fn bundle(&mut self, bytes: u64) {
        let Some(carrier) = self.flight.back_mut() else { return };
        carrier.bundled = bytes;
        let end = carrier.start;
        self.pipe += bytes;
        let before = self.flight.iter_mut().rev().skip(1);
        before.take_while(|sent| sent.start + bytes >= end).for_each(|sent| sent.repeated = true);
    }

    /// Returns the number of bundled bytes in flight in the last `few` segments.
    pub(super) fn bundled(&self, few: usize) -> u64 {
        self.flight.iter().rev().take(few).map(|sent| sent.bundled).sum()
    }

    /// Returns the number of segments in flight, one transmission of each counted.
    pub(super) fn in_flight(&self) -> usize {
        self.flight.len() - self.sacked_segments - self.waiting
    }

    /// Returns whether one of the next `few` segments, still in flight, bundles any of this range.
    pub(super) fn is_bundled(&self, range: &Range<u64>, few: usize) -> bool {
        let from = self.find(range.start);
        let mut carriers = self.flight.range(from..).take(few).filter(|sent| sent.bundled > 0);
        carriers.any(|sent| sent.start > range.start && sent.start - sent.bundled < range.end)
    }

    /// Adds the FIN.
    pub(super) fn push_fin(&mut self, now: Instant) {
        self.append(now, 1, true, None);
    }

    fn append(&mut self, now: Instant, takes: u64, fin: bool, token: Option<u64>) {
        let (start, end) = (self.nxt, self.nxt + takes);
        self.nxt = end;
        self.transmissions += 1;
        self.flight.push_back(Sent {
            start,
            end,
            fin,
            token,
            sent_at: now,
            order: self.transmissions,
            transmissions: 1,
            copies: 1,
            sacked: false,
            waiting: false,
            bundled: 0,
            repeated: false,
            departure: Departure::default(),
        });
    }

    /// Notes a retransmission.
    pub(super) fn resent(&mut self, now: Instant, at: usize) {
        self.transmissions += 1;
        let sent = &mut self.flight[at];
        (sent.sent_at, sent.order) = (now, self.transmissions);
        sent.transmissions = sent.transmissions.saturating_add(1);
        sent.copies += 1;
        self.pipe += sent.len();
        if std::mem::take(&mut sent.waiting) {
            self.waiting -= 1;
            self.first_waiting = self.first_waiting.max(sent.end);
        }
    }

    /// Acknowledges everything below `ack`. Adds the tokens of complete segments to `feedback`.
    pub(super) fn acknowledge(&mut self, ack: u64, feedback: &mut Feedback) {
        self.una = ack;
        while let Some(first) = self.flight.front_mut().filter(|first| first.start < ack) {
            if first.end > ack {
                // Acknowledged in part: the rest stays.
                let bytes = (ack - first.start) * u64::from(first.copies) + first.bundled;
                feedback.carried(first);
                feedback.front = Some(first.start..ack);
                (first.start, first.bundled) = (ack, 0);
                self.pipe -= bytes;
                feedback.acked += bytes;
                break;
            }
            let first = *first;
            self.flight.pop_front();
            self.leave(&first, feedback);
            if first.sacked {
                self.sacked_segments -= 1;
            } else {
                feedback.delivered(&first);
            }
            feedback.acked_tokens.extend(first.token);
        }
        self.sacked.forget_below(ack);
        self.lost_to = self.lost_to.max(ack);
        self.first_waiting = self.first_waiting.max(ack);
    }

    /// Removes an arrived segment from the pipe.
    fn leave(&mut self, sent: &Sent, feedback: &mut Feedback) {
        let bytes = sent.len() * u64::from(sent.copies) + sent.bundled;
        self.pipe -= bytes;
        feedback.acked += bytes;
        self.waiting -= usize::from(sent.waiting);
    }

    /// SACKs a range. Only whole segments count; returns whether any is new.
    pub(super) fn sack(&mut self, range: Range<u64>, feedback: &mut Feedback) -> bool {
        let first = self.flight.partition_point(|sent| sent.start < range.start);
        let after = self.flight.partition_point(|sent| sent.end <= range.end);
        if first >= after {
            return false;
        }
        let whole = self.flight[first].start..self.flight[after - 1].end;
        let mut sacked = std::mem::take(&mut self.sacked);
        let mut news = false;
        sacked.insert(whole, |piece| {
            news = true;
            let mut at = self.find(piece.start);
            while let Some(sent) = self.flight.get_mut(at).filter(|sent| sent.start < piece.end) {
                let was = *sent;
                (sent.sacked, sent.waiting, sent.copies, sent.bundled) = (true, false, 0, 0);
                self.leave(&was, feedback);
                self.sacked_segments += 1;
                feedback.delivered(&was);
                at += 1;
            }
        });
        self.sacked = sacked;
        news
    }

    /// Marks segments as lost that have enough SACKed ranges or bytes above them: RFC 6675's `IsLost` for all at once.
    pub(super) fn lose_by_dup_thresh(&mut self, ranges: usize, bytes: u64, feedback: &mut Feedback) {
        let Some(boundary) = self.sacked.lost_below(ranges, bytes) else { return };
        let mut at = self.find(self.lost_to);
        while self.flight.get(at).is_some_and(|sent| sent.start < boundary) {
            self.lose(at, feedback);
            at += 1;
        }
        self.lost_to = self.lost_to.max(boundary);
    }

    /// Marks one transmission of a segment as lost.
    pub(super) fn lose(&mut self, at: usize, feedback: &mut Feedback) {
        let Some(sent) = self.flight.get_mut(at).filter(|sent| !sent.sacked && !sent.waiting) else { return };
        // Of several transmissions the first is lost first, together with its bundled bytes.
        let bytes = if sent.copies > 0 { sent.len() } else { 0 } + std::mem::take(&mut sent.bundled);
        sent.copies = sent.copies.saturating_sub(1);
        self.pipe -= bytes;
        feedback.lose(sent, bytes);
        if sent.copies == 0 {
            sent.waiting = true;
            self.waiting += 1;
            self.first_waiting = self.first_waiting.min(sent.start);
        }
    }

    /// Marks all transmissions of a segment as lost.
    pub(super) fn lose_entirely(&mut self, at: usize, feedback: &mut Feedback) {
        while self.flight.get(at).is_some_and(|sent| sent.copies > 1) {
            self.lose(at, feedback);
        }
        self.lose(at, feedback);
    }

    /// Marks segments as lost after a timeout: all that are not SACKed, except those sent after `recent`. The first segment is lost in any
    /// case.
    pub(super) fn lose_all_sent_until(&mut self, recent: Instant, feedback: &mut Feedback) {
        for at in 0..self.flight.len() {
            if at > 0 && self.flight[at].sent_at > recent {
                continue;
            }
            self.lose_entirely(at, feedback);
        }
        self.lost_to = self.nxt;
    }

    /// Undoes losses: segments waiting for retransmission are in flight again. Returns the number of bytes.
    pub(super) fn restore(&mut self) -> u64 {
        let mut bytes = 0;
        for sent in self.flight.iter_mut().filter(|sent| sent.waiting) {
            (sent.waiting, sent.copies) = (false, 1);
            bytes += sent.len();
        }
        self.pipe += bytes;
        (self.waiting, self.lost_to) = (0, self.una);
        bytes
    }

    /// Returns the segments in flight.
    pub(super) fn under_way(&self) -> impl Iterator<Item = &Sent> {
        self.flight.iter().filter(|sent| sent.copies > 0)
    }

    /// Forgets all SACKs: the peer has reneged (RFC 2018 §8).
    pub(super) fn forget_sacked(&mut self) {
        self.sacked.clear();
        for sent in &mut self.flight {
            sent.sacked = false;
        }
        self.sacked_segments = 0;
    }

    /// Returns the first segment waiting for retransmission.
    pub(super) fn next_waiting(&mut self) -> Option<usize> {
        if self.waiting == 0 {
            return None;
        }
        let mut at = self.find(self.first_waiting);
        while !self.flight.get(at)?.waiting {
            at += 1;
        }
        self.first_waiting = self.flight[at].start;
        Some(at)
    }

    /// Returns the first segment from `from` on that is not SACKed, below some that are, and that is not lost: rule (3) of `NextSeg` (RFC
    /// 6675 §4).
    pub(super) fn next_doubtful(&self, from: u64) -> Option<usize> {
        let gap = self.sacked.next_gap(from.max(self.lost_to))?;
        Some(self.find(gap.start)).filter(|&at| self.flight.get(at).is_some_and(|sent| !sent.sacked))
    }

    /// Returns the highest segment that is not SACKed.
    pub(super) fn last_missing(&self) -> Option<usize> {
        self.flight.iter().rposition(|sent| !sent.sacked)
    }

    /// Without SACK, a duplicate acknowledgement stands for an arrived segment: removes the next one from `from` on from the pipe. Returns
    /// where the search goes on, and the number of bytes.
    pub(super) fn presume_departed(&mut self, from: u64) -> Option<(u64, u64)> {
        let mut at = self.find(from);
        while self.flight.get(at)?.copies == 0 {
            at += 1;
        }
        let sent = &mut self.flight[at];
        sent.copies -= 1;
        self.pipe -= sent.len();
        Some((sent.end, sent.len()))
    }

    /// Returns the tokens of all data in flight, whose fate will never be known.
    pub(super) fn give_up(&mut self) -> impl Iterator<Item = u64> + '_ {
        self.waiting = 0;
        self.pipe = 0;
        self.sacked.clear();
        self.flight.drain(..).filter_map(|sent| sent.token)
    }
}
