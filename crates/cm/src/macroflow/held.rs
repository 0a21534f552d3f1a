//! A macroflow that is held to what others have, since it tells of no congestion where they all meet some.

use timeous_core::{Duration, Instant, Rate};

use super::Macroflow;
use super::hold::Hold;
use super::signs::SIGNS;

/// Signs that are older say nothing of the path as it is.
const LATELY: Duration = Duration::from_secs(300);

/// What a macroflow shows to those who compare.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Had {
    /// What arrives of its packets.
    pub(crate) goodput: Rate,
    /// The least rate that one would be held to because of it: a packet each round trip.
    pub(crate) least: Rate,
}

impl Macroflow {
    /// Since when it has sent and told of no congestion.
    pub(crate) fn spotless_since(&self) -> Option<Instant> {
        self.signs.present_since.max(self.signs.last[0])
    }

    /// What it has of the path, if it has wanted more and met congestion again and again since some instant.
    pub(crate) fn had(&self, now: Instant, since: Instant) -> Option<Had> {
        let since = since.max(now.saturating_sub(LATELY));
        let wants = self.granted > 0 || !self.requests.is_empty() || self.was_limited_at(now);
        let met = self.signs.last[SIGNS - 1].is_some_and(|at| at > since);
        let srtt = self.rtt.smoothed()?;
        let least = Rate::from_bytes_in(self.mtu, srtt);
        (wants && met).then(|| Had { goodput: self.goodput.rate(now), least })
    }

    /// To leave a macroflow is no way to begin again.
    pub(crate) fn inherit_signs(&mut self, from: &Self) {
        (self.signs, self.held) = (from.signs, from.held);
    }

    /// Whether it is time to compare it with others.
    pub(crate) fn is_to_be_compared(&mut self, now: Instant, every: Duration) -> bool {
        let due = self.compared_at.is_none_or(|at| now.saturating_since(at) >= every);
        if due {
            self.compared_at = Some(now);
        }
        due
    }

    /// The rate that it is held to although nobody was found now, unless it told of congestion meanwhile.
    pub(crate) fn still_held(&self, now: Instant) -> Option<Rate> {
        self.held.filter(|hold| hold.stays(now, self.signs.last[0])).map(|hold| hold.rate)
    }

    /// The rate that it is held to, and whether others were found now that have no more; `true` if it was free before
    /// and is not now, or the other way round.
    pub(crate) fn hold(&mut self, now: Instant, rate: Option<Rate>, found: bool) -> bool {
        let before = self.held;
        let found_at = before.filter(|_| !found).map_or(now, |hold| hold.found_at);
        self.held = rate.map(|rate| Hold { rate, found_at });
        let turns = before.is_some() != rate.is_some();
        if turns {
            // What was owed to another pace. Not at each change of the rate: that would be a packet ahead of time each.
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
