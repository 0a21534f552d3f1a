//! The view of a send queue that a late-choice policy works on, whoever holds the queue.

use crate::adu::{AduMeta, DropReason};

/// What is queued and may still be chosen, oldest first.
///
/// The application's side of the packet ring gives one for what it has pulled back, the transport's side one for what
/// it has not sent yet. A policy cannot tell them apart, so that the same choice can be made in either place.
pub trait Queue {
    /// How many places there are, those given up included.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ADU at place `index` and its payload's length, or `None` if it was given up (or is beyond the end).
    fn get(&self, index: usize) -> Option<(&AduMeta, usize)>;

    /// Gives up the ADU at place `index`; a second time is harmless. Places keep their numbers.
    fn drop_at(&mut self, index: usize, reason: DropReason);
}
