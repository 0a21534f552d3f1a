//! Packets of one size at one interval.

use timeous_core::{AduMeta, Duration, Instant};

use crate::application::{Application, Outlet, Refused};
use crate::stamp;

/// What a source does when its transport takes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    /// The packet is given up, as by a program that writes without waiting.
    Skip,
    /// The program waits until it is taken, as in a blocking call, and is late with the next.
    Wait,
}

/// What is said of each packet, by its number among all that were due.
pub type Describe = Box<dyn FnMut(u64) -> AduMeta + Send>;

/// A source of constant rate. Packets are [stamped](stamp).
pub struct Cbr {
    interval: Duration,
    len: usize,
    on_full: OnFull,
    start: Instant,
    until: Instant,
    packets: u64,
    latency: Option<Duration>,
    describe: Describe,
    /// When the next packet is due; `None`: it was not begun.
    next: Option<Instant>,
    /// The packet that the transport did not take.
    waiting: Option<AduMeta>,
    /// How many were due.
    due: u64,
    ended: bool,
    payload: Vec<u8>,
}

impl Cbr {
    /// A packet of `len` bytes each `interval`, from the opening of the transport on, for ever.
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

    /// Not before `start`.
    #[must_use]
    pub fn starting_at(mut self, start: Instant) -> Self {
        self.start = start;
        self
    }

    /// Nothing is due from `until` on; the transport is closed then.
    #[must_use]
    pub fn until(mut self, until: Instant) -> Self {
        self.until = until;
        self
    }

    /// So many packets, and the transport is closed.
    #[must_use]
    pub fn for_packets(mut self, packets: u64) -> Self {
        self.packets = packets;
        self
    }

    /// Each packet has its deadline so long after it was handed over.
    #[must_use]
    pub fn with_latency(mut self, latency: Duration) -> Self {
        self.latency = Some(latency);
        self
    }

    /// Says what each packet is.
    #[must_use]
    pub fn describing(mut self, describe: impl FnMut(u64) -> AduMeta + Send + 'static) -> Self {
        self.describe = Box::new(describe);
        self
    }

    /// How many packets were due so far, whether the transport took them or not.
    pub fn due(&self) -> u64 {
        self.due
    }

    fn is_over(&self, next: Instant) -> bool {
        self.waiting.is_none() && (self.due >= self.packets || next >= self.until)
    }

    /// The packet that is due now, as it is handed over first.
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
