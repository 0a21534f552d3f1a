//! Datagrams received out of order: a record between two zeros can be read at once (McQuistin §3.1).

use std::collections::VecDeque;

use timeous_core::SubStream;

use super::config::ReceiverConfig;
use crate::record::{Framing, Limits, Unordered};

/// A received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedDatagram {
    /// Sub-stream.
    pub substream: SubStream,
    /// Number assigned by the peer.
    pub number: Option<u32>,
    /// Payload length in bytes.
    pub len: usize,
}

/// Unread datagrams.
#[derive(Debug)]
pub(super) struct Datagrams {
    reader: Unordered,
    framing: Framing,
    waiting: VecDeque<(ReceivedDatagram, Vec<u8>)>,
    /// Bytes of the waiting datagrams' records.
    bytes: u64,
    /// Start of the receive window; it never goes back.
    freed: u64,
}

impl Datagrams {
    pub(super) fn new(config: &ReceiverConfig, framing: &Framing) -> Self {
        // Bounded by the reassembly buffer.
        let limits = Limits {
            longest: config.buffer,
            stretches: config.max_islands.saturating_add(2),
            held: 2 * config.buffer + framing.record_len(0),
        };
        let (framing, reader) = (framing.clone(), Unordered::new(framing.clone(), limits));
        Self { framing, reader, waiting: VecDeque::new(), bytes: 0, freed: 0 }
    }

    /// Processes received bytes, where all bytes before `next` have arrived; returns the number of datagrams completed.
    pub(super) fn take(&mut self, next: u64, at: u64, bytes: &[u8]) -> usize {
        if self.waiting.is_empty() {
            // Padding is never read, and must free its room all the same.
            self.free(next);
        }
        let before = self.waiting.len();
        let Self { framing, reader, waiting, bytes: total, .. } = self;
        reader.insert(at, bytes, |datagram| {
            let len = datagram.payload.len();
            *total += framing.record_len(len) as u64;
            let received = ReceivedDatagram { substream: datagram.substream, number: datagram.number, len };
            waiting.push_back((received, datagram.payload.to_vec()));
        });
        self.waiting.len() - before
    }

    /// Returns the next datagram; its payload is appended to `out`.
    pub(super) fn read(&mut self, out: &mut Vec<u8>) -> Option<ReceivedDatagram> {
        let (received, payload) = self.waiting.pop_front()?;
        self.bytes -= self.framing.record_len(received.len) as u64;
        out.extend_from_slice(&payload);
        Some(received)
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Moves the start of the window to `next`, less the unread datagrams: at the same moments as for a byte stream, so
    /// that the peer sees no difference.
    pub(super) fn free(&mut self, next: u64) {
        self.freed = self.freed.max(next.saturating_sub(self.bytes));
    }

    pub(super) const fn freed(&self) -> u64 {
        self.freed
    }
}
