//! Datagrams as they come: whatever lies between two zeros can be read at once, in order or not (McQuistin §3.1).

use std::collections::VecDeque;

use timeous_core::SubStream;

use super::config::ReceiverConfig;
use crate::record::{Framing, Limits, Unordered, sealed_len};

/// A datagram that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedDatagram {
    /// Its sub-stream.
    pub substream: SubStream,
    /// The peer's number for it.
    pub number: Option<u32>,
    /// How long its payload is.
    pub len: usize,
}

/// Datagrams that nobody has read.
#[derive(Debug)]
pub(super) struct Datagrams {
    reader: Unordered,
    waiting: VecDeque<(ReceivedDatagram, Vec<u8>)>,
    bytes: u64,
    /// What the window begins at; it never goes back.
    freed: u64,
}

impl Datagrams {
    pub(super) fn new(config: &ReceiverConfig) -> Self {
        // What it may hold is bounded by what is reassembled.
        let limits = Limits {
            longest: config.buffer,
            stretches: config.max_islands.saturating_add(2),
            held: 2 * config.buffer + sealed_len(0),
        };
        let reader = Unordered::new(Framing::Sealed, limits);
        Self { reader, waiting: VecDeque::new(), bytes: 0, freed: 0 }
    }

    /// These bytes have come, where everything before `next` had; how many datagrams are complete by them.
    pub(super) fn take(&mut self, next: u64, at: u64, bytes: &[u8]) -> usize {
        if self.waiting.is_empty() {
            // Padding is never read, and has to make room all the same.
            self.free(next);
        }
        let before = self.waiting.len();
        let Self { reader, waiting, bytes: total, .. } = self;
        reader.insert(at, bytes, |datagram| {
            let len = datagram.payload.len();
            *total += sealed_len(len) as u64;
            let received = ReceivedDatagram { substream: datagram.substream, number: datagram.number, len };
            waiting.push_back((received, datagram.payload.to_vec()));
        });
        self.waiting.len() - before
    }

    /// The next one; its payload is appended to `out`.
    pub(super) fn read(&mut self, out: &mut Vec<u8>) -> Option<ReceivedDatagram> {
        let (received, payload) = self.waiting.pop_front()?;
        self.bytes -= sealed_len(received.len) as u64;
        out.extend_from_slice(&payload);
        Some(received)
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Something was read, where everything before `next` has come. The window begins there, less what was not read: at
    /// the same moments as that of a stream, so that the peer sees no difference.
    pub(super) fn free(&mut self, next: u64) {
        self.freed = self.freed.max(next.saturating_sub(self.bytes));
    }

    pub(super) const fn freed(&self) -> u64 {
        self.freed
    }
}
