//! The consumer's view of the queue. Its cost follows the packets that are new, and all of them where the producer changes some.

use timeous_core::{AduMeta, DropReason, Queue};

use crate::consumer::Consumer;
use crate::error::Violation;
use crate::seen::Seen;

/// Queue between `kern_i` and `umod_i`, for a policy at the instant of sending.
///
/// A drop is private to the consumer until it claims the packet: it is skipped then with that reason as its fate,
/// unless the application has pulled it back and rewritten it meanwhile.
#[derive(Debug)]
pub struct QueueView<'a> {
    consumer: &'a mut Consumer,
    len: usize,
}

impl Consumer {
    /// Queue view for a policy at the instant of sending.
    ///
    /// # Errors
    /// As [`queued_len`](Self::queued_len).
    pub fn queued(&mut self) -> Result<QueueView<'_>, Violation> {
        let len = self.look_over()?;
        Ok(QueueView { consumer: self, len })
    }
}

impl QueueView<'_> {
    fn seen(&self, index: usize) -> Option<&Seen> {
        (index < self.len).then(|| self.consumer.seen(index))
    }
}

impl Queue for QueueView<'_> {
    fn len(&self) -> usize {
        self.len
    }

    fn get(&self, index: usize) -> Option<(&AduMeta, usize)> {
        self.seen(index)?.alive()
    }

    fn drop_at(&mut self, index: usize, reason: DropReason) {
        if self.get(index).is_some() {
            self.consumer.seen_mut(index).give_up(reason);
        }
    }
}
