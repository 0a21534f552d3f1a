//! What a flow can claim by now: bytes that were sent long enough ago to have been there and back.

use timeous_core::{Duration, Instant};

/// Times that are remembered of a round trip.
const MARKS: usize = 16;
/// How far apart they are before anything is known of the path.
const FIRST_SPACING: Duration = Duration::from_millis(1);
/// So long may a host take to pass on that a packet has left.
const HOST_DELAY: Duration = Duration::from_millis(2);
/// No packet lives longer: the maximum segment lifetime of RFC 9293 §3.4.2.
pub(crate) const MAX_ROUND_TRIP: Duration = Duration::from_secs(120);

/// What a client whose word alone tells what became of its packets has sent, and when.
///
/// It cannot know more of a packet than that it is gone before the packet was there and back. What it says of round
/// trips binds it: its acknowledgements may come no faster than half of the shortest that it told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// What had been sent before some instant, oldest first; a ring that ends before `next`.
    marks: [(Instant, u64); MARKS],
    next: usize,
    len: usize,
    sent: u64,
    told: u64,
    /// How long the first bytes took, as the manager saw it.
    first_took: Option<Duration>,
}

/// The least time between a packet and the news of it, if a round trip takes `least`.
pub(crate) fn least_delay(least: Duration) -> Duration {
    (least / 2).saturating_sub(HOST_DELAY)
}

impl Ledger {
    /// Bytes left; `least` is the shortest round trip known.
    pub(crate) fn sent(&mut self, now: Instant, bytes: u64, least: Option<Duration>) {
        let spacing = least.map_or(FIRST_SPACING, |least| least / (MARKS as u64 / 2));
        if self.newest().is_none_or(|(at, _)| now >= at + spacing) {
            self.marks[self.next] = (now, self.sent);
            self.next = (self.next + 1) % MARKS;
            self.len = (self.len + 1).min(MARKS);
        }
        self.sent += bytes;
    }

    fn newest(&self) -> Option<(Instant, u64)> {
        (self.len > 0).then(|| self.marks[(self.next + MARKS - 1) % MARKS])
    }

    fn marks(&self) -> impl Iterator<Item = (Instant, u64)> {
        (0..self.len).map(|n| self.marks[(self.next + MARKS - self.len + n) % MARKS])
    }

    /// Of how many more bytes news can have come by `now`, on a path whose shortest round trip is `least`.
    pub(crate) fn possible(&self, now: Instant, least: Option<Duration>) -> u64 {
        let Some(least) = least.or(self.first_took) else { return self.sent - self.told };
        let Some(latest) = now.as_nanos().checked_sub(least_delay(least).as_nanos()) else { return 0 };
        let latest = Instant::from_nanos(latest);
        // What left between two marks counts as if it had left at the first.
        let sent = self.marks().find(|&(at, _)| at > latest).map_or(self.sent, |(_, before)| before);
        sent.saturating_sub(self.told)
    }

    /// News of `bytes` was believed.
    pub(crate) fn told(&mut self, now: Instant, bytes: u64) {
        self.told += bytes;
        if self.first_took.is_none() && bytes > 0 {
            let first = self.marks().next();
            self.first_took = first.map(|(at, _)| now.saturating_since(at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Option<Duration> = Some(Duration::from_millis(100));

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(1_000 + millis)
    }

    #[test]
    fn what_has_just_left_cannot_be_told_of() {
        let mut ledger = Ledger::default();
        ledger.sent(at(0), 1_000, RTT);
        ledger.sent(at(30), 500, RTT);
        assert_eq!(ledger.possible(at(40), RTT), 0);
        assert_eq!(ledger.possible(at(48), RTT), 1_000, "half a round trip less what the host may take");
        assert_eq!(ledger.possible(at(100), RTT), 1_500);
        ledger.told(at(100), 1_200);
        assert_eq!(ledger.possible(at(130), RTT), 300);
    }

    #[test]
    fn who_never_tells_a_round_trip_is_held_to_his_first() {
        let mut ledger = Ledger::default();
        ledger.sent(at(0), 1_000, None);
        assert_eq!(ledger.possible(at(60), None), 1_000);
        ledger.told(at(60), 1_000);
        ledger.sent(at(61), 1_000, None);
        assert_eq!(ledger.possible(at(80), None), 0);
        assert_eq!(ledger.possible(at(89), None), 1_000);
    }

    #[test]
    fn a_long_stream_is_remembered_coarsely_and_never_to_the_honest_ones_harm() {
        let mut ledger = Ledger::default();
        let mut told = 0;
        for n in 0..10_000 {
            ledger.sent(at(n), 1, RTT);
            if n >= 100 {
                assert!(ledger.possible(at(n), RTT) >= 1, "packet {n}");
                ledger.told(at(n), 1);
                told += 1;
            }
        }
        assert!(ledger.possible(at(9_999), RTT) <= 100 - 48 + 13, "{told} told");
    }
}
