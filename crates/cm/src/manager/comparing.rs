//! Comparison of users: one who reports no congestion where all others do gets no more than they have.

use timeous_core::{Duration, Instant, Rate};

use crate::destination::{Destination, User};
use crate::trace::Happening;

use super::Manager;

/// Interval between comparisons of a macroflow. Chosen by us. A higher value limits a user later; a lower one takes
/// more time.
const COMPARISON_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum number of other macroflows in a comparison. Chosen by us: bounds the time of a call. A higher value takes
/// more time.
const MAX_COMPARED: usize = 64;
/// Minimum number of users that must have reported congestion, unless the host's own transports have. Chosen by us, so
/// that no user can slow another alone. A higher value limits fewer users.
const MIN_WITNESSES: usize = 2;

impl Manager {
    /// Compares a macroflow with unverified feedback with the others to its destination, and limits its rate.
    pub(super) fn compare(&mut self, now: Instant, name: u64) {
        let Some(macroflow) = self.macroflows.get_mut(name) else { return };
        let destination = macroflow.destination;
        let Some(user) = destination.user else { return };
        if !macroflow.is_to_be_compared(now, COMPARISON_INTERVAL) {
            return;
        }
        let found = macroflow.spotless_since().and_then(|since| self.what_others_have(now, destination, since));
        let Some(macroflow) = self.macroflows.get_mut(name) else { return };
        let held = found.or_else(|| macroflow.still_held(now));
        if macroflow.hold(now, held, found.is_some()) {
            self.outbox.note(now, name, None, || Happening::Held { user, rate: held });
        }
    }

    /// Mean goodput of the others that are window-limited and had congestion since `since`, if there are enough to be
    /// believed. The host's own transports see congestion on the wire and need no confirmation.
    fn what_others_have(&self, now: Instant, destination: Destination, since: Instant) -> Option<Rate> {
        let to = |user| Destination { user, ..destination };
        let all = self.by_destination.range(to(None)..=to(Some(User(u32::MAX))));
        let others = all.filter(|(other, _)| other.user != destination.user).take(MAX_COMPARED);
        let (mut sum, mut least, mut users, mut host) = (0u64, Rate::ZERO, 0, 0);
        for (other, &name) in others {
            let Some(had) = self.macroflows.get(name).and_then(|macroflow| macroflow.had(now, since)) else { continue };
            sum = sum.saturating_add(had.goodput.as_bps());
            least = least.max(had.least);
            *(if other.user.is_some() { &mut users } else { &mut host }) += 1;
        }
        let enough = users >= MIN_WITNESSES || host > 0;
        enough.then(|| Rate::from_bps(sum / (users + host) as u64).max(least))
    }
}
