//! View of a send queue for late choice.

use crate::adu::{AduMeta, DropReason};

/// Send queue from which ADUs may still be dropped, oldest first.
///
/// Implemented on the application's side of the packet ring for packets pulled back, and on the transport's side for
/// unsent ones. A policy cannot tell them apart, so that the same policy works on either side.
pub trait Queue {
    /// Number of places, including dropped ADUs.
    fn len(&self) -> usize;

    /// Whether there are no places.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ADU at `index` and its payload length; `None` if it was dropped, or beyond the end.
    fn get(&self, index: usize) -> Option<(&AduMeta, usize)>;

    /// Whether the ADU at `index` was sent before and, as far as can be told, lost, so that sending it is a
    /// retransmission. Such ADUs precede the new ones and cost their bytes again; the rest of their frame was sent,
    /// too, or is behind them. Dropping one loses it for good.
    fn was_sent(&self, index: usize) -> bool {
        let _ = index;
        false
    }

    /// Drops the ADU at `index`; repeated calls are harmless. Indices do not change.
    fn drop_at(&mut self, index: usize, reason: DropReason);
}

/// Two queues as one: retransmissions before new ADUs.
pub struct Joined<'a> {
    ahead: &'a mut dyn Queue,
    behind: &'a mut dyn Queue,
    len_ahead: usize,
}

impl<'a> Joined<'a> {
    /// Joins all of `ahead`, then all of `behind`.
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
