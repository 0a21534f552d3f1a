//! The consumer's private copies of queued records, and what it decided on them.

use timeous_core::{AduMeta, DropReason};

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

    /// Gives it up, until it is another packet.
    pub(crate) fn give_up(&mut self, reason: DropReason) {
        self.given_up = Some(reason);
    }

    /// What is known of it, if it is still to be sent.
    pub(crate) fn alive(&self) -> Option<(&AduMeta, usize)> {
        (self.version != 0 && !self.dead && self.given_up.is_none()).then_some((&self.meta, self.len))
    }
}
