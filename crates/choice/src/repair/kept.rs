//! What left and may have to leave again: held until its fate is known, in a bounded room.

use std::collections::{BTreeMap, BTreeSet};

use timeous_core::{AduMeta, Instant};

/// How many buffers wait to be used again.
const MOST_SPARE: usize = 64;
/// As many bytes are held at most; beyond, what left first is held no more.
const MOST_BYTES: usize = 8 << 20;

/// An ADU of which copies are under way, or that waits to leave again.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) meta: AduMeta,
    pub(super) payload: Vec<u8>,
    /// Copies of which nothing is known.
    pub(super) under_way: u32,
}

/// ADUs by their token, which grows with each new one.
#[derive(Debug, Default)]
pub(super) struct Store {
    adus: BTreeMap<u64, Kept>,
    bytes: usize,
    /// Buffers of what needs none any more.
    spare: Vec<Vec<u8>>,
}

impl Store {
    pub(super) fn get(&self, token: u64) -> Option<&Kept> {
        self.adus.get(&token)
    }

    pub(super) fn get_mut(&mut self, token: u64) -> Option<&mut Kept> {
        self.adus.get_mut(&token)
    }

    pub(super) fn has(&self, token: u64) -> bool {
        self.adus.contains_key(&token)
    }

    pub(super) fn tokens(&self) -> impl Iterator<Item = u64> {
        self.adus.keys().copied()
    }

    /// An empty buffer.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// An ADU leaves for the first time.
    pub(super) fn keep(&mut self, token: u64, meta: AduMeta, payload: Vec<u8>) {
        self.bytes += payload.len();
        self.adus.insert(token, Kept { meta, payload, under_way: 1 });
    }

    /// Its fate is known, or of no interest.
    pub(super) fn forget(&mut self, token: u64) {
        if let Some(Kept { mut payload, .. }) = self.adus.remove(&token) {
            self.bytes -= payload.len();
            if self.spare.len() < MOST_SPARE {
                payload.clear();
                self.spare.push(payload);
            }
        }
    }

    /// Nothing is under way any more. Gives all tokens.
    pub(super) fn all_back(&mut self) -> BTreeSet<u64> {
        let back = |(&token, kept): (&u64, &mut Kept)| {
            kept.under_way = 0;
            token
        };
        self.adus.iter_mut().map(back).collect()
    }

    /// The oldest, if it need not be held any more: too late at `now` to leave again, with one copy at most whose fate is its
    /// own; or there is too much.
    pub(super) fn oldest_useless(&self, now: Instant) -> Option<u64> {
        let (&token, oldest) = self.adus.first_key_value()?;
        (oldest.meta.is_expired(now) && oldest.under_way <= 1 || self.bytes > MOST_BYTES).then_some(token)
    }

    /// How many bytes are held.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
