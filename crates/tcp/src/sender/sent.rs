//! A sent, unacknowledged segment.

use std::ops::Range;

use timeous_cm::Departure;
use timeous_core::Instant;

/// A sent, unacknowledged segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// Its range of stream offsets; a FIN takes one.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) fin: bool,
    /// The source's token; returned with the part that is acknowledged last.
    pub(super) token: Option<u64>,
    /// Time, global order, and number of its last transmission. Several segments may be sent at one instant.
    pub(super) sent_at: Instant,
    pub(super) order: u64,
    pub(super) transmissions: u16,
    /// Transmissions still in flight: RFC 6675's pipe counts each of them.
    pub(super) copies: u16,
    /// SACKed by the peer.
    pub(super) sacked: bool,
    /// Lost, and waiting for retransmission.
    pub(super) waiting: bool,
    /// Bundled bytes in its first transmission, while that is in flight.
    pub(super) bundled: u64,
    /// Bundled in a later segment.
    pub(super) repeated: bool,
    /// Place of its first transmission in the path's model.
    pub(super) departure: Departure,
}

impl Sent {
    /// Returns the number of data bytes.
    pub(super) fn len(&self) -> u64 {
        if self.fin { 0 } else { self.end - self.start }
    }

    pub(super) fn span(&self) -> Range<u64> {
        self.start..self.end
    }
}
