//! A word against others': who tells of no congestion where everybody else meets it has no more than they.

use timeous_core::{Duration, Instant, Rate};

use crate::destination::{Destination, User};
use crate::trace::Happening;

use super::Manager;

/// How often a macroflow is compared.
const EVERY: Duration = Duration::from_millis(50);
/// With so many others at most.
const OTHERS: usize = 64;
/// So many users must have met congestion, unless the host has.
const USERS: usize = 2;

impl Manager {
    /// Compares a macroflow whose congestion its user alone tells of with the others to its destination.
    pub(super) fn compare(&mut self, now: Instant, name: u64) {
        let Some(macroflow) = self.macroflows.get_mut(name) else { return };
        let destination = macroflow.destination;
        let Some(user) = destination.user else { return };
        if !macroflow.is_to_be_compared(now, EVERY) {
            return;
        }
        let found = macroflow.spotless_since().and_then(|since| self.what_others_have(now, destination, since));
        let Some(macroflow) = self.macroflows.get_mut(name) else { return };
        let held = found.or_else(|| macroflow.still_held(now));
        if macroflow.hold(now, held, found.is_some()) {
            self.outbox.note(now, name, None, || Happening::Held { user, rate: held });
        }
    }

    /// What those have who want more and met congestion since some instant: their mean, if there are enough of them to
    /// be believed. The host's own transports take it from the wire and need nobody to agree.
    fn what_others_have(&self, now: Instant, destination: Destination, since: Instant) -> Option<Rate> {
        let to = |user| Destination { user, ..destination };
        let all = self.by_destination.range(to(None)..=to(Some(User(u32::MAX))));
        let others = all.filter(|(other, _)| other.user != destination.user).take(OTHERS);
        let (mut sum, mut least, mut users, mut host) = (0u64, Rate::ZERO, 0, 0);
        for (other, &name) in others {
            let Some(had) = self.macroflows.get(name).and_then(|macroflow| macroflow.had(now, since)) else { continue };
            sum = sum.saturating_add(had.goodput.as_bps());
            least = least.max(had.least);
            *(if other.user.is_some() { &mut users } else { &mut host }) += 1;
        }
        let enough = users >= USERS || host > 0;
        enough.then(|| Rate::from_bps(sum / (users + host) as u64).max(least))
    }
}
