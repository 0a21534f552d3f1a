//! Next timeouts of all macroflows, as a tree of minima over their indices.

use timeous_core::Instant;

/// Tournament tree: the leaves are the macroflows' timeouts, each node is the earlier of its two children. Memory is
/// allocated only for a new maximum of macroflows, and an update stops at the first unchanged node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timetable {
    /// The root is at 1, the leaves are in the upper half.
    nodes: Vec<Instant>,
}

impl Timetable {
    /// Sets or clears the timeout of an index.
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

    /// The earliest timeout.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.nodes.get(1).copied().filter(|&at| at != Instant::FAR_FUTURE)
    }

    /// The lowest index that is due by `now`.
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
