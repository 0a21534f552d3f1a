//! Bounded store of sent ADUs that may need retransmission.

use std::collections::{BTreeMap, BTreeSet};

use timeous_core::{AduMeta, Instant};

/// Maximum number of buffers kept for reuse. Chosen by us: a higher value takes more memory and allocates less often.
const MAX_SPARE: usize = 64;
/// Maximum number of bytes kept for retransmission; beyond it the oldest ADUs are released (docs/design/repair.md).
/// Chosen by us: a higher value takes more memory; a lower one loses repair at high rates.
const MAX_BYTES: usize = 8 << 20;

/// ADU with copies in flight, or to be retransmitted.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) meta: AduMeta,
    pub(super) payload: Vec<u8>,
    /// Copies in flight.
    pub(super) under_way: u32,
    /// A further copy was pulled: the first has left.
    pub(super) is_repeated: bool,
    pub(super) is_fragment: bool,
}

/// ADUs by token, which increases with each new one.
#[derive(Debug, Default)]
pub(super) struct Store {
    adus: BTreeMap<u64, Kept>,
    bytes: usize,
    /// Buffers for reuse.
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

    /// Tokens of fragments.
    pub(super) fn fragments(&self) -> impl Iterator<Item = u64> {
        self.adus.iter().filter(|(_, kept)| kept.is_fragment).map(|(&token, _)| token)
    }

    /// Returns an empty buffer.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Keeps an ADU at its first transmission.
    pub(super) fn keep(&mut self, token: u64, meta: AduMeta, payload: Vec<u8>, is_fragment: bool) {
        self.bytes += payload.len();
        self.adus.insert(token, Kept { meta, payload, under_way: 1, is_repeated: false, is_fragment });
    }

    /// Releases an ADU.
    pub(super) fn forget(&mut self, token: u64) {
        if let Some(Kept { mut payload, .. }) = self.adus.remove(&token) {
            self.bytes -= payload.len();
            if self.spare.len() < MAX_SPARE {
                payload.clear();
                self.spare.push(payload);
            }
        }
    }

    /// Marks all ADUs as not in flight, and returns their tokens.
    pub(super) fn all_back(&mut self) -> BTreeSet<u64> {
        let back = |(&token, kept): (&u64, &mut Kept)| {
            kept.under_way = 0;
            token
        };
        self.adus.iter_mut().map(back).collect()
    }

    /// The oldest ADU, if it need not be kept: expired at `now` with at most one copy in flight, whose fate is the
    /// ADU's; or too many bytes are kept.
    pub(super) fn oldest_useless(&self, now: Instant) -> Option<u64> {
        let (&token, oldest) = self.adus.first_key_value()?;
        (oldest.meta.is_expired(now) && oldest.under_way <= 1 || self.bytes > MAX_BYTES).then_some(token)
    }

    /// Number of bytes kept.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
