//! Log of sent packets, for round-trip samples and the verification of feedback.

use std::collections::VecDeque;

use timeous_core::{Duration, Instant};

use crate::seq::Seq;

/// Maximum number of packets in the log; more than a round trip's worth of any live stream. Chosen by us: a higher
/// value takes more memory.
const MAX_PACKETS: usize = 1 << 16;

/// A sent packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) at: Instant,
    /// Its window counter; without data, that of the previous data packet.
    pub(super) counter: u8,
    /// Cumulative payload bytes and data packets, this one included.
    pub(super) bytes: u64,
    pub(super) packets: u64,
}

/// Recently sent packets, one per sequence number.
#[derive(Clone, Debug)]
pub(super) struct SentLog {
    first: Seq,
    packets: VecDeque<Sent>,
    /// Payload bytes and data packets before the first one in the log.
    before: (u64, u64),
    bytes: u64,
    data: u64,
}

impl SentLog {
    pub(super) fn new() -> Self {
        Self { first: Seq::new(0), packets: VecDeque::new(), before: (0, 0), bytes: 0, data: 0 }
    }

    /// Adds a packet, with its payload size if it is a data packet. Every packet must be added, in order.
    pub(super) fn push(&mut self, now: Instant, seq: Seq, payload: Option<u64>, counter: u8) {
        if self.packets.is_empty() {
            self.first = seq;
        }
        debug_assert_eq!(self.first + self.packets.len() as u64, seq, "a packet was sent without telling the log");
        self.bytes += payload.unwrap_or(0);
        self.data += u64::from(payload.is_some());
        if self.packets.len() == MAX_PACKETS {
            self.forget_first();
        }
        self.packets.push_back(Sent { at: now, counter, bytes: self.bytes, packets: self.data });
    }

    pub(super) fn get(&self, seq: Seq) -> Option<&Sent> {
        self.packets.get(usize::try_from(seq.offset_from(self.first)).ok()?)
    }

    /// Number of data packets from `first` to `last`, as far as logged.
    pub(super) fn data_packets(&self, first: Seq, last: Seq) -> u64 {
        let up_to = |seq| self.get(seq).map(|sent: &Sent| sent.packets);
        let before = if first == self.first { Some(self.before.1) } else { up_to(first.prev()) };
        let (Some(end), Some(before)) = (up_to(last), before) else { return 0 };
        end.saturating_sub(before)
    }

    /// Data packets from `first` to `last`, as far as logged.
    pub(super) fn data_between(&self, first: Seq, last: Seq) -> impl Iterator<Item = &Sent> {
        let place = |seq: Seq| usize::try_from(seq.offset_from(self.first).max(0)).unwrap_or(usize::MAX);
        let (from, to) = (place(first), place(last.next()).min(self.packets.len()));
        let before = from.checked_sub(1).and_then(|at| self.packets.get(at)).map_or(self.before.1, |sent| sent.packets);
        let counts = std::iter::once(before).chain(self.packets.range(from.min(to)..to).map(|sent| sent.packets));
        let each = self.packets.range(from.min(to)..to).zip(counts);
        each.filter(|(sent, before)| sent.packets > *before).map(|(sent, _)| sent)
    }

    /// Payload bytes sent by `at`, as far as logged.
    pub(super) fn bytes_by(&self, at: Instant) -> u64 {
        let after = self.packets.partition_point(|sent| sent.at <= at);
        match after.checked_sub(1) {
            Some(last) => self.packets[last].bytes,
            None => self.before.0,
        }
    }

    /// Removes packets sent before `at`, all but the newest.
    pub(super) fn forget_before(&mut self, at: Instant) {
        while self.packets.front().is_some_and(|sent| sent.at < at) && self.packets.len() > 1 {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some(gone) = self.packets.pop_front() {
            self.before = (gone.bytes, gone.packets);
            self.first = self.first.next();
        }
    }
}

/// Upper bound of the receive rate, in bytes per second, by the packets sent up to `acked`: two stretches of `time` may
/// arrive in one if a queue held the first back.
pub(super) fn most_received(log: &SentLog, acked: &Sent, time: Duration) -> f64 {
    let since = acked.at.saturating_sub(time * 2);
    acked.bytes.saturating_sub(log.bytes_by(since)) as f64 / time.as_secs_f64().max(1e-6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn it_knows_what_left_when() {
        let mut log = SentLog::new();
        let seq = |n| Seq::new(100 + n);
        for n in 0..10 {
            log.push(at(n * 10), seq(n), (n % 3 != 0).then_some(100), 0);
        }
        // 0, 3, 6 and 9 carry nothing.
        assert_eq!((log.data_packets(seq(0), seq(9)), log.data_packets(seq(1), seq(3))), (6, 2));
        assert_eq!((log.data_packets(seq(3), seq(3)), log.data_packets(seq(4), seq(4))), (0, 1));
        assert_eq!((log.bytes_by(at(29)), log.bytes_by(at(1_000))), (200, 600));
        let acked = *log.get(seq(9)).unwrap();
        assert!((most_received(&log, &acked, Duration::from_millis(20)) - 10_000.0).abs() < 1.0, "200 bytes in 20 ms");
        log.forget_before(at(50));
        assert!(log.get(seq(4)).is_none() && log.get(seq(5)).is_some() && log.get(seq(10)).is_none());
    }

    #[test]
    fn it_is_bounded() {
        let mut log = SentLog::new();
        for n in 0..MAX_PACKETS as u64 + 10 {
            log.push(at(n), Seq::new(n), Some(1), 0);
        }
        assert_eq!(log.packets.len(), MAX_PACKETS);
        assert!(log.get(Seq::new(9)).is_none() && log.get(Seq::new(10)).is_some());
    }
}
