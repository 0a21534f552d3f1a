//! Datagrams in flight: finds those that a report is about, and turns reports and silence into updates for the Congestion Manager.

use std::collections::VecDeque;

use timeous::cm::{Acks, Feedback, Update};
use timeous::core::{Duration, Instant};

use crate::reporter::REPORT_DELAY;
use crate::wire::{Key, Report, fingerprint};

/// Maximum number of datagrams whose hashes are kept. Chosen by us: far more than a window; bounds memory. Older ones count as
/// lost.
const MAX_IN_FLIGHT: usize = 1 << 14;
/// Distance from the newest datagram reported at which an older one is no longer looked for. Chosen by us: beyond any reordering
/// that is not a loss by then (RFC 9002 §6.1.1: 3). A higher value searches longer.
const REMEMBERED: u64 = 64;

/// Datagrams in flight to one destination.
#[derive(Debug)]
pub(crate) struct Tracker {
    feedback: Feedback,
    /// Record of the receiver as its reports give it.
    arrived: Acks,
    /// Hashes of datagrams in flight with their numbers, oldest first.
    hashes: VecDeque<(u32, u64)>,
    /// Number after that of the datagram that was reported last.
    expected: u64,
    /// Index of the next hash that is news; `None` before the first report.
    next: Option<u32>,
    /// Number of datagrams that arrived, for statistics.
    pub(crate) arrivals: u64,
}

impl Tracker {
    /// Creates a tracker with nothing in flight.
    pub(crate) fn new() -> Self {
        Self {
            feedback: Feedback::with_ack_delay(REPORT_DELAY),
            arrived: Acks::every(1, Duration::ZERO),
            hashes: VecDeque::new(),
            expected: 0,
            next: None,
            arrivals: 0,
        }
    }

    /// Notes a datagram of `bytes` that leaves now.
    pub(crate) fn sent(&mut self, now: Instant, key: &Key, datagram: &[u8], bytes: u64) {
        let number = self.feedback.sent(now, bytes);
        self.hashes.push_back((fingerprint(key, datagram), number));
        if self.hashes.len() > MAX_IN_FLIGHT {
            self.hashes.pop_front();
        }
    }

    /// Processes a report; returns the update for the manager, if it has news.
    pub(crate) fn handle_report(&mut self, now: Instant, report: &Report) -> Option<Update> {
        let newest_at = now.saturating_sub(report.delay);
        let mut newest = None;
        for (index, &hash) in (0..).zip(&report.hashes) {
            let index = report.first.wrapping_add(index);
            if self.next.is_some_and(|next| (index.wrapping_sub(next) as i32) < 0) {
                continue;
            }
            self.next = Some(index.wrapping_add(1));
            // A datagram that was not sent, or whose fate is known, is no news.
            let Some((_, number)) = self.find(hash).and_then(|place| self.hashes.remove(place)) else { continue };
            self.expected = number + 1;
            self.arrived.received(newest_at, number);
            self.arrivals += 1;
            newest = newest.max(Some(number));
        }
        let newest = newest?;
        while self.hashes.front().is_some_and(|&(_, number)| number + REMEMBERED < newest) {
            self.hashes.pop_front();
        }
        let ack = self.arrived.acknowledge(now)?;
        // It acknowledges only numbers that were given out here.
        self.feedback.acked(now, &ack).ok().flatten()
    }

    /// Place of a datagram in flight. Of equal ones, such as filler of a constant bitrate, the next after the one reported last: an
    /// earlier one was lost.
    fn find(&self, hash: u32) -> Option<usize> {
        let later = self.hashes.partition_point(|&(_, number)| number < self.expected);
        let find = |from: usize, to: usize| {
            let place = self.hashes.range(from..to).position(|&(known, _)| known == hash);
            place.map(|place| from + place)
        };
        find(later, self.hashes.len()).or_else(|| find(0, later))
    }

