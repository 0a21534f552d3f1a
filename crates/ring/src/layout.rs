//! Layout of the shared memory: words, offsets and sizes.

use std::sync::Arc;

use crate::attached::Attachments;
use crate::buffers::{Buffers, Extent};
use crate::error::ConfigError;
use crate::index::Packed;
use crate::memory::Memory;
use crate::page::PAGE;
use crate::sync::{AtomicU64, Ordering};

/// Distance in words between words written by different sides, to avoid sharing a cache line or its prefetched neighbour.
const LINE: usize = if cfg!(loom) { 1 } else { 16 };
/// Size of a packet record in words.
const RECORD: usize = if cfg!(loom) { crate::record::WORDS } else { 16 };
const _: () = assert!(RECORD >= crate::record::WORDS);

/// "timeous" and the version of this layout, as a magic number.
pub(crate) const MAGIC: u64 = 0x7469_6d65_6f75_7303;
/// Words of a completion.
const COMPLETION: usize = 4;
/// Number of header words; see [`Geometry::header`].
pub(crate) const HEADER: usize = 16;

const PRODUCER_TAKEN: usize = 5;
const CONSUMER_TAKEN: usize = 6;
#[cfg(not(loom))]
const CONSUMER_GONE: usize = 7;
const PACKED: usize = HEADER;
const USER_I: usize = HEADER + LINE;
const DEV_I: usize = HEADER + 2 * LINE;
const KERN_NOTIFY: usize = HEADER + 3 * LINE;
const COMPLETIONS_WRITTEN: usize = HEADER + 4 * LINE;
const COMPLETIONS_READ: usize = HEADER + 5 * LINE;
const COMPLETIONS_LOST: usize = HEADER + 6 * LINE;
const CLOSED: usize = HEADER + 7 * LINE;
const CHANGES: usize = HEADER + 8 * LINE;
const RECORDS: usize = HEADER + 9 * LINE;

/// Size of a ring.
///
/// ```
/// use timeous_ring::Config;
/// let config = Config::new(256).buffer_size(16 * 4096).buffers(300);
/// assert!(timeous_ring::create(&config).is_ok());
/// assert!(timeous_ring::create(&Config::new(3)).is_err(), "slots are a power of two");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    pub(crate) slots: u32,
    pub(crate) buffer_size: u32,
    pub(crate) buffers: u32,
    pub(crate) completions: u32,
}

impl Config {
    /// Configures a ring of `slots` slots, a power of two, for one packet less, with a page-sized buffer per slot, and
    /// four completions per slot.
    pub const fn new(slots: u32) -> Self {
        Self { slots, buffer_size: PAGE as u32, buffers: slots, completions: slots.saturating_mul(4) }
    }

    /// Sets the size of a packet buffer in bytes, a multiple of [`PAGE`]: the maximum payload length.
    #[must_use]
    pub const fn buffer_size(mut self, bytes: u32) -> Self {
        self.buffer_size = bytes;
        self
    }

    /// Sets the number of the ring's own packet buffers; zero for a ring that takes buffers of a
    /// [`PacketZone`](crate::PacketZone) only.
    #[must_use]
    pub const fn buffers(mut self, buffers: u32) -> Self {
        self.buffers = buffers;
        self
    }

    /// Sets the capacity of the completion ring, a power of two; fates beyond it are only counted.
    #[must_use]
    pub const fn completions(mut self, completions: u32) -> Self {
        self.completions = completions;
        self
    }
}

/// Maximum size of a ring made by another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of slots.
    pub slots: u32,
    /// Maximum size in bytes.
    pub bytes: u64,
}

impl Default for Limits {
    /// 4096 slots and 64 MiB.
    fn default() -> Self {
        Self { slots: 4096, bytes: 64 << 20 }
    }
}

/// Validated size of a ring: private to each side, and never read again from shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    config: Config,
    extent: Extent,
    completions_at: usize,
    zone_at: usize,
    words: usize,
}

impl Geometry {
    /// Validates a configuration.
    pub(crate) fn new(config: &Config) -> Result<Self, ConfigError> {
        let Config { slots, buffer_size, buffers, completions } = *config;
        if !slots.is_power_of_two() || !(2..=1 << 20).contains(&slots) {
            return Err(ConfigError::Slots(slots));
        }
        let extent = Extent::new(buffer_size, buffers)?;
        if !completions.is_power_of_two() || completions > 1 << 24 {
            return Err(ConfigError::Completions(completions));
        }
        let completions_at = RECORDS + slots as usize * RECORD;
        let zone_at = (completions_at + completions as usize * COMPLETION).next_multiple_of(PAGE / 8);
        let words = zone_at + extent.bytes() / 8;
        Ok(Self { config: *config, extent, completions_at, zone_at, words })
    }

    /// Validates a ring between two processes, which needs buffers of its own.
    #[cfg(not(loom))]
    pub(crate) fn between_processes(config: &Config) -> Result<Self, ConfigError> {
        if config.buffers == 0 {
            return Err(ConfigError::Buffers(0));
        }
        Self::new(config)
    }

    /// Header words, in order.
    pub(crate) fn header(&self) -> [u64; 5] {
        let Config { slots, buffer_size, buffers, completions } = self.config;
        [MAGIC, slots.into(), buffer_size.into(), buffers.into(), completions.into()]
    }

    pub(crate) fn slots(&self) -> u32 {
        self.config.slots
    }

    pub(crate) fn slot_of(&self, position: u64) -> usize {
        position as usize & (self.config.slots as usize - 1)
    }

