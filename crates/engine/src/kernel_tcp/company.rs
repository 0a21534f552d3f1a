//! Small datagrams that wait at one instant leave in one segment: the window holds the more of them, and fewer packets can get lost.

use timeous_core::{AduSource, Instant};

use super::sending::{Held, Sending};
use crate::clock;

/// A segment is filled so far: a jumbo frame's. Loopback's would hold hundreds of datagrams, and be lost as one.
const LONGEST: usize = 9_000;
/// One goes in, and another is written meanwhile.
const MOST_SPARE: usize = 2;

impl Sending {
    /// Another datagram for the segment of which so many bytes are taken, if one waits that fits.
    pub(super) fn company(&mut self, now: Instant, taken: usize, source: &mut dyn AduSource) -> Option<Held> {
        // Where the Congestion Manager holds back, a grant is for a record.
        let segment = match self.controller {
            Some((_, longest)) => longest as usize,
            None => self.meter.info().map_or(0, |info| info.mss() as usize),
        };
        let room = self.writer.room(segment.min(LONGEST).saturating_sub(taken))?.min(self.longest);
        if let Some(first) = self.waiting.front() {
            let fits = first.payload.len() <= room && !first.pulled.meta.is_expired(clock::now());
            return if fits { self.waiting.pop_front() } else { None };
        }
        let (path, mut payload) = (self.path(), self.spare.pop().unwrap_or_default());
        let Some(mut pulled) = source.pull_beside(now, &path, room, &mut payload) else {
            self.keep_spare(payload);
            return None;
        };
        pulled.gather(source, &mut payload);
        let company = Held { pulled, number: self.writer.number(), payload, copied: false };
        if company.pulled.meta.is_expired(clock::now()) {
            Self::give_up(&company.pulled, false, source);
            self.keep_spare(company.payload);
            return None;
        }
        Some(company)
    }

    /// For the next one.
    pub(super) fn keep_spare(&mut self, mut payload: Vec<u8>) {
        if payload.capacity() > 0 && self.spare.len() < MOST_SPARE {
            payload.clear();
            self.spare.push(payload);
        }
    }
}
