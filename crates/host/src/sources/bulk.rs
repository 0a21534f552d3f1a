//! Bulk transfer: a file, or an endless one.

use timeous_core::{AduMeta, Instant};

use crate::application::{Application, Outlet};
use crate::stamp;

/// A bulk transfer. Needs a transport with congestion control: one that accepts everything at once would never stop it.
pub struct Bulk {
    left: u64,
    chunk: usize,
    start: Instant,
    begun: bool,
    ended: bool,
    payload: Vec<u8>,
}

impl Bulk {
    /// Creates an endless transfer, in pieces of `chunk` bytes.
    pub fn endless(chunk: usize) -> Self {
        Self::of(u64::MAX, chunk)
    }

    /// Creates a transfer of `bytes`, in pieces of `chunk` bytes; the transport is closed after it.
    pub fn of(bytes: u64, chunk: usize) -> Self {
        Self { left: bytes, chunk, start: Instant::ZERO, begun: false, ended: false, payload: Vec::new() }
    }

    /// Delays the transfer until `start`.
    #[must_use]
    pub fn starting_at(mut self, start: Instant) -> Self {
        self.start = start;
        self
    }

    /// Returns the number of bytes that the transport has not accepted yet.
    pub fn left(&self) -> u64 {
        self.left
    }
}

impl Application for Bulk {
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        if now < self.start || self.ended {
            return;
        }
        self.begun = true;
        while self.left > 0 {
            let len = self.chunk.min(usize::try_from(self.left).unwrap_or(usize::MAX));
            stamp::write(outlet.next_seq(), len, &mut self.payload);
            if outlet.send(AduMeta { enqueued: now, ..AduMeta::default() }, &self.payload).is_err() {
                return;
            }
            self.left -= len as u64;
        }
        self.ended = true;
        outlet.finish();
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (!self.begun).then_some(self.start)
    }
}
