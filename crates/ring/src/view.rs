//! The consumer's view of what is queued, kept up to date at the cost of two loads a packet.

use timeous_core::{AduMeta, DropReason, Queue};

use crate::consumer::Consumer;
use crate::record;
use crate::sync::AtomicU64;

/// A private copy of a queued packet's record, and the consumer's decision on it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    position: u64,
    /// Of the record that was copied; zero if none was.
    version: u64,
    meta: AduMeta,
    len: usize,
    dead: bool,
    given_up: Option<DropReason>,
}

impl Seen {
    /// Looks at the record again, and copies it if it is another one than before.
    pub(crate) fn refresh(&mut self, position: u64, words: &[AtomicU64]) {
        let same = self.version != 0 && self.position == position && self.version == record::version(words);
        if !same {
            *self = match record::read(words) {
                Ok(record) => Self {
                    position,
                    version: record.version,
                    meta: record.meta,
                    len: record.place.len as usize,
                    ..Self::default()
                },
                // Being rewritten by its owner, who has pulled it back meanwhile: not there for now.
                Err(_) => Self::default(),
            };
        }
        self.dead = record::dead(words).is_some();
    }

    /// Why this very packet was given up, if it was. One rewritten since is another packet.
    pub(crate) fn given_up(&self, position: u64, version: u64) -> Option<DropReason> {
        self.given_up.filter(|_| self.position == position && self.version == version)
    }

    fn alive(&self) -> Option<(&AduMeta, usize)> {
        (self.version != 0 && !self.dead && self.given_up.is_none()).then_some((&self.meta, self.len))
    }
}

/// What is queued between `kern_i` and `umod_i`, for a choice at the instant of sending.
///
/// Giving up a packet here is private to the consumer until it claims the packet: it is passed over then, with its
/// reason as its fate, unless the application has pulled it back and rewritten it meanwhile.
#[derive(Debug)]
pub struct QueueView<'a> {
    consumer: &'a mut Consumer,
    len: usize,
}

impl<'a> QueueView<'a> {
    pub(crate) fn new(consumer: &'a mut Consumer, len: usize) -> Self {
        Self { consumer, len }
    }

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
            self.consumer.seen_mut(index).given_up = Some(reason);
        }
    }
}
