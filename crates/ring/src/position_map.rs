//! Values by packet position, for the positions in use: its memory follows their number, not the ring's size.

use std::collections::VecDeque;

/// Values of consecutive positions.
#[derive(Clone, Debug)]
pub(crate) struct PositionMap<T> {
    /// Position of the first value.
    first: u64,
    values: VecDeque<T>,
}

impl<T: Default> PositionMap<T> {
    /// Creates an empty map whose positions begin at `first`.
    pub(crate) fn new(first: u64) -> Self {
        Self { first, values: VecDeque::new() }
    }

    /// First position.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Number of positions.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn get(&self, position: u64) -> Option<&T> {
        self.values.get(usize::try_from(position.checked_sub(self.first)?).ok()?)
    }

    pub(crate) fn get_mut(&mut self, position: u64) -> Option<&mut T> {
        self.values.get_mut(usize::try_from(position.checked_sub(self.first)?).ok()?)
    }

    /// Value at `position`, which becomes part of the map; those between are defaults. Panics for a position that was
    /// removed.
    pub(crate) fn entry(&mut self, position: u64) -> &mut T {
        if self.values.is_empty() {
            self.first = self.first.max(position);
        }
        let at =
            position.checked_sub(self.first).expect("positions are removed in order, and never used again") as usize;
        if at >= self.values.len() {
            self.values.resize_with(at + 1, T::default);
        }
        &mut self.values[at]
    }

    /// Swaps the values of two positions of the map.
    pub(crate) fn swap(&mut self, a: u64, b: u64) {
        self.values.swap((a - self.first) as usize, (b - self.first) as usize);
    }

    /// Removes the first value.
    pub(crate) fn pop_first(&mut self) -> Option<T> {
        let value = self.values.pop_front()?;
        self.first += 1;
        Some(value)
    }

    /// Removes all values before `position`.
    pub(crate) fn remove_before(&mut self, position: u64) {
        while self.first < position && self.pop_first().is_some() {}
        self.first = self.first.max(position);
    }
}

#[cfg(test)]
mod tests {
    use super::PositionMap;

    #[test]
    fn positions_come_at_the_end_and_go_at_the_beginning() {
        let mut map = PositionMap::new(5);
        *map.entry(7) = 70;
        *map.entry(9) = 90;
        assert_eq!((map.first(), map.len()), (7, 3), "it begins at the first position used");
        assert_eq!([6, 7, 8, 9, 10].map(|at| map.get(at).copied()), [None, Some(70), Some(0), Some(90), None]);
        map.swap(7, 9);
        assert_eq!(map.pop_first(), Some(90));
        map.remove_before(9);
        assert_eq!((map.get(9), map.get(8)), (Some(&70), None));
        map.remove_before(100);
        *map.entry(100) = 1;
        assert_eq!((map.first(), map.len(), map.get_mut(100)), (100, 1, Some(&mut 1)));
    }
}
