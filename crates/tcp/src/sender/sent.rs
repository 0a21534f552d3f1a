//! A segment that was sent and is not acknowledged.

use std::ops::Range;

use timeous_core::Instant;

/// A segment that was sent and is not acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// The stream offsets that it takes; a FIN takes one.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) fin: bool,
    /// The source's name for what it carries; given to the part that is acknowledged last.
    pub(super) token: Option<u64>,
    /// When it was sent last, as which one of all transmissions, and how often. Several may leave at one instant.
    pub(super) sent_at: Instant,
    pub(super) order: u64,
    pub(super) transmissions: u16,
    /// How many of its transmissions are taken to be under way still: RFC 6675's pipe counts each of them.
    pub(super) copies: u16,
    /// The peer holds it.
    pub(super) sacked: bool,
    /// It is taken for lost and waits to be sent again.
    pub(super) waiting: bool,
    /// So many bytes of what precedes it travel with its first transmission, which is under way.
    pub(super) bundled: u64,
    /// A later segment carries it once more.
    pub(super) repeated: bool,
}

impl Sent {
    /// How many bytes of data it carries.
    pub(super) fn len(&self) -> u64 {
        if self.fin { 0 } else { self.end - self.start }
    }

    pub(super) fn span(&self) -> Range<u64> {
        self.start..self.end
    }
}
