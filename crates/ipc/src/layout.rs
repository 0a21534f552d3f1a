//! The shared words of a client: which there are, where they lie, and how many.
//!
//! The daemon makes the memory and says its measures in its welcome; both sides compute the places from the measures
//! and never read a place from the memory.

use serde::{Deserialize, Serialize};

/// Words between two that different sides write, so that they do not share a cache line (nor its prefetched neighbour).
const LINE: usize = if cfg!(loom) { 1 } else { 16 };
/// Words of a message in a queue: 64 bytes.
pub(crate) const SLOT: usize = 8;
/// Words of an entry in the table of path states.
pub(crate) const ENTRY: usize = 8;

/// Measures of a client's shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// Messages that fit into the queue to the daemon, a power of two.
    pub submissions: u32,
    /// Messages that fit into the queue to the client, a power of two.
    pub completions: u32,
    /// Flows that can be open at once, each with its place in the table of path states.
    pub flows: u32,
}

/// Measures that cannot be. Mend the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// A queue's size is not a power of two, or out of bounds.
    #[error("a queue of {0} messages: take a power of two from 2 to 2^16")]
    Queue(u32),
    /// No flow, or too many.
    #[error("{0} flows: take 1 to 2^20")]
    Flows(u32),
}

impl Default for Geometry {
    /// 1024 messages each way, and 1024 flows: 193 KiB.
    fn default() -> Self {
        Self { submissions: 1024, completions: 1024, flows: 1024 }
    }
}

impl Geometry {
    /// Whether there can be such a memory.
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

    /// Size of the whole in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.words() as u64 * 8
    }

    pub(crate) const fn words(&self) -> usize {
        self.table() + self.flows as usize * ENTRY
    }

    /// The queue to the daemon.
    pub(crate) const fn submission_queue(&self) -> Place {
        Place { at: 0, slots: self.submissions }
    }

    /// The queue to the client.
    pub(crate) const fn completion_queue(&self) -> Place {
        Place { at: self.submission_queue().end(), slots: self.completions }
    }

    /// Where the table of path states begins.
    pub(crate) const fn table(&self) -> usize {
        self.completion_queue().end()
    }
}

/// Where a queue lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    at: usize,
    pub(crate) slots: u32,
}

impl Place {
    /// How many messages were written, moved by the writer.
    pub(crate) const fn written(&self) -> usize {
        self.at
    }

    /// How many were read, moved by the reader.
    pub(crate) const fn read(&self) -> usize {
        self.at + LINE
    }

    /// Not zero while the reader sleeps and wants to be woken by the next message.
    pub(crate) const fn asleep(&self) -> usize {
        self.at + 2 * LINE
    }

    /// Not zero while the writer found no room and wants to be woken when there is.
    pub(crate) const fn starved(&self) -> usize {
        self.at + 3 * LINE
    }

    /// The words of message `number`.
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
