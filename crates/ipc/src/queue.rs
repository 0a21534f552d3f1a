//! Single-writer, single-reader queue in shared memory, with flags by which each side sleeps.
//!
//! Each side keeps private copies of its own index and of the other side's last one. The other side's index is read
//! once, checked against these, and used from the copy; a message is copied out before it is parsed. So invalid data of
//! the other side leads only to a typed error.
//!
//! A side about to sleep sets its flag and checks once more; a side that has written checks the other's flag. A full
//! fence separates the two steps: without it both checks may be reordered before the writes, and a wake-up is lost. The
//! model checker finds that (`tests/loom.rs`).

use std::sync::Arc;

use timeous_ring::Memory;
use timeous_ring::sync::{Ordering, fence};

use crate::layout::Place;
use crate::slot::Words;

/// Invalid index of the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadIndex {
    /// The index found.
    pub(crate) found: u64,
}

/// Writing end.
#[derive(Debug)]
pub(crate) struct Writer {
    memory: Arc<Memory>,
    place: Place,
    written: u64,
    /// The reader's index, as last seen.
    read: u64,
}

/// Reading end.
#[derive(Debug)]
pub(crate) struct Reader {
    memory: Arc<Memory>,
    place: Place,
    read: u64,
    /// The writer's index, as last seen.
    written: u64,
}

/// Result of preparing to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SleepAttempt {
    /// The queue is empty: the next message signals.
    pub(crate) asleep: bool,
    /// The writer found no room before, and there is room now: signal it.
    pub(crate) ring: bool,
}

impl Writer {
    pub(crate) fn new(memory: Arc<Memory>, place: Place) -> Self {
        Self { memory, place, written: 0, read: 0 }
    }

    /// Writes a message, or returns `false` if there is no room.
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

    /// Returns whether the reader sleeps and has to be signalled for the messages. Returns `true` once per sleep.
    pub(crate) fn must_ring(&self) -> bool {
        // Either the reader's second check sees the message, or this check sees its flag.
        fence(Ordering::SeqCst);
        let asleep = self.memory.word(self.place.asleep());
        asleep.load(Ordering::Relaxed) != 0 && asleep.swap(0, Ordering::Relaxed) != 0
    }

    /// Requests a signal when there is room. `false` if there is already.
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

    /// Updates the reader's index, and returns the numbers of messages written and read.
    pub(crate) fn progress(&mut self) -> Result<(u64, u64), BadIndex> {
        self.see_read()?;
        Ok(self.seen())
    }

    /// Returns both numbers as last seen.
    pub(crate) fn seen(&self) -> (u64, u64) {
        (self.written, self.read)
    }
}

impl Reader {
    pub(crate) fn new(memory: Arc<Memory>, place: Place) -> Self {
        Self { memory, place, read: 0, written: 0 }
    }

    /// Returns a copy of the next message.
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
        // Release: the copy is complete before the writer learns that the slot is free.
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

    /// Sets the sleep flag, and checks the queue once more.
    pub(crate) fn doze(&mut self) -> Result<SleepAttempt, BadIndex> {
        let asleep = self.memory.word(self.place.asleep());
        asleep.store(1, Ordering::Relaxed);
        // Either the writer sees the flag, or this check sees its message; likewise for the read index and the starved
        // flag.
        fence(Ordering::SeqCst);
        let starved = self.memory.word(self.place.starved());
        let ring = starved.load(Ordering::Relaxed) != 0 && starved.swap(0, Ordering::Relaxed) != 0;
        self.see_written()?;
        let empty = self.read == self.written;
        if !empty {
            self.memory.word(self.place.asleep()).store(0, Ordering::Relaxed);
        }
        Ok(SleepAttempt { asleep: empty, ring })
    }

    /// Clears the sleep flag: this side need not be signalled.
    pub(crate) fn wake(&self) {
        self.memory.word(self.place.asleep()).store(0, Ordering::Relaxed);
    }

    /// Returns the number of messages read so far.
    pub(crate) fn count(&self) -> u64 {
        self.read
    }
}
