//! Delivery to the application: a byte stream in order, or datagrams as soon as they are complete.

use super::assembly::Assembly;
use super::config::ReceiverConfig;
use super::datagrams::{Datagrams, ReceivedDatagram};

/// Read position of the application.
#[derive(Debug)]
pub(super) struct Delivery {
    read: u64,
    datagrams: Option<Datagrams>,
}

impl Delivery {
    pub(super) fn new(config: &ReceiverConfig) -> Self {
        Self { read: 0, datagrams: config.datagrams.as_ref().map(|framing| Datagrams::new(config, framing)) }
    }

    /// Returns the number of readable bytes, or datagrams.
    pub(super) fn readable(&self, assembly: &Assembly) -> usize {
        match &self.datagrams {
            Some(datagrams) => datagrams.waiting(),
            None => (assembly.next() - self.read) as usize,
        }
    }

    /// Processes received bytes, where all bytes before `next` have arrived; returns the number of datagrams completed.
    pub(super) fn arrived(&mut self, assembly: &mut Assembly, next: u64, at: u64, bytes: &[u8]) -> usize {
        let Some(datagrams) = &mut self.datagrams else { return 0 };
        let complete = datagrams.take(next, at, bytes);
        assembly.forget(datagrams.freed());
        complete
    }

    /// Appends the payload of the next datagram.
    pub(super) fn read_datagram(&mut self, assembly: &mut Assembly, out: &mut Vec<u8>) -> Option<ReceivedDatagram> {
        let datagrams = self.datagrams.as_mut()?;
        let received = datagrams.read(out)?;
        datagrams.free(assembly.next());
        assembly.forget(datagrams.freed());
        Some(received)
    }

    /// Appends readable bytes, at most `limit`, and returns their number.
    pub(super) fn read(&mut self, assembly: &mut Assembly, limit: usize, out: &mut Vec<u8>) -> usize {
        if self.datagrams.is_some() {
            return 0;
        }
        let count = self.readable(assembly).min(limit);
        let end = self.read + count as u64;
        assembly.read(self.read..end, out);
        self.read = end;
        assembly.forget(end);
        count
    }

    /// Returns the offset before which bytes are not kept any more: the receive window begins here.
    pub(super) const fn freed(&self) -> u64 {
        match &self.datagrams {
            Some(datagrams) => datagrams.freed(),
            None => self.read,
        }
    }
}
