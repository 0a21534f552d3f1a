//! Late choice: the view of a send queue.

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

    /// Whether the ADU at place `index` has left before and did not arrive, as far as can be told, so that it would leave
    /// again. Such ADUs stand before the fresh ones. Their bytes cost as much again; what else belongs to their frame has
    /// left, too, or stands behind them. To give one up is to lose it for good.
    fn was_sent(&self, index: usize) -> bool {
        let _ = index;
        false
    }

    /// Gives up the ADU at place `index`; a second time is harmless. Places keep their numbers.
    fn drop_at(&mut self, index: usize, reason: DropReason);
}

/// One queue before another, as one: what may leave again before what is fresh.
pub struct Joined<'a> {
    ahead: &'a mut dyn Queue,
    behind: &'a mut dyn Queue,
    len_ahead: usize,
}

impl<'a> Joined<'a> {
    /// All of `ahead`, then all of `behind`.
    pub fn new(ahead: &'a mut dyn Queue, behind: &'a mut dyn Queue) -> Self {
        let len_ahead = ahead.len();
        Self { ahead, behind, len_ahead }
    }
}

impl Queue for Joined<'_> {
    fn len(&self) -> usize {
        self.len_ahead + self.behind.len()
    }

    fn get(&self, index: usize) -> Option<(&AduMeta, usize)> {
        match index.checked_sub(self.len_ahead) {
            Some(index) => self.behind.get(index),
            None => self.ahead.get(index),
        }
    }

    fn was_sent(&self, index: usize) -> bool {
        match index.checked_sub(self.len_ahead) {
            Some(index) => self.behind.was_sent(index),
            None => self.ahead.was_sent(index),
        }
    }

    fn drop_at(&mut self, index: usize, reason: DropReason) {
        match index.checked_sub(self.len_ahead) {
            Some(index) => self.behind.drop_at(index, reason),
            None => self.ahead.drop_at(index, reason),
        }
    }
}
