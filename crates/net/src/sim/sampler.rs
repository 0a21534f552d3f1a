//! Periodic samples of a link: queue and delivery rate.

use timeous_core::{Duration, Instant, Rate};

use super::packet::Packet;
use crate::link::Link;

/// State of a link at one time, after all events at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time of the sample.
    pub at: Instant,
    /// Packets queued for transmission.
    pub queue_len: usize,
    /// Bytes queued for transmission.
    pub queue_bytes: u64,
    /// Bytes delivered since the previous sample.
    pub delivered: u64,
    /// Delivery rate since the previous sample.
    pub rate: Rate,
}

/// Takes samples of one link.
#[derive(Clone, Debug)]
pub(super) struct Sampler {
    every: Duration,
    next: Instant,
    bytes_out: u64,
    samples: Vec<Sample>,
}

impl Sampler {
    /// Creates a sampler whose first sample is an interval after `now`.
    pub(super) fn new(now: Instant, every: Duration, link: &Link<Packet>) -> Self {
        Self { every, next: now + every, bytes_out: link.counters().bytes_out, samples: Vec::new() }
    }

    /// Time of the next sample.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Takes the sample that is due.
    pub(super) fn take(&mut self, link: &mut Link<Packet>) {
        link.advance(self.next);
        let bytes_out = link.counters().bytes_out;
        let delivered = bytes_out - self.bytes_out;
        self.samples.push(Sample {
            at: self.next,
            queue_len: link.queue_len(),
            queue_bytes: link.queue_bytes(),
            delivered,
            rate: Rate::from_bytes_in(delivered, self.every),
        });
        self.bytes_out = bytes_out;
        self.next += self.every;
    }

    pub(super) fn samples(&self) -> &[Sample] {
        &self.samples
    }
}
