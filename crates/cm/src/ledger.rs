//! What a flow can claim by now: bytes that were sent long enough ago to have been there and back.

use timeous_core::{Duration, Instant, Rate};

/// Times that are remembered of a round trip.
const MARKS: usize = 16;
/// How many of them there are in the least time that news takes.
const MARKS_EACH_DELAY: u64 = 4;
/// So long may a host take to pass on that a packet has left.
const HOST_DELAY: Duration = Duration::from_millis(2);
/// No news of a packet comes sooner, whatever the path: between two processes of one host it takes longer.
pub(crate) const LEAST_ROUND_TRIP: Duration = Duration::from_micros(10);
/// Nothing is carried faster: the fastest Ethernet there is (IEEE 802.3df). Memory is no faster for packets.
const FASTEST: Rate = Rate::from_bps(800_000_000_000);
/// No packet lives longer: the maximum segment lifetime of RFC 9293 §3.4.2.
pub(crate) const MAX_ROUND_TRIP: Duration = Duration::from_secs(120);

/// What a client whose word alone tells what became of its packets has sent, and when.
///
/// It cannot know more of a packet than that it is gone before the packet was there and back. What it says of round
/// trips binds it: its acknowledgements may come no faster than half of the shortest that it told. Where nothing is
/// known of the path two things still hold: no news comes at once, and no network is faster than any. So whatever is
/// said, in a time t no more is believed than the fastest network carries in t.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// What had been sent before some instant, oldest first; a ring that ends before `next`.
    marks: [(Instant, u64); MARKS],
    next: usize,
    len: usize,
    began: Option<Instant>,
    sent: u64,
    told: u64,
    /// The shortest round trip that is known; while nobody tells one, how long the first bytes took.
    known: Option<Duration>,
}

/// The shortest round trip that is believed, where the host has seen one of `seen`: a user may go another way.
pub(crate) fn least_sample(seen: Duration) -> Duration {
    (seen / 2).saturating_sub(HOST_DELAY)
}

/// The least time between a packet and the news of it, if a round trip takes `least`.
fn least_delay(least: Duration) -> Duration {
    (least / 2).saturating_sub(HOST_DELAY.min(least / 4)).max(LEAST_ROUND_TRIP)
}

impl Ledger {
    /// For a path whose shortest round trip is `least`, if it is known.
    pub(crate) fn of_path(least: Option<Duration>) -> Self {
        Self { known: least, ..Self::default() }
    }

    fn delay(&self, least: Option<Duration>) -> Duration {
        least.or(self.known).map_or(LEAST_ROUND_TRIP, least_delay)
    }

    /// Bytes left.
    pub(crate) fn sent(&mut self, now: Instant, bytes: u64) {
        self.began.get_or_insert(now);
        let spacing = self.delay(None) / MARKS_EACH_DELAY;
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
        let Some(latest) = now.as_nanos().checked_sub(self.delay(least).as_nanos()) else { return 0 };
        let latest = Instant::from_nanos(latest);
        // What left between two marks counts as if it had left at the first.
        let sent = self.marks().find(|&(at, _)| at > latest).map_or(self.sent, |(_, before)| before);
        let carried = FASTEST.bytes_in(now.saturating_since(self.began.unwrap_or(now)));
        sent.min(carried).saturating_sub(self.told)
    }

    /// News of `bytes` was believed, on a path whose shortest round trip is `least`.
    pub(crate) fn told(&mut self, now: Instant, bytes: u64, least: Option<Duration>) {
        self.told += bytes;
        let took = || self.began.filter(|_| bytes > 0).map(|began| now.saturating_since(began));
        self.known = least.or(self.known).or_else(took);
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
        let mut ledger = Ledger::of_path(RTT);
        ledger.sent(at(0), 1_000);
        ledger.sent(at(30), 500);
        assert_eq!(ledger.possible(at(40), RTT), 0);
        assert_eq!(ledger.possible(at(48), RTT), 1_000, "half a round trip less what the host may take");
        assert_eq!(ledger.possible(at(100), RTT), 1_500);
        ledger.told(at(100), 1_200, RTT);
        assert_eq!(ledger.possible(at(130), RTT), 300);
    }

    #[test]
    fn who_never_tells_a_round_trip_is_held_to_his_first() {
        let mut ledger = Ledger::default();
        ledger.sent(at(0), 1_000);
        assert_eq!(ledger.possible(at(60), None), 1_000);
        ledger.told(at(60), 1_000, None);
        ledger.sent(at(61), 1_000);
        assert_eq!(ledger.possible(at(80), None), 0);
        assert_eq!(ledger.possible(at(89), None), 1_000);
    }

    #[test]
    fn a_long_stream_is_remembered_coarsely_and_never_to_the_honest_ones_harm() {
        let mut ledger = Ledger::of_path(RTT);
        let mut told = 0;
        for n in 0..10_000 {
            ledger.sent(at(n), 1);
            if n >= 100 {
                assert!(ledger.possible(at(n), RTT) >= 1, "packet {n}");
                ledger.told(at(n), 1, RTT);
                told += 1;
            }
        }
        assert!(ledger.possible(at(9_999), RTT) <= 100 - 48 + 13, "{told} told");
    }

    #[test]
    fn where_nothing_is_known_news_still_takes_a_while() {
        let micros = |micros| at(0) + Duration::from_micros(micros);
        let least = Some(Duration::ZERO);
        let mut ledger = Ledger::default();
        for n in 0..1_000 {
            ledger.sent(micros(n), 1);
            let possible = ledger.possible(micros(n), least);
            ledger.told(micros(n), possible, least);
            assert!(ledger.told <= n.saturating_sub(7), "{} told of after {n} us", ledger.told);
        }
        assert!(ledger.told > 980, "{}", ledger.told);
    }

    #[test]
    fn no_network_is_faster_than_any() {
        let mut ledger = Ledger::default();
        ledger.sent(at(0), u64::MAX / 2);
        assert_eq!(ledger.possible(at(1), None), 100_000_000);
        ledger.told(at(1), 100_000_000, None);
        assert_eq!(ledger.possible(at(1), Some(Duration::ZERO)), 0);
    }
}
