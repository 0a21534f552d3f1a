//! Rate limit of a macroflow that reports no congestion where the others to its destination do.

use timeous_core::{Duration, Instant, Rate};

use crate::rtt::RttEstimator;

use super::Macroflow;
use super::hold::Hold;
use super::signs::KEPT_EVENTS;

/// Maximum age of congestion events that count in a comparison. Chosen by us. A higher value limits a user by
/// congestion that is over; a lower one finds no congestion on fast paths, where events are rare.
const MAX_EVENT_AGE: Duration = Duration::from_secs(300);

/// Contribution of a macroflow to comparisons: its goodput, and a lower bound of limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ComparedGoodput {
    /// Rate at which its data arrives.
    pub(crate) goodput: Rate,
    /// Lower bound of a limit that follows from it: one packet per round trip.
    pub(crate) least: Rate,
}

impl Macroflow {
    /// Start of the time in which it has been sending without reporting congestion.
    pub(crate) fn spotless_since(&self) -> Option<Instant> {
        self.signs.present_since.max(self.signs.last[0])
    }

    /// Its goodput, if it has been window-limited with `KEPT_EVENTS` congestion events since `since`.
    pub(crate) fn had(&self, now: Instant, since: Instant) -> Option<ComparedGoodput> {
        let since = since.max(now.saturating_sub(MAX_EVENT_AGE));
        let wants = self.granted > 0 || !self.requests.is_empty() || self.was_limited_at(now);
        let met = self.signs.last[KEPT_EVENTS - 1].is_some_and(|at| at > since);
        // Who has never had an acknowledgement is a witness, too: the one that is compared may be what keeps them away.
        let least = Rate::from_bytes_in(self.mtu, self.rtt.smoothed().unwrap_or(RttEstimator::INITIAL_TIMEOUT));
        (wants && met).then(|| ComparedGoodput { goodput: self.goodput.rate(now), least })
    }

    /// Takes over history and limit of the macroflow that was left, so that leaving does not reset them.
    pub(crate) fn inherit_signs(&mut self, from: &Self) {
        (self.signs, self.held) = (from.signs, from.held);
    }

    /// Whether a comparison with other macroflows is due.
    pub(crate) fn is_to_be_compared(&mut self, now: Instant, every: Duration) -> bool {
        let due = self.compared_at.is_none_or(|at| now.saturating_since(at) >= every);
        if due {
            self.compared_at = Some(now);
        }
        due
    }

    /// The rate limit that stays although no others were found now, unless it has reported congestion meanwhile.
    pub(crate) fn still_held(&self, now: Instant) -> Option<Rate> {
        self.held.filter(|hold| hold.stays(now, self.signs.last[0])).map(|hold| hold.rate)
    }

    /// Sets the rate limit; `found`: others with no more were found now. Returns whether the limit began or ended.
    pub(crate) fn hold(&mut self, now: Instant, rate: Option<Rate>, found: bool) -> bool {
        let before = self.held;
        let found_at = before.filter(|_| !found).map_or(now, |hold| hold.found_at);
        self.held = rate.map(|rate| Hold { rate, found_at });
        let turns = before.is_some() != rate.is_some();
        if turns {
            // Drop the pacing debt of the old rate; only here, since at each rate change it would let a packet leave early.
            self.next_release = self.next_release.min(now);
        }
        if before.map(|hold| hold.rate) != rate {
            self.reckon();
        }
        turns
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::destination::Destination;
    use crate::kind::Kind;

    #[test]
    fn another_rate_lets_no_packet_leave_ahead_of_its_time() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let to = Destination::from(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let mut macroflow = Macroflow::new(to, Kind::Aimd.constructor(), 1_000);
        let kbps = |rate| Some(Rate::from_kbps(rate));
        assert!(macroflow.hold(at(0), kbps(800), true), "it was free");
        macroflow.next_release = at(1_010);
        for (n, rate) in [810, 790, 805].into_iter().enumerate() {
            assert!(!macroflow.hold(at(1_000 + n as u64), kbps(rate), true));
            assert_eq!(macroflow.next_release, at(1_010));
        }
        assert!(macroflow.hold(at(1_005), None, false));
        assert_eq!(macroflow.next_release, at(1_005), "free, it owes the other pace nothing");
    }
}