    /// Time at which [`handle_timeout`](Self::handle_timeout) is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.feedback.poll_timeout()
    }

    /// Counts all in flight as lost, if no report has come for a retransmission timeout.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Option<Update> {
        self.feedback.handle_timeout(now)
    }

    /// Forgets all in flight, and the receiver's count: a subscription begins anew. Returns the bytes that were in flight.
    pub(crate) fn forget(&mut self) -> u64 {
        let bytes = self.feedback.outstanding();
        self.feedback.forget();
        self.hashes.clear();
        self.next = None;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use timeous::cm::Loss;

    use super::*;

    const KEY: Key = [4; 16];

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(1_000 + millis)
    }

    fn report(first: u32, datagrams: &[u8]) -> Report {
        let hashes = datagrams.iter().map(|&byte| fingerprint(&KEY, &[byte])).collect();
        Report { port: 1, key: KEY, first, delay: Duration::from_millis(5), hashes }
    }

    fn with_sent(count: u8) -> Tracker {
        let mut tracker = Tracker::new();
        (0..count).for_each(|byte| tracker.sent(at(u64::from(byte)), &KEY, &[byte], 1_000));
        tracker
    }

    #[test]
    fn a_report_acknowledges_its_datagrams_once_with_a_round_trip() {
        let mut tracker = with_sent(4);
        let update = tracker.handle_report(at(46), &report(0, &[0, 1])).unwrap();
        // The first sample is the minimum, from which the receiver's delay is not subtracted.
        assert_eq!((update.acked, update.lost, update.rtt), (2_000, 0, Some(Duration::from_millis(45))));
        let update = tracker.handle_report(at(50), &report(0, &[0, 1, 2])).unwrap();
        assert_eq!(update.acked, 1_000, "what was repeated is no news");
        assert_eq!(tracker.handle_report(at(51), &report(0, &[0, 1, 2])), None);
        assert_eq!(tracker.arrivals, 3);
    }

    #[test]
    fn a_gap_is_a_loss_after_three_more() {
        let mut tracker = with_sent(6);
        tracker.handle_report(at(40), &report(0, &[0, 2, 3])).unwrap();
        let update = tracker.handle_report(at(42), &report(0, &[0, 2, 3, 4])).unwrap();
        assert_eq!((update.acked, update.lost), (1_000, 1_000));
        assert_eq!(update.loss, Some((Loss::Transient, at(1))));
    }

    #[test]
    fn datagrams_that_were_never_sent_are_not_believed() {
        let mut tracker = with_sent(2);
        assert_eq!(tracker.handle_report(at(40), &report(0, &[7, 8, 9])), None);
        assert_eq!(tracker.handle_report(at(41), &report(3, &[0])).unwrap().acked, 1_000);
    }

    #[test]
    fn equal_datagrams_are_told_apart_by_their_number() {
        let mut tracker = Tracker::new();
        (0..3).for_each(|time| tracker.sent(at(time), &KEY, &[1], 500));
        assert_eq!(tracker.handle_report(at(30), &report(0, &[1])).unwrap().acked, 500);
        assert_eq!(tracker.handle_report(at(31), &report(0, &[1])), None, "it is the first one again");
        assert_eq!(tracker.handle_report(at(32), &report(0, &[1, 1])).unwrap().acked, 500);
    }

    #[test]
    fn after_a_loss_a_later_datagram_of_the_same_content_is_not_taken_for_it() {
        let mut tracker = Tracker::new();
        let contents = [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4];
        (0..).zip(contents).for_each(|(time, byte)| tracker.sent(at(time), &KEY, &[byte], 100));
        // The second datagram is lost.
        let update = tracker.handle_report(at(40), &report(0, &[1, 3, 4, 1])).unwrap();
        assert_eq!((update.acked, update.lost), (400, 100));
        let update = tracker.handle_report(at(45), &report(4, &[2, 3, 4, 1, 2, 3, 4])).unwrap();
        assert_eq!((update.acked, update.lost), (700, 0));
        // One that was only late is found, too.
        let mut tracker = with_sent(4);
        assert_eq!(tracker.handle_report(at(40), &report(0, &[2, 0, 1, 3])).unwrap().acked, 4_000);
    }

    #[test]
    fn silence_loses_all_and_a_new_subscription_starts_from_any_index() {
        let mut tracker = with_sent(2);
        tracker.handle_report(at(40), &report(u32::MAX, &[0])).unwrap();
        let due = tracker.poll_timeout().unwrap();
        let update = tracker.handle_timeout(due).unwrap();
        assert_eq!((update.lost, update.loss.unwrap().0), (1_000, Loss::Persistent));
        tracker.sent(at(2_000), &KEY, &[9], 700);
        assert_eq!(tracker.forget(), 700);
        tracker.sent(at(2_001), &KEY, &[10], 700);
        assert_eq!(tracker.handle_report(at(2_040), &report(0, &[10])).unwrap().acked, 700);
    }
}
