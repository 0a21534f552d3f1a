//! Transmission (serialization) times at a rate that may change during a packet, without drift.

use timeous_core::{Duration, Instant, Rate};

use super::trace::RateTrace;

/// Work is counted in bits times nanoseconds per second, so that a rate in bit/s does one unit per nanosecond and bit/s.
const WORK_PER_BYTE: u128 = 8 * 1_000_000_000;

/// Transmission rate of a link.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Capacity {
    /// Unlimited: packets never wait.
    #[default]
    Unlimited,
    /// Constant rate.
    Fixed(Rate),
    /// Rate that changes with time.
    Trace(RateTrace),
}

impl Capacity {
    /// Mean rate; `None` if unlimited.
    pub fn mean_rate(&self) -> Option<Rate> {
        match self {
            Self::Unlimited => None,
            Self::Fixed(rate) => Some(*rate),
            Self::Trace(trace) => Some(trace.mean_rate()),
        }
    }

    /// Rate at `at`, and the time until which it holds.
    fn at(&self, at: Instant) -> (Rate, Instant) {
        match self {
            Self::Unlimited => (Rate::MAX, Instant::FAR_FUTURE),
            Self::Fixed(rate) => (*rate, Instant::FAR_FUTURE),
            Self::Trace(trace) => trace.rate_at(at),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Transmitter {
    capacity: Capacity,
    free_at: Instant,
    /// Unused work between the exact end of the last transmission and `free_at`, which is rounded up to a nanosecond.
    /// It counts for a transmission that follows at once, so that the rate is exact.
    credit: u128,
    /// Depth of the token bucket: maximum credit from idle times.
    depth: u128,
}

impl Transmitter {
    /// Creates a transmitter that can send `burst` bytes at once after an idle time, and at the beginning.
    pub(super) fn new(capacity: Capacity, burst: u64) -> Self {
        let depth = u128::from(burst) * WORK_PER_BYTE;
        Self { capacity, free_at: Instant::ZERO, credit: depth, depth }
    }

    /// End of the last transmission.
    pub(super) fn free_at(&self) -> Instant {
        self.free_at
    }

    /// Notes that the transmitter was idle until `now`.
    pub(super) fn idle_until(&mut self, now: Instant) {
        if self.free_at < now {
            self.credit = self.idle_work(now);
            self.free_at = now;
        }
    }

    /// Credit at `now`, after an idle time since [`Self::free_at`].
    fn idle_work(&self, now: Instant) -> u128 {
        let (mut credit, mut at) = (self.credit, self.free_at);
        while at < now && credit < self.depth {
            let (rate, until) = self.capacity.at(at);
            let until = until.min(now);
            credit += u128::from(rate.as_bps()) * u128::from((until - at).as_nanos());
            at = until;
        }
        credit.min(self.depth)
    }

    /// Transmits `len` bytes from [`Self::free_at`] on; returns the end.
    pub(super) fn send(&mut self, len: usize) -> Instant {
        if self.capacity == Capacity::Unlimited {
            return self.free_at;
        }
        let mut work = len as u128 * WORK_PER_BYTE;
        if self.credit >= work {
            self.credit -= work;
            return self.free_at;
        }
        work -= self.credit;
        self.credit = 0;
        if let Capacity::Trace(trace) = &self.capacity {
            let (time, done) = trace.whole_periods(work - 1);
            self.free_at += time;
            work -= done;
        }
        self.free_at = self.finish(work);
        self.free_at
    }

    /// End of `work` that began at `free_at`; the rest of the last nanosecond becomes credit.
    fn finish(&mut self, mut work: u128) -> Instant {
        let mut at = self.free_at;
        while at < Instant::FAR_FUTURE {
            let (rate, until) = self.capacity.at(at);
            let rate = u128::from(rate.as_bps());
            let possible = rate * u128::from((until - at).as_nanos());
            if work <= possible {
                let nanos = work.div_ceil(rate);
                self.credit = nanos * rate - work;
                return at + Duration::from_nanos(nanos as u64);
            }
            work -= possible;
            at = until;
        }
        Instant::FAR_FUTURE
    }
}
