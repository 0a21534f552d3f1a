//! The consumer's private copies of queued records, with its drop decisions.

use timeous_core::{AduMeta, DropReason};

use crate::record;
use crate::sync::AtomicU64;

/// Private copy of a queued packet's record, and the drop decision on it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    position: u64,
    /// Version of the copied record; zero if none was copied.
    version: u64,
    meta: AduMeta,
    len: usize,
    dead: bool,
    given_up: Option<DropReason>,
}

impl Seen {
    /// Copies the record again if it has changed.
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
                // The owner has pulled it back and is rewriting it: not available now.
                Err(_) => Self::default(),
            };
        }
        self.dead = record::dead(words).is_some();
    }

    /// Reason why this packet was dropped, if it was. A rewritten packet is another one.
    pub(crate) fn given_up(&self, position: u64, version: u64) -> Option<DropReason> {
        self.given_up.filter(|_| self.position == position && self.version == version)
    }

    /// Drops the packet, unless it is rewritten.
    pub(crate) fn give_up(&mut self, reason: DropReason) {
        self.given_up = Some(reason);
    }

    /// Metadata and length of the packet, if it is still to be sent.
    pub(crate) fn alive(&self) -> Option<(&AduMeta, usize)> {
        (self.version != 0 && !self.dead && self.given_up.is_none()).then_some((&self.meta, self.len))
    }
}
