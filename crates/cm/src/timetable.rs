//! When each macroflow wants time to pass, and which is next: a tree of minima over their places.

use timeous_core::Instant;

/// A tournament: the leaves are the macroflows' due times, each node the earlier of its two. Nothing is allocated but
/// when there are more macroflows than ever before, and a change goes up no further than it changes something.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timetable {
    /// The root is at 1, and the leaves in the upper half.
    nodes: Vec<Instant>,
}

impl Timetable {
    /// What is at `place` is due at `at`, or not at all.
    pub(crate) fn set(&mut self, place: usize, at: Option<Instant>) {
        let due = at.unwrap_or(Instant::FAR_FUTURE);
        if place >= self.nodes.len() / 2 {
            if due == Instant::FAR_FUTURE {
                return;
            }
            self.grow(place + 1);
        }
        let mut node = self.nodes.len() / 2 + place;
        if self.nodes[node] == due {
            return;
        }
        self.nodes[node] = due;
        while node > 1 {
            let earlier = self.nodes[node].min(self.nodes[node ^ 1]);
            node /= 2;
            if self.nodes[node] == earlier {
                return;
            }
            self.nodes[node] = earlier;
        }
    }

    fn grow(&mut self, places: usize) {
        let leaves = places.next_power_of_two();
        let mut nodes = vec![Instant::FAR_FUTURE; 2 * leaves];
        let old = &self.nodes[self.nodes.len() / 2..];
        nodes[leaves..leaves + old.len()].copy_from_slice(old);
        for node in (1..leaves).rev() {
            nodes[node] = nodes[2 * node].min(nodes[2 * node + 1]);
        }
        self.nodes = nodes;
    }

    /// When the first is due.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.nodes.get(1).copied().filter(|&at| at != Instant::FAR_FUTURE)
    }

    /// The lowest place that is due by `now`.
    pub(crate) fn next_due(&self, now: Instant) -> Option<usize> {
        self.first().filter(|&at| at <= now)?;
        let leaves = self.nodes.len() / 2;
        let mut node = 1;
        while node < leaves {
            node *= 2;
            node += usize::from(self.nodes[node] > now);
        }
        Some(node - leaves)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn says_what_a_list_would(changes in prop::collection::vec((0usize..40, prop::option::of(0u64..100)), 1..200)) {
            let mut table = Timetable::default();
            let mut list = [None; 40];
            for (place, at) in changes {
                let at = at.map(Instant::from_nanos);
                table.set(place, at);
                list[place] = at;
                prop_assert_eq!(table.first(), list.iter().flatten().min().copied());
                let now = Instant::from_nanos(50);
                prop_assert_eq!(table.next_due(now), list.iter().position(|at| at.is_some_and(|at| at <= now)));
            }
        }
    }
}