    pub(crate) fn completions(&self) -> u64 {
        self.config.completions.into()
    }

    /// Offset of the zone in words.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn zone_at(&self) -> usize {
        self.zone_at
    }

    /// Total size in 64-bit words.
    pub(crate) fn words(&self) -> usize {
        self.words
    }
}

/// Memory of a ring with accessors for its words.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) memory: Memory,
    pub(crate) geometry: Geometry,
    /// The ring's own buffers.
    pub(crate) zone: Buffers,
    /// Other zones; `None` at the producer's side of a ring between two processes.
    pub(crate) attachments: Option<Attachments>,
}

impl Shared {
    /// Interprets memory as a ring of this geometry.
    pub(crate) fn new(memory: Memory, geometry: Geometry, attachments: Option<Attachments>) -> Self {
        let zone = Buffers::new(memory.clone(), geometry.zone_at, geometry.extent);
        Self { memory, geometry, zone, attachments }
    }

    /// Initializes the header and the indexes of a new ring whose first packet has the position `origin`.
    pub(crate) fn format(
        memory: Memory,
        geometry: Geometry,
        origin: u64,
        attachments: Option<Attachments>,
    ) -> Arc<Self> {
        let shared = Self::new(memory, geometry, attachments);
        shared.packed().store(Packed::new(origin, origin).bits(), Ordering::Relaxed);
        shared.user_i().store(origin, Ordering::Relaxed);
        shared.dev_i().store(origin, Ordering::Relaxed);
        for (at, word) in geometry.header().into_iter().enumerate() {
            shared.memory.word(at).store(word, Ordering::Release);
        }
        Arc::new(shared)
    }

    /// Claims the producer's side; `false` if it was claimed before.
    pub(crate) fn take_producer(&self) -> bool {
        self.memory.word(PRODUCER_TAKEN).swap(1, Ordering::AcqRel) == 0
    }

    /// Claims the consumer's side; `false` if it was claimed before.
    pub(crate) fn take_consumer(&self) -> bool {
        self.memory.word(CONSUMER_TAKEN).swap(1, Ordering::AcqRel) == 0
    }

    /// Notes that the consumer reads no more payloads.
    #[cfg(not(loom))]
    pub(crate) fn leave_consumer(&self) {
        self.memory.word(CONSUMER_GONE).store(1, Ordering::Release);
    }

    /// Memory and word in which the consumer notes that it reads no more payloads.
    #[cfg(not(loom))]
    pub(crate) fn consumer_gone(&self) -> (&Memory, usize) {
        (&self.memory, CONSUMER_GONE)
    }

    /// Packed `kern_i` and `umod_i`.
    pub(crate) fn packed(&self) -> &AtomicU64 {
        self.memory.word(PACKED)
    }

    pub(crate) fn user_i(&self) -> &AtomicU64 {
        self.memory.word(USER_I)
    }

    /// Counts changes of queued records, except for packets added at the end. The consumer reads only new records unless it moves.
    pub(crate) fn changes(&self) -> &AtomicU64 {
        self.memory.word(CHANGES)
    }

    pub(crate) fn dev_i(&self) -> &AtomicU64 {
        self.memory.word(DEV_I)
    }

    pub(crate) fn kern_notify(&self) -> &AtomicU64 {
        self.memory.word(KERN_NOTIFY)
    }

    pub(crate) fn completions_written(&self) -> &AtomicU64 {
        self.memory.word(COMPLETIONS_WRITTEN)
    }

    pub(crate) fn completions_read(&self) -> &AtomicU64 {
        self.memory.word(COMPLETIONS_READ)
    }

    pub(crate) fn completions_lost(&self) -> &AtomicU64 {
        self.memory.word(COMPLETIONS_LOST)
    }

    /// Set by the consumer when no more packets will be sent.
    pub(crate) fn closed(&self) -> &AtomicU64 {
        self.memory.word(CLOSED)
    }

    /// Words of completion `number`: `user_seq`, fate, predicted and actual arrival.
    pub(crate) fn completion(&self, number: u64) -> &[AtomicU64] {
        let slot = (number & (self.geometry.completions() - 1)) as usize;
        self.memory.words(self.geometry.completions_at + slot * COMPLETION, COMPLETION)
    }

    /// Words of a slot's record.
    pub(crate) fn record(&self, slot: usize) -> &[AtomicU64] {
        self.memory.words(RECORDS + slot * RECORD, crate::record::WORDS)
    }

    /// Prefetches the record of a slot from the other side's processor.
    pub(crate) fn will_read_record(&self, slot: usize) {
        self.memory.will_read(RECORDS + slot * RECORD);
    }

    /// Prefetches a record for writing, like [`will_read_record`](Self::will_read_record).
    pub(crate) fn will_write_record(&self, slot: usize) {
        self.memory.will_write(RECORDS + slot * RECORD);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn impossible_rings_are_refused() {
        let refused = |config: Config| Geometry::new(&config).unwrap_err();
        for slots in [0, 1, 3, 1 << 21] {
            assert_eq!(refused(Config { slots, ..Config::new(4) }), ConfigError::Slots(slots));
        }
        assert_eq!(refused(Config::new(4).buffer_size(100)), ConfigError::BufferSize(100));
        assert_eq!(refused(Config::new(4).buffers(1 << 20)), ConfigError::Buffers(1 << 20));
        assert_eq!(refused(Config::new(4).completions(5)), ConfigError::Completions(5));
    }
}
