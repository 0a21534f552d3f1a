//! NewReno: standard TCP congestion control (RFC 5681), counting bytes (RFC 3465).
//!
//! RFC 6582 affects the window in two ways: it does not grow during loss recovery, and the losses of one window are one
//! event. The manager ensures both. Bytes in flight are counted as in RFC 6675, so that the window need not be inflated
//! by duplicate acknowledgements.

use timeous_core::{Duration, Instant, Rate};

use super::{Acked, Congestion, Controller, TimedOut, initial, pace};

/// Maximum growth per acknowledgement in slow start, in packets: `L` (RFC 3465 §2.3).
const BYTE_COUNT_LIMIT: u64 = 2;
/// Maximum growth per acknowledgement in slow start after a timeout, in packets: `L` (RFC 3465 §2.3).
const BYTE_COUNT_LIMIT_AFTER_TIMEOUT: u64 = 1;

/// Controller of RFC 5681. Not paced by default: acknowledgements clock it.
///
/// ```
/// use timeous_cm::{Acked, Controller, NewReno, controller::Congestion};
/// use timeous_core::Instant;
/// let mut reno = NewReno::new(1_000);
/// assert_eq!(reno.window(), 10_000);
/// reno.on_congestion(Instant::ZERO, Congestion { outstanding: 10_000, marked: false });
/// assert_eq!(reno.window(), 5_000);
/// ```
#[derive(Clone, Debug)]
pub struct NewReno {
    mtu: u64,
    initial: u64,
    window: u64,
    threshold: u64,
    /// Bytes acknowledged since the window last grew in congestion avoidance.
    counted: u64,
    /// Maximum bytes in flight since then.
    flight: u64,
    /// Whether it is in slow start after a timeout.
    after_timeout: bool,
    /// Window and threshold before the latest timeout, to be restored if it was spurious; cleared by any other congestion event.
    before_timeout: Option<(u64, u64)>,
    paced: bool,
    goes_by_use: bool,
}

impl NewReno {
    /// Creates a controller for packets of at most `mtu` bytes, with an initial window of ten packets (RFC 6928), as in Linux.
    pub fn new(mtu: u64) -> Self {
        Self {
            mtu,
            initial: initial::rfc6928(mtu),
            window: initial::rfc6928(mtu),
            threshold: u64::MAX,
            counted: 0,
            flight: 0,
            after_timeout: false,
            before_timeout: None,
            paced: false,
            goes_by_use: false,
        }
    }

    /// Sets the initial window, also used after an idle period, to `bytes`: see [`initial`].
    pub fn with_initial_window(mut self, bytes: u64) -> Self {
        self.initial = bytes.max(self.mtu);
        self.window = self.initial;
        self
    }

    /// Enables congestion window validation (RFC 7661), for live streams that pause between frames: the window stays
    /// valid as far as it was recently used, and congestion reduces it rather than the bytes in flight. Linux and
    /// FreeBSD always reduce the window.
    pub fn for_streams_that_pause(mut self) -> Self {
        self.goes_by_use = true;
        self
    }

    /// Enables pacing: spreads a window over its round trip.
    pub fn with_pacing(mut self) -> Self {
        self.paced = true;
        self
    }

    /// Slow-start threshold in bytes (`ssthresh`); `u64::MAX` before the first congestion event.
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    fn slow_start(&mut self, bytes: u64) {
        let limit = if self.after_timeout { BYTE_COUNT_LIMIT_AFTER_TIMEOUT } else { BYTE_COUNT_LIMIT };
        self.window = self.window.saturating_add(bytes.min(limit * self.mtu)).min(self.threshold);
        if !self.in_slow_start() {
            self.after_timeout = false;
        }
    }

    fn avoid_congestion(&mut self, acked: Acked) {
        self.counted += acked.bytes;
        self.flight = self.flight.max(acked.outstanding + acked.bytes);
        // "roughly 1 full-sized segment per round-trip time" (RFC 5681 §3.1): small packets do not fill a window of a
        // few packets, and a round trip acknowledges the bytes in flight.
        let round = if self.goes_by_use { self.window.min(self.flight) } else { self.window };
        if self.counted >= round {
            self.counted -= round;
            self.flight = 0;
            self.window = self.window.saturating_add(self.mtu);
            // One acknowledgement adds at most one packet, however much it acknowledges.
            self.counted = self.counted.min(self.window);
        }
    }

    /// Sets the threshold by equation (4) of RFC 5681 §3.1; bytes in flight beyond the window do not count (§3.2, step 2).
    fn lower_threshold(&mut self, outstanding: u64) -> u64 {
        let half = outstanding.min(self.window) / 2;
        self.threshold = half.max(2 * self.mtu);
        half
    }
}

impl Controller for NewReno {
    fn name(&self) -> &'static str {
        "newreno"
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn threshold(&self) -> Option<u64> {
        Some(self.threshold).filter(|&threshold| threshold != u64::MAX)
    }

    fn adopt(&mut self, window: u64, threshold: Option<u64>) {
        self.window = window.max(self.mtu);
        self.threshold = threshold.unwrap_or(u64::MAX);
        self.counted = 0;
        self.after_timeout = false;
    }

    fn end_slow_start(&mut self) {
        self.threshold = self.threshold.min(self.window);
    }

    fn goes_by_use(&self) -> bool {
        self.goes_by_use
    }

    fn grows_by_use_alone(&self) -> bool {
        self.goes_by_use && self.threshold != u64::MAX && self.window < self.initial
    }

    fn on_acked(&mut self, _: Instant, acked: Acked) {
        if !acked.window_limited {
            return;
        }
        if self.in_slow_start() {
            self.slow_start(acked.bytes);
        } else {
            self.avoid_congestion(acked);
        }
    }

    /// Reduces the window, after a mark to at least one packet, after a loss to at least two (RFC 3168 §6.1.2).
    fn on_congestion(&mut self, _: Instant, congestion: Congestion) {
        let half = self.lower_threshold(congestion.outstanding);
        self.window = if congestion.marked { half.max(self.mtu) } else { self.threshold };
        self.counted = 0;
        self.after_timeout = false;
        self.before_timeout = None;
    }

    /// Reduces the window to one packet, the loss window of RFC 5681 §3.1. A lost handshake packet says nothing about
    /// the path's capacity.
    fn on_timeout(&mut self, _: Instant, timed_out: TimedOut) {
        if !timed_out.again && timed_out.outstanding > 0 {
            self.before_timeout = Some((self.window, self.threshold));
            self.lower_threshold(timed_out.outstanding);
        }
        self.window = self.mtu;
        self.counted = 0;
        self.after_timeout |= timed_out.outstanding > 0;
    }

    fn on_spurious_timeout(&mut self, most: u64) {
        if let Some((window, threshold)) = self.before_timeout.take() {
            (self.window, self.threshold) = (window.min(most).max(self.window), threshold);
            self.after_timeout = false;
        }
    }

    /// Applies the restart window of RFC 5681 §4.1.
    fn on_idle(&mut self, _: Instant, timeouts: u32) {
        if timeouts > 0 {
            self.window = self.window.min(self.initial);
            self.counted = 0;
        }
    }

    fn rate(&self, srtt: Duration) -> Rate {
        pace::expected(self.window, self.in_slow_start(), srtt)
    }

    fn pace(&self, srtt: Duration) -> Rate {
        if self.paced { pace::above(self.window, self.in_slow_start(), srtt) } else { Rate::MAX }
    }
}

#[cfg(test)]
mod tests;
