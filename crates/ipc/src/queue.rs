//! A queue for one writer and one reader in memory that both share, and the flags by which each sleeps.
//!
//! Each side has private copies of the index that it moves and of the last one that it saw of the other's. An index of
//! the other side is read once, checked against these, and used from the copy; a message is copied out before it is
//! looked at. So nothing that the other side writes leads anywhere but to a typed error.
//!
//! Who is about to sleep says so and looks once more; who has written something looks whether the other sleeps. Between
//! the two steps of each stands a full fence: without it a processor may let the look overtake the word, on both sides
//! at once, and a wake-up is lost for ever. The model checker sees that (`tests/loom.rs`).

use std::sync::Arc;

use timeous_ring::Memory;
use timeous_ring::sync::{Ordering, fence};

use crate::layout::Place;
use crate::slot::Words;

/// The other side's index is where it cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadIndex {
    /// What was read.
    pub(crate) found: u64,
}

/// The writing end.
#[derive(Debug)]
pub(crate) struct Writer {
    memory: Arc<Memory>,
    place: Place,
    written: u64,
    /// As last seen.
    read: u64,
}

/// The reading end.
#[derive(Debug)]
pub(crate) struct Reader {
    memory: Arc<Memory>,
    place: Place,
    read: u64,
    /// As last seen.
    written: u64,
}

/// What came of lying down to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Doze {
    /// Nothing is there: the next message rings.
    pub(crate) asleep: bool,
    /// The writer found no room before, and there is room now: it is to be rung.
    pub(crate) ring: bool,
}

impl Writer {
    pub(crate) fn new(memory: Arc<Memory>, place: Place) -> Self {
        Self { memory, place, written: 0, read: 0 }
    }

    /// Writes a message, or `false` if there is no room.
    pub(crate) fn push(&mut self, words: &Words) -> Result<bool, BadIndex> {
        if self.is_full() {
            self.see_read()?;
            if self.is_full() {
                return Ok(false);
            }
        }
        let slot = self.memory.words(self.place.slot(self.written), words.len());
        for (word, value) in slot.iter().zip(words) {
            word.store(*value, Ordering::Relaxed);
        }
        self.written += 1;
        self.memory.word(self.place.written()).store(self.written, Ordering::Release);
        Ok(true)
    }

    fn is_full(&self) -> bool {
        self.written - self.read >= u64::from(self.place.slots)
    }

    fn see_read(&mut self) -> Result<(), BadIndex> {
        let found = self.memory.word(self.place.read()).load(Ordering::Acquire);
        if !(self.read..=self.written).contains(&found) {
            return Err(BadIndex { found });
        }
        self.read = found;
        Ok(())
    }

    /// Whether the reader sleeps and has to be rung for what was written. Says so once for each of its sleeps.
    pub(crate) fn must_ring(&self) -> bool {
        // What was written must be seen by the reader's second look, or its flag by this one.
        fence(Ordering::SeqCst);
        let asleep = self.memory.word(self.place.asleep());
        asleep.load(Ordering::Relaxed) != 0 && asleep.swap(0, Ordering::Relaxed) != 0
    }

    /// Asks to be rung when there is room. `false` if there is already.
    pub(crate) fn starve(&mut self) -> Result<bool, BadIndex> {
        let starved = self.memory.word(self.place.starved());
        starved.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.see_read()?;
        let full = self.is_full();
        if !full {
            self.memory.word(self.place.starved()).store(0, Ordering::Relaxed);
        }
        Ok(full)
    }

    /// Looks how far the reader is: how many messages were written, and how many of them read.
    pub(crate) fn progress(&mut self) -> Result<(u64, u64), BadIndex> {
        self.see_read()?;
        Ok(self.seen())
    }

    /// The same as last seen.
    pub(crate) fn seen(&self) -> (u64, u64) {
        (self.written, self.read)
    }
}

impl Reader {
    pub(crate) fn new(memory: Arc<Memory>, place: Place) -> Self {
        Self { memory, place, read: 0, written: 0 }
    }

    /// The next message, copied.
    pub(crate) fn pop(&mut self) -> Result<Option<Words>, BadIndex> {
        if self.read == self.written {
            self.see_written()?;
            if self.read == self.written {
                return Ok(None);
            }
        }
        let slot = self.memory.words(self.place.slot(self.read), crate::layout::SLOT);
        let words = std::array::from_fn(|at| slot[at].load(Ordering::Relaxed));
        self.read += 1;
        // Release: the copy is done before the writer learns that the place is free.
        self.memory.word(self.place.read()).store(self.read, Ordering::Release);
        Ok(Some(words))
    }

    fn see_written(&mut self) -> Result<(), BadIndex> {
        let found = self.memory.word(self.place.written()).load(Ordering::Acquire);
        let ahead = found.wrapping_sub(self.read);
        if found < self.written || ahead > u64::from(self.place.slots) {
            return Err(BadIndex { found });
        }
        self.written = found;
        Ok(())
    }

    /// Says that this side is going to sleep, and looks once more.
    pub(crate) fn doze(&mut self) -> Result<Doze, BadIndex> {
        let asleep = self.memory.word(self.place.asleep());
        asleep.store(1, Ordering::Relaxed);
        // The flag must be seen by the writer's look, or what it wrote by this one; the same for what was read.
        fence(Ordering::SeqCst);
        let starved = self.memory.word(self.place.starved());
        let ring = starved.load(Ordering::Relaxed) != 0 && starved.swap(0, Ordering::Relaxed) != 0;
        self.see_written()?;
        let empty = self.read == self.written;
        if !empty {
            self.memory.word(self.place.asleep()).store(0, Ordering::Relaxed);
        }
        Ok(Doze { asleep: empty, ring })
    }

    /// Says that this side is awake again: it need not be rung.
    pub(crate) fn wake(&self) {
        self.memory.word(self.place.asleep()).store(0, Ordering::Relaxed);
    }

    /// How many messages were read so far.
    pub(crate) fn count(&self) -> u64 {
        self.read
    }
}
