//! A macroflow that is held to what others have, since it tells of no congestion where they all meet some.

use timeous_core::{Duration, Instant, Rate};

use super::Macroflow;

/// So many signs of congestion others must have met since a macroflow last told of one.
const SIGNS: usize = 3;
/// Signs that are older say nothing of the path as it is.
const LATELY: Duration = Duration::from_secs(300);
/// Who sent nothing for so long has missed what others met meanwhile.
const ABSENCE: Duration = Duration::from_secs(10);

/// When congestion was last answered, and since when a macroflow could have met some.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signs {
    /// The newest first.
    last: [Option<Instant>; SIGNS],
    present_since: Option<Instant>,
}

impl Signs {
    pub(super) fn met(&mut self, now: Instant) {
        self.last.rotate_right(1);
        self.last[0] = Some(now);
    }

    /// Packets leave, and the last left at some instant.
    pub(super) fn sends(&mut self, now: Instant, last: Option<Instant>) {
        if self.present_since.is_none() || last.is_some_and(|last| now.saturating_since(last) > ABSENCE) {
            self.present_since = Some(now);
        }
    }
}

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
