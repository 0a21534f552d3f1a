//! Plausibility limit of unverified feedback: bytes that were sent at least a round trip ago.

use timeous_core::{Duration, Instant, Rate};

/// Number of send times kept. Chosen by us: at `MARKS_PER_DELAY`, they cover about two round trips. A higher value
/// takes more memory; a lower one believes feedback too early.
const MARKS: usize = 16;
/// Number of send times per minimum feedback delay. Chosen by us. A higher value limits early feedback more accurately.
const MARKS_PER_DELAY: u64 = 4;
/// Maximum time until a host reports that a packet has left. Chosen by us. A higher value believes earlier feedback; a
/// lower one rejects a busy host's.
const HOST_DELAY: Duration = Duration::from_millis(2);
/// Minimum RTT of any path. Chosen by us: even between two processes of one host it is longer. A higher value rejects
/// feedback of fast paths.
pub(crate) const MIN_ROUND_TRIP: Duration = Duration::from_micros(10);
/// Maximum rate of any network: the fastest Ethernet (IEEE 802.3df). Memory is no faster for packets.
const MAX_NETWORK_RATE: Rate = Rate::from_bps(800_000_000_000);
/// Maximum RTT: the maximum segment lifetime (RFC 9293 §3.4.2).
pub(crate) const MAX_ROUND_TRIP: Duration = Duration::from_secs(120);

/// Bytes sent over time by a client whose feedback cannot be verified.
///
/// A client knows no more about a packet than that it left, until a round trip later. Its own RTT samples bind it:
/// acknowledgements may come no earlier than half of the shortest one. On an unknown path the minimum RTT and the
/// fastest network still limit it: within a time t no more is believed than that network carries in t.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// Total bytes sent before an instant, as a ring buffer whose newest entry is before `next`.
    marks: [(Instant, u64); MARKS],
    next: usize,
    len: usize,
    began: Option<Instant>,
    sent: u64,
    told: u64,
    /// Minimum RTT known; without any sample, the time until the first bytes were acknowledged.
    known: Option<Duration>,
}

/// Minimum RTT sample that is believed where the host has measured `seen`: the user's packets may take another route.
pub(crate) fn least_sample(seen: Duration) -> Duration {
    (seen / 2).saturating_sub(HOST_DELAY)
}

/// Minimum delay of feedback for a packet, if the minimum RTT is `least`.
fn least_delay(least: Duration) -> Duration {
    (least / 2).saturating_sub(HOST_DELAY.min(least / 4)).max(MIN_ROUND_TRIP)
}

impl Ledger {
    /// Creates a ledger for a path with this minimum RTT, if known.
    pub(crate) fn of_path(least: Option<Duration>) -> Self {
        Self { known: least, ..Self::default() }
    }

    fn delay(&self, least: Option<Duration>) -> Duration {
        least.or(self.known).map_or(MIN_ROUND_TRIP, least_delay)
    }

    /// Counts sent bytes.
    pub(crate) fn sent(&mut self, now: Instant, bytes: u64) {
        self.began.get_or_insert(now);
        let spacing = self.delay(None) / MARKS_PER_DELAY;
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

    /// Bytes, not yet reported, whose feedback may have come by `now`, on a path with a minimum RTT of `least`.
    pub(crate) fn possible(&self, now: Instant, least: Option<Duration>) -> u64 {
        let Some(latest) = now.as_nanos().checked_sub(self.delay(least).as_nanos()) else { return 0 };
        let latest = Instant::from_nanos(latest);
        // Bytes sent between two entries count as sent at the earlier one.
        let sent = self.marks().find(|&(at, _)| at > latest).map_or(self.sent, |(_, before)| before);
        let carried = MAX_NETWORK_RATE.bytes_in(now.saturating_since(self.began.unwrap_or(now)));
        sent.min(carried).saturating_sub(self.told)
    }

    /// Counts bytes as reported that no feedback can report any more.
    pub(crate) fn forget(&mut self, bytes: u64) {
        self.told += bytes;
    }

    /// Counts reported bytes, on a path with a minimum RTT of `least`.
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
