//! Reassembly of ADUs from fragments, with bounded memory and time, even for a hostile peer.

use std::collections::BTreeMap;

use timeous_core::{Duration, Instant};

/// Length of a fragment's header, in bytes: number of the ADU (4), offset (2), length of the ADU (2).
const HEADER_LEN: usize = 8;
/// Maximum number of incomplete ADUs, and distance of their numbers. Chosen by us: a higher value waits longer for
/// retransmissions and lets a peer cost more memory.
const MAX_ADUS: u32 = 256;
/// Maximum number of bytes of incomplete ADUs. Chosen by us: half a second of 64 Mbit/s in flight or under repair; a
/// higher value lets a peer cost more memory.
const MAX_BYTES: usize = 4 << 20;
/// Bytes that a fragment counts beyond its data: those of the maps, so that tiny fragments cost what they take.
const FRAGMENT_COST: usize = 64;
/// Time after which an incomplete ADU is given up: no sender repairs for that long. Chosen by us: that of the longest
/// latencies in use; a higher value keeps useless memory longer.
const MAX_AGE: Duration = Duration::from_secs(10);

/// A part of an ADU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment<'a> {
    /// Number of the ADU among those of its sender that were cut.
    number: u32,
    offset: u16,
    total: u16,
    bytes: &'a [u8],
}

impl<'a> Fragment<'a> {
    /// Parses the data of a packet; `None` if they cannot be a fragment.
    pub(super) fn parse(payload: &'a [u8]) -> Option<Self> {
        let (header, bytes) = payload.split_first_chunk::<HEADER_LEN>()?;
        let [a, b, c, d, e, f, g, h] = *header;
        let number = u32::from_be_bytes([a, b, c, d]);
        let (offset, total) = (u16::from_be_bytes([e, f]), u16::from_be_bytes([g, h]));
        let is_inside = usize::from(offset) + bytes.len() <= usize::from(total);
        (is_inside && !bytes.is_empty()).then_some(Self { number, offset, total, bytes })
    }

    /// Length of the whole ADU.
    pub(super) fn total(&self) -> usize {
        self.total.into()
    }

    /// Length of this part.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// Incomplete ADUs.
#[derive(Clone, Debug, Default)]
pub(super) struct Reassembly {
    open: BTreeMap<u32, Incomplete>,
    /// Cost of all, in bytes.
    bytes: usize,
}

#[derive(Clone, Debug)]
struct Incomplete {
    began: Instant,
    total: u16,
    /// Bytes received.
    received: usize,
    /// Parts by offset.
    parts: BTreeMap<u16, Vec<u8>>,
}

impl Incomplete {
    fn cost(&self) -> usize {
        self.received + self.parts.len() * FRAGMENT_COST
    }

    /// The ADU; `None` if parts overlap.
    fn join(self) -> Option<Vec<u8>> {
        let mut adu = Vec::with_capacity(self.received);
        for (offset, part) in self.parts {
            if usize::from(offset) != adu.len() {
                return None;
            }
            adu.extend_from_slice(&part);
        }
        Some(adu)
    }
}

impl Reassembly {
    /// Adds a fragment; returns the ADU if it is whole.
    pub(super) fn add(&mut self, now: Instant, fragment: Fragment<'_>) -> Option<Vec<u8>> {
        let Fragment { number, offset, total, bytes } = fragment;
        let fresh = || Incomplete { began: now, total, received: 0, parts: BTreeMap::new() };
        let adu = self.open.entry(number).or_insert_with(fresh);
        if adu.total == total && !adu.parts.contains_key(&offset) {
            adu.received += bytes.len();
            adu.parts.insert(offset, bytes.to_vec());
            self.bytes += bytes.len() + FRAGMENT_COST;
        }
        if adu.received >= usize::from(adu.total) {
            return self.take(number).and_then(Incomplete::join);
        }
        self.give_up(now, number);
        None
    }

    fn take(&mut self, number: u32) -> Option<Incomplete> {
        let adu = self.open.remove(&number)?;
        self.bytes -= adu.cost();
        Some(adu)
    }

    /// Gives up the oldest ADUs, where they are too many, too large or too old.
    fn give_up(&mut self, now: Instant, newest: u32) {
        while let Some((&oldest, adu)) = self.open.first_key_value()
            && (self.bytes > MAX_BYTES
                || self.open.len() > MAX_ADUS as usize
                || oldest < newest.saturating_sub(MAX_ADUS)
                || now - adu.began > MAX_AGE)
        {
            self.take(oldest);
        }
    }
}

#[cfg(test)]
mod tests;
