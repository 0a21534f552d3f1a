//! Bundling of small datagrams that wait at the same instant into one segment: the window holds more of them, and fewer packets can be
//! lost.

use timeous_core::{AduSource, Instant};

use crate::framing::len_within;
use crate::sending::{Held, Sending};

/// Maximum segment size for bundling, in bytes: a jumbo frame. Chosen by us: a loopback segment would hold hundreds of
/// datagrams, all lost together.
const LONGEST: usize = 9_000;
/// Spare payload buffers. Chosen by us: one in use, and one for the next datagram; a higher value takes more memory.
const MOST_SPARE: usize = 2;

impl Sending {
    /// Returns another datagram that fits into the segment, of which `taken` bytes are used, if one waits.
    pub(crate) fn company(&mut self, now: Instant, taken: usize, source: &mut dyn AduSource) -> Option<Held> {
        // With a Congestion Manager controller, each grant is for one record.
        let segment = match self.controller {
            Some((_, longest)) => longest as usize,
            None => self.meter.info().map_or(0, |info| info.mss() as usize),
        };
        let room = self.writer.room(segment.min(LONGEST).saturating_sub(taken))?.min(self.longest);
        if let Some(first) = self.waiting.front() {
            let fits =
                len_within(&first.pulled.meta, &first.payload) <= room && !first.pulled.meta.is_expired((self.clock)());
            return if fits { self.waiting.pop_front() } else { None };
        }
        // A sub-stream may take a byte.
        let (path, mut payload) = (self.path(), self.spare.pop().unwrap_or_default());
        let Some(mut pulled) = source.pull_beside(now, &path, room.saturating_sub(1), &mut payload) else {
            self.keep_spare(payload);
            return None;
        };
        pulled.gather(source, &mut payload);
        let company = Held { pulled, number: self.writer.number(), payload, copied: false };
        if company.pulled.meta.is_expired((self.clock)()) {
            self.give_up(&company.pulled, false, source);
            self.keep_spare(company.payload);
            return None;
        }
        Some(company)
    }

    /// Keeps a payload buffer for reuse.
    pub(crate) fn keep_spare(&mut self, mut payload: Vec<u8>) {
        if payload.capacity() > 0 && self.spare.len() < MOST_SPARE {
            payload.clear();
            self.spare.push(payload);
        }
    }
}
