//! Layout of a client's shared memory.
//!
//! The daemon creates the memory and sends its sizes in the welcome; both sides compute the layout from the sizes and
//! never read an offset from the memory.

use serde::{Deserialize, Serialize};

/// Distance in words between two that different sides write, so that they do not share a cache line (nor its prefetched
/// neighbour).
const LINE: usize = if cfg!(loom) { 1 } else { 16 };
/// Words per message in a queue: 64 bytes.
pub(crate) const SLOT: usize = 8;
/// Words per entry in the table of path states.
pub(crate) const ENTRY: usize = 8;

/// Sizes of a client's shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// Capacity of the queue to the daemon in messages, a power of two.
    pub submissions: u32,
    /// Capacity of the queue to the client in messages, a power of two.
    pub completions: u32,
    /// Maximum number of open flows, each with an entry in the table of path states.
    pub flows: u32,
}

/// Invalid sizes in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// A queue's capacity is not a power of two, or out of bounds.
    #[error("a queue of {0} messages: take a power of two from 2 to 2^16")]
    Queue(u32),
    /// No flow, or too many.
    #[error("{0} flows: take 1 to 2^20")]
    Flows(u32),
}

impl Default for Geometry {
    /// Returns 1024 messages each way, and 1024 flows: 193 KiB.
    fn default() -> Self {
        Self { submissions: 1024, completions: 1024, flows: 1024 }
    }
}

impl Geometry {
    /// Checks the sizes.
    ///
    /// # Errors
    /// See [`GeometryError`].
    pub fn check(&self) -> Result<(), GeometryError> {
        for slots in [self.submissions, self.completions] {
            if !slots.is_power_of_two() || !(2..=1 << 16).contains(&slots) {
                return Err(GeometryError::Queue(slots));
            }
        }
        if !(1..=1 << 20).contains(&self.flows) {
            return Err(GeometryError::Flows(self.flows));
        }
        Ok(())
    }

    /// Returns the total size in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.words() as u64 * 8
    }

    pub(crate) const fn words(&self) -> usize {
        self.table() + self.flows as usize * ENTRY
    }

    /// Returns the location of the queue to the daemon.
    pub(crate) const fn submission_queue(&self) -> Place {
        Place { at: 0, slots: self.submissions }
    }

    /// Returns the location of the queue to the client.
    pub(crate) const fn completion_queue(&self) -> Place {
        Place { at: self.submission_queue().end(), slots: self.completions }
    }

    /// Returns the offset of the table of path states.
    pub(crate) const fn table(&self) -> usize {
        self.completion_queue().end()
    }
}

/// Location of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    at: usize,
    pub(crate) slots: u32,
}

impl Place {
    /// Offset of the write index: messages written, updated by the writer.
    pub(crate) const fn written(&self) -> usize {
        self.at
    }

    /// Offset of the read index: messages read, updated by the reader.
    pub(crate) const fn read(&self) -> usize {
        self.at + LINE
    }

    /// Offset of the sleep flag: nonzero while the reader sleeps and has to be woken by the next message.
    pub(crate) const fn asleep(&self) -> usize {
        self.at + 2 * LINE
    }

    /// Offset of the starved flag: nonzero while the writer found no room and has to be woken when there is.
    pub(crate) const fn starved(&self) -> usize {
        self.at + 3 * LINE
    }

    /// Returns the offset of message `number`.
    pub(crate) const fn slot(&self, number: u64) -> usize {
        self.at + 4 * LINE + (number & (self.slots as u64 - 1)) as usize * SLOT
    }

    const fn end(&self) -> usize {
        self.at + 4 * LINE + self.slots as usize * SLOT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_one_another_without_a_gap_or_an_overlap() {
        let geometry = Geometry { submissions: 4, completions: 8, flows: 3 };
        let (there, back) = (geometry.submission_queue(), geometry.completion_queue());
        assert_eq!(there.slot(3) + SLOT, back.written());
        assert_eq!(there.slot(4), there.slot(0), "the fifth message takes the place of the first");
        assert_eq!(back.slot(7) + SLOT, geometry.table());
        assert_eq!(geometry.table() + 3 * ENTRY, geometry.words());
    }

    #[test]
    fn impossible_measures_are_refused() {
        let sane = Geometry::default();
        for slots in [0, 1, 3, 1 << 17, u32::MAX] {
            assert_eq!(Geometry { submissions: slots, ..sane }.check(), Err(GeometryError::Queue(slots)));
            assert_eq!(Geometry { completions: slots, ..sane }.check(), Err(GeometryError::Queue(slots)));
        }
        for flows in [0, (1 << 20) + 1, u32::MAX] {
            assert_eq!(Geometry { flows, ..sane }.check(), Err(GeometryError::Flows(flows)));
        }
        assert_eq!(sane.check(), Ok(()));
    }
}
