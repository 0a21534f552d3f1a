//! A macroflow that is held to what others have, since it tells of no congestion where they all meet some.

use timeous_core::{Duration, Instant, Rate};

use super::Macroflow;
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

    /// The rate that it is held to; `true` if it was free before and is not now, or the other way round.
    pub(crate) fn hold(&mut self, now: Instant, rate: Option<Rate>) -> bool {
        let turns = self.held.is_some() != rate.is_some();
        if self.held != rate {
            self.held = rate;
            // What was owed to another pace.
            self.next_release = self.next_release.min(now);
            self.reckon();
        }
        turns
    }
}
