//! The segments under way, in order, and what is known of each: RFC 6675's scoreboard, kept segment by segment.
//!
//! Nothing here walks over more than what changes: what an acknowledgement repeats is found by bisection, and loss is
//! decided by a boundary that moves up.

use std::collections::VecDeque;
use std::ops::Range;

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
    /// Everything below was looked at by `lose_below`.
    lost_to: u64,
    /// How many segments wait to be sent again; none of them lies below `first_waiting`.
    waiting: usize,
    first_waiting: u64,
    /// RFC 6675's pipe: data bytes taken to be under way.
    pipe: u64,
    /// How many segments the peer holds beyond its acknowledgement.
    sacked_segments: usize,
    /// How many transmissions there were.
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

    /// The number of the latest transmission.
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

    /// Where the segment is that holds `offset`, or the first one after it.
    pub(super) fn find(&self, offset: u64) -> usize {
        self.flight.partition_point(|sent| sent.end <= offset)
    }

    /// A new segment left.
    pub(super) fn push(&mut self, now: Instant, len: u64, token: Option<u64>) {
        self.append(now, len, false, token);
        self.pipe += len;
    }

    /// The segment that was pushed last carries so many bytes of those before it once more. They are under way with it, whatever
    /// becomes of what they repeat.
    pub(super) fn bundle(&mut self, bytes: u64) {
        let Some(carrier) = self.flight.back_mut() else { return };
        carrier.bundled = bytes;
        let end = carrier.start;
        self.pipe += bytes;
        let before = self.flight.iter_mut().rev().skip(1);
        before.take_while(|sent| sent.start + bytes >= end).for_each(|sent| sent.repeated = true);
    }

    /// How many bytes of those under way are there because one of the last `few` segments carries them once more.
    pub(super) fn bundled(&self, few: usize) -> u64 {
        self.flight.iter().rev().take(few).map(|sent| sent.bundled).sum()
    }

    /// How many segments are under way, one transmission of each counted.
    pub(super) fn in_flight(&self) -> usize {
        self.flight.len() - self.sacked_segments - self.waiting
    }

    /// Whether one of the next `few` segments carries any of this range once more, and is under way.
    pub(super) fn is_bundled(&self, range: &Range<u64>, few: usize) -> bool {
        let from = self.find(range.start);
        let mut carriers = self.flight.range(from..).take(few).filter(|sent| sent.bundled > 0);
        carriers.any(|sent| sent.start > range.start && sent.start - sent.bundled < range.end)
    }

    /// The FIN left.
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
        });
    }

    /// A segment left again.
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

    /// Everything below `ack` has arrived. Gives the tokens of the segments that are complete to `feedback`.
    pub(super) fn acknowledge(&mut self, ack: u64, feedback: &mut Feedback) {
        self.una = ack;
        while let Some(first) = self.flight.front_mut().filter(|first| first.start < ack) {
            if first.end > ack {
                // A part of it: the rest stays as it is.
                let bytes = (ack - first.start) * u64::from(first.copies) + first.bundled;
                feedback.carried(first);
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

    /// A segment is not under way any more, for it has arrived.
    fn leave(&mut self, sent: &Sent, feedback: &mut Feedback) {
        let bytes = sent.len() * u64::from(sent.copies) + sent.bundled;
        self.pipe -= bytes;
        feedback.acked += bytes;
        self.waiting -= usize::from(sent.waiting);
    }

    /// The peer holds this range. Only whole segments count; says whether that is news of any.
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

    /// RFC 6675's `IsLost` for everything at once: takes for lost what lies below enough ranges or bytes that arrived.
    pub(super) fn lose_by_dup_thresh(&mut self, ranges: usize, bytes: u64, feedback: &mut Feedback) {
        let Some(boundary) = self.sacked.lost_below(ranges, bytes) else { return };
        let mut at = self.find(self.lost_to);
        while self.flight.get(at).is_some_and(|sent| sent.start < boundary) {
            self.lose(at, feedback);
            at += 1;
        }
        self.lost_to = self.lost_to.max(boundary);
    }

    /// The segment is taken for lost: one transmission of it, if there were several.
    pub(super) fn lose(&mut self, at: usize, feedback: &mut Feedback) {
        let Some(sent) = self.flight.get_mut(at).filter(|sent| !sent.sacked && !sent.waiting) else { return };
        // Of several transmissions the first one is lost first, and what it carried besides.
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

    /// The segment is taken for lost, however often it was sent.
    pub(super) fn lose_entirely(&mut self, at: usize, feedback: &mut Feedback) {
        while self.flight.get(at).is_some_and(|sent| sent.copies > 1) {
            self.lose(at, feedback);
        }
        self.lose(at, feedback);
    }

    /// After a timeout: what the peer is not known to hold is sent again, unless it was sent after `recent`. The first
    /// segment is, whenever it was sent.
    pub(super) fn lose_all_sent_until(&mut self, recent: Instant, feedback: &mut Feedback) {
        for at in 0..self.flight.len() {
            if at > 0 && self.flight[at].sent_at > recent {
                continue;
            }
            self.lose_entirely(at, feedback);
        }
        self.lost_to = self.nxt;
    }

    /// Nothing was lost: what waits to be sent again is under way. How many bytes that is.
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

    /// What is under way.
    pub(super) fn under_way(&self) -> impl Iterator<Item = &Sent> {
        self.flight.iter().filter(|sent| sent.copies > 0)
    }

    /// The peer may have dropped what it held (RFC 2018 §8): nothing that it said of that counts any more.
    pub(super) fn forget_sacked(&mut self) {
        self.sacked.clear();
        for sent in &mut self.flight {
            sent.sacked = false;
        }
        self.sacked_segments = 0;
    }

    /// The first segment that waits to be sent again.
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

    /// The first segment from `from` on that the peer does not hold, below some that it does, and that is not taken
    /// for lost: what rule (3) of `NextSeg` sends again (RFC 6675 §4).
    pub(super) fn next_doubtful(&self, from: u64) -> Option<usize> {
        let gap = self.sacked.next_gap(from.max(self.lost_to))?;
        Some(self.find(gap.start)).filter(|&at| self.flight.get(at).is_some_and(|sent| !sent.sacked))
    }

    /// The highest segment that the peer does not hold.
    pub(super) fn last_missing(&self) -> Option<usize> {
        self.flight.iter().rposition(|sent| !sent.sacked)
    }

    /// Without SACK, a duplicate acknowledgement says that some segment has arrived: the next one from `from` on is
    /// not counted as under way any more. Gives where the search may go on, and how many bytes it was.
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

    /// The tokens of everything that is under way, which nobody will hear of.
    pub(super) fn give_up(&mut self) -> impl Iterator<Item = u64> + '_ {
        self.waiting = 0;
        self.pipe = 0;
        self.sacked.clear();
        self.flight.drain(..).filter_map(|sent| sent.token)
    }
}
