//! Table of path states, read without a call (`cm_query`).
//!
//! Only the daemon writes. Each entry begins with a version that is odd during a write (a seqlock), so that a reader
//! detects an inconsistent copy; it then retries, and calls the daemon in the end.

use std::sync::Arc;

use timeous_core::PathState;
use timeous_ring::Memory;
use timeous_ring::sync::{AtomicU64, Ordering, fence};

use crate::handle::Handle;
use crate::layout::{ENTRY, Geometry};
use crate::state::{path_state, state_words};

/// Maximum number of read attempts; writing an entry takes far less time.
const LOOKS: u32 = if cfg!(loom) { 2 } else { 64 };

/// Words of an entry: the version; generation, flags and loss; six of the state.
const VERSION: usize = 0;
const HEAD: usize = 1;
const REST: usize = 2;

#[derive(Debug)]
pub(crate) struct Table {
    memory: Arc<Memory>,
    at: usize,
    flows: u32,
}

impl Table {
    pub(crate) fn new(memory: Arc<Memory>, geometry: &Geometry) -> Self {
        Self { memory, at: geometry.table(), flows: geometry.flows }
    }

    fn entry(&self, slot: u32) -> Option<&[AtomicU64]> {
        (slot < self.flows).then(|| self.memory.words(self.at + slot as usize * ENTRY, ENTRY))
    }

    /// Returns a flow's path state; `None` if there is none of exactly this flow, or no consistent copy was read.
    pub(crate) fn read(&self, flow: Handle) -> Option<PathState> {
        let entry = self.entry(flow.slot)?;
        (0..LOOKS).find_map(|_| copy(entry)).and_then(|words| state_of(flow, &words))
    }
}

/// Copies an entry's words behind its version, if no write interfered.
fn copy(entry: &[AtomicU64]) -> Option<[u64; ENTRY - 1]> {
    let before = entry[VERSION].load(Ordering::Acquire);
    let words = std::array::from_fn(|at| entry[at + 1].load(Ordering::Relaxed));
    // Orders the copy before the second read of the version.
    fence(Ordering::Acquire);
    let after = entry[VERSION].load(Ordering::Relaxed);
    (before == after && before.is_multiple_of(2)).then_some(words)
}

/// Encodes the head: generation in the upper half, then 12 bits of flags; the loss, at most a million, in the last 20
/// bits.
fn head(flow: Handle, flags: u64, loss: u64) -> u64 {
    u64::from(flow.generation) << 32 | (flags >> 8) << LOSS_BITS | loss.min(LOSS_MAX)
}

const LOSS_BITS: u32 = 20;
const LOSS_MAX: u64 = (1 << LOSS_BITS) - 1;

fn state_of(flow: Handle, words: &[u64; ENTRY - 1]) -> Option<PathState> {
    let [head, rest @ ..] = *words;
    if flow.generation == 0 || head >> 32 != u64::from(flow.generation) {
        return None;
    }
    let flags = (head as u32 as u64 >> LOSS_BITS) << 8;
    path_state(head & LOSS_MAX, flags, rest)
}

/// The daemon's end of the table. It keeps the versions privately: a client that overwrites them harms only itself.
#[derive(Debug)]
pub(crate) struct Publisher {
    table: Table,
    versions: Vec<u64>,
}

impl Publisher {
    pub(crate) fn new(table: Table) -> Self {
        let versions = vec![0; table.flows as usize];
        Self { table, versions }
    }

    /// Writes a flow's path state. Slots beyond the table are ignored: the daemon assigns slots.
    pub(crate) fn write(&mut self, flow: Handle, state: &PathState) {
        let [loss, flags, rest @ ..] = state_words(state);
        let head = head(flow, flags, loss);
        self.put(flow.slot, [head, rest[0], rest[1], rest[2], rest[3], rest[4], rest[5]]);
    }

    /// Clears the entry of a closed flow.
    pub(crate) fn clear(&mut self, slot: u32) {
        self.put(slot, [0; ENTRY - 1]);
    }

    fn put(&mut self, slot: u32, words: [u64; ENTRY - 1]) {
        let (Some(entry), Some(version)) = (self.table.entry(slot), self.versions.get_mut(slot as usize)) else {
            return;
        };
        entry[VERSION].store(*version + 1, Ordering::Relaxed);
        // The odd version is visible before any of the words.
        fence(Ordering::Release);
        for (word, value) in entry[HEAD..].iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
        *version += 2;
        entry[VERSION].store(*version, Ordering::Release);
    }
}

const _: () = assert!(REST + 6 == ENTRY);
