//! Constant bit rate: packets of one size at one interval.

use timeous_core::{AduMeta, Duration, Instant};

use crate::application::{Application, Outlet, Refused};
use crate::stamp;

/// Behaviour of a source when the transport's queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    /// Drops the packet, like a program with non-blocking writes.
    Skip,
    /// Waits until it is accepted, as in a blocking call, and is late with the next.
    Wait,
}

/// Function that returns a packet's metadata, by its number among all due packets.
pub type Describe = Box<dyn FnMut(u64) -> AduMeta + Send>;

/// Constant bit rate source. Packets are [stamped](stamp).
pub struct Cbr {
    interval: Duration,
    len: usize,
    on_full: OnFull,
    start: Instant,
    until: Instant,
    packets: u64,
    latency: Option<Duration>,
    describe: Describe,
    /// Time of the next packet; `None`: not started.
    next: Option<Instant>,
    /// The packet that the transport did not accept.
    waiting: Option<AduMeta>,
    /// Number of due packets so far.
    due: u64,
    ended: bool,
    payload: Vec<u8>,
}

impl Cbr {
    /// Creates a source of `len` bytes each `interval`, from the opening of the transport on, without end.
    pub fn new(interval: Duration, len: usize, on_full: OnFull) -> Self {
        Self {
            interval,
            len,
            on_full,
            start: Instant::ZERO,
            until: Instant::FAR_FUTURE,
            packets: u64::MAX,
            latency: None,
            describe: Box::new(|_| AduMeta::default()),
            next: None,
            waiting: None,
            due: 0,
            ended: false,
            payload: Vec::new(),
        }
    }

    /// Delays the first packet until `start`.
    #[must_use]
    pub fn starting_at(mut self, start: Instant) -> Self {
        self.start = start;
        self
    }

    /// Ends the source at `until`, and closes the transport.
    #[must_use]
    pub fn until(mut self, until: Instant) -> Self {
        self.until = until;
        self
    }

    /// Ends the source after `packets` packets, and closes the transport.
    #[must_use]
    pub fn for_packets(mut self, packets: u64) -> Self {
        self.packets = packets;
        self
    }

    /// Sets the deadline of each packet to `latency` after it is first handed over.
    #[must_use]
    pub fn with_latency(mut self, latency: Duration) -> Self {
        self.latency = Some(latency);
        self
    }

    /// Sets the metadata of each packet.
    #[must_use]
    pub fn describing(mut self, describe: impl FnMut(u64) -> AduMeta + Send + 'static) -> Self {
        self.describe = Box::new(describe);
        self
    }

    /// Returns the number of due packets so far, accepted or not.
    pub fn due(&self) -> u64 {
        self.due
    }

    fn is_over(&self, next: Instant) -> bool {
        self.waiting.is_none() && (self.due >= self.packets || next >= self.until)
    }

    /// Returns the metadata of the packet that is due now.
    fn describe(&mut self, now: Instant) -> AduMeta {
        let meta = (self.describe)(self.due);
        self.due += 1;
        AduMeta { enqueued: now, deadline: self.latency.map(|latency| now + latency).or(meta.deadline), ..meta }
    }
}

impl Application for Cbr {
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        let mut next = self.next.unwrap_or(now.max(self.start));
        while !self.ended && !self.is_over(next) && next <= now {
            let waited = self.waiting.take();
            let meta = waited.unwrap_or_else(|| self.describe(now));
            stamp::write(outlet.next_seq(), self.len, &mut self.payload);
            match outlet.send(meta, &self.payload) {
                Ok(_) => {}
                Err(Refused::Full) if self.on_full == OnFull::Wait => {
                    self.waiting = Some(meta);
                    break;
                }
                Err(Refused::Full) => {}
                Err(Refused::Closed) => self.ended = true,
                Err(error @ Refused::TooLarge { .. }) => panic!("an experiment sends what fits: {error}"),
            }
            next += self.interval;
            if waited.is_some() {
                next = next.max(now);
            }
        }
        if !self.ended && self.is_over(next) {
            self.ended = true;
            outlet.finish();
        }
        self.next = Some(next);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.ended || self.waiting.is_some() { None } else { self.next }
    }
}
