//! Queue view of lost ADUs, so that the policy for new ADUs judges both.

use timeous_core::{AduMeta, DropReason, Queue};

/// Lost ADUs, oldest first.
#[derive(Debug, Default)]
pub(super) struct Lost {
    places: Vec<Place>,
}

#[derive(Debug)]
struct Place {
    token: u64,
    meta: AduMeta,
    len: usize,
    given_up: bool,
}

impl Lost {
    pub(super) fn clear(&mut self) {
        self.places.clear();
    }

    pub(super) fn push(&mut self, token: u64, meta: AduMeta, len: usize) {
        self.places.push(Place { token, meta, len, given_up: false });
    }

    /// The oldest ADU that was not dropped.
    pub(super) fn first(&self) -> Option<u64> {
        self.places.iter().find(|place| !place.given_up).map(|place| place.token)
    }

    pub(super) fn given_up(&self) -> impl Iterator<Item = u64> {
        self.places.iter().filter(|place| place.given_up).map(|place| place.token)
    }
}

impl Queue for Lost {
    fn len(&self) -> usize {
        self.places.len()
    }

    fn get(&self, index: usize) -> Option<(&AduMeta, usize)> {
        self.places.get(index).filter(|place| !place.given_up).map(|place| (&place.meta, place.len))
    }

    fn was_sent(&self, index: usize) -> bool {
        index < self.places.len()
    }

    fn drop_at(&mut self, index: usize, _: DropReason) {
        if let Some(place) = self.places.get_mut(index) {
            place.given_up = true;
        }
    }
}
