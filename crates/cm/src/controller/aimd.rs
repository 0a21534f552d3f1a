//! AIMD: additive increase, multiplicative decrease, as in TCP (RFC 5681), counting bytes (RFC 3465).
//!
//! Slow start ends when packets begin to queue, not only when the queue overflows, because losing half a window of
//! fresh video at once is what a live stream tolerates least. HyStart++ (RFC 9406) compares the minimum RTTs of whole
//! rounds; on a path that holds a dozen packets that is a round too late, so that single RTT samples are counted here.

use timeous_core::{Duration, Instant, Rate};

use super::{Acked, Congestion, Controller, TimedOut, initial, pace};

/// Consecutive RTT samples that show queueing delay and so end slow start. Chosen by us: HyStart++'s eight (RFC 9406
/// §4.3) are too many for a dozen packets per round. A higher value tolerates more jitter and overshoots further.
const QUEUEING_SAMPLES: u32 = 3;
/// Divisor of the minimum RTT: queueing delay from which a sample shows a queue. Chosen by us. A higher value ends slow
/// start earlier, also by jitter.
const QUEUEING_DIVISOR: u64 = 4;
/// Lower bound of that queueing delay. Chosen by us. A lower value ends slow start by jitter on short paths.
const MIN_QUEUEING: Duration = Duration::from_millis(8);
/// Upper bound of that queueing delay. Chosen by us. A higher value overshoots further on long paths.
const MAX_QUEUEING: Duration = Duration::from_millis(50);

/// AIMD controller of the papers: used by CCID 2 and the Congestion Manager itself.
///
/// ```
/// use timeous_cm::{Acked, Aimd, Controller};
/// use timeous_core::Instant;
/// let mut aimd = Aimd::new(1_000);
/// let start = aimd.window();
/// aimd.on_acked(Instant::ZERO, Acked { bytes: 1_000, outstanding: 0, rtt: None, srtt: None, window_limited: true });
/// assert_eq!(aimd.window(), start + 1_000, "slow start");
/// ```
#[derive(Clone, Debug)]
pub struct Aimd {
    mtu: u64,
    window: u64,
    threshold: u64,
    /// Bytes acknowledged since the window last grew in congestion avoidance.
    counted: u64,
    queueing: Queueing,
}

impl Aimd {
    /// Creates a controller for packets of at most `mtu` bytes, with the initial window of RFC 4341 §5 (which is RFC 3390's).
    pub fn new(mtu: u64) -> Self {
        let window = initial::rfc3390(mtu);
        Self { mtu, window, threshold: u64::MAX, counted: 0, queueing: Queueing::default() }
    }

    fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    fn slow_start(&mut self, acked: Acked) {
        if let Some(share) = acked.rtt.and_then(|rtt| self.queueing.sample(rtt)) {
            // Reduce the window to the bandwidth-delay product: the rest of it made the RTT grow.
            self.window = ((self.window as f64 * share) as u64).max(initial::rfc3390(self.mtu));
            self.threshold = self.window;
            return;
        }
        // RFC 3465 §2.2 limits the growth per acknowledgement to avoid bursts. Pacing avoids them here, and a receiver
        // that acknowledges many packets at once must not be slower for it.
        self.window = (self.window + acked.bytes).min(self.threshold.max(self.window));
    }

    fn avoid_congestion(&mut self, bytes: u64) {
        self.counted += bytes;
        if self.counted >= self.window {
            self.counted -= self.window;
            self.window += self.mtu;
        }
    }

    fn halve(&mut self, outstanding: u64) {
        self.threshold = (outstanding / 2).max(2 * self.mtu);
        self.counted = 0;
        self.queueing.in_a_row = 0;
    }
}

impl Controller for Aimd {
    fn name(&self) -> &'static str {
        "aimd"
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
    }

    fn end_slow_start(&mut self) {
        self.threshold = self.threshold.min(self.window);
    }

    fn on_acked(&mut self, _: Instant, acked: Acked) {
        if !acked.window_limited {
            return;
        }
        if self.in_slow_start() {
            self.slow_start(acked);
        } else {
            self.avoid_congestion(acked.bytes);
        }
    }

    fn on_congestion(&mut self, _: Instant, congestion: Congestion) {
        self.halve(congestion.outstanding);
        self.window = self.threshold;
    }

    fn on_timeout(&mut self, _: Instant, timed_out: TimedOut) {
        if !timed_out.again && timed_out.outstanding > 0 {
            self.halve(timed_out.outstanding);
        }
        self.window = self.mtu;
    }

    /// Idle decay of RFC 2861 §3.2: halves the window per timeout, and keeps the old window in the slow-start threshold.
    fn on_idle(&mut self, _: Instant, timeouts: u32) {
        if timeouts == 0 {
            return;
        }
        if self.threshold != u64::MAX {
            self.threshold = self.threshold.max(self.window / 4 * 3);
        }
        let decayed = self.window.checked_shr(timeouts).unwrap_or(0);
        self.window = decayed.max(self.window.min(initial::rfc3390(self.mtu)));
    }

    /// A stream paced by its own clock never fills its window, and must still find out whether there is room for more:
    /// using half of the window suffices (RFC 7661 §4.3).
    fn is_used(&self, under_way: u64) -> bool {
        under_way.saturating_mul(2) >= self.window
    }

    fn rate(&self, srtt: Duration) -> Rate {
        pace::expected(self.window, self.in_slow_start(), srtt)
    }

    fn pace(&self, srtt: Duration) -> Rate {
        pace::above(self.window, self.in_slow_start(), srtt)
    }
}

/// Detector of a growing queue.
#[derive(Clone, Copy, Debug, Default)]
struct Queueing {
    least: Option<Duration>,
    in_a_row: u32,
}

impl Queueing {
    /// Takes an RTT sample. Once a queue is certain, returns the share of the RTT that is not queueing delay.
    fn sample(&mut self, rtt: Duration) -> Option<f64> {
        let least = self.least.map_or(rtt, |least| least.min(rtt));
        self.least = Some(least);
        let queued = rtt.saturating_sub(least) >= (least / QUEUEING_DIVISOR).clamp(MIN_QUEUEING, MAX_QUEUEING);
        self.in_a_row = if queued { self.in_a_row + 1 } else { 0 };
        (self.in_a_row >= QUEUEING_SAMPLES).then(|| least.as_secs_f64() / rtt.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: u64 = 1_000;

    fn ack(aimd: &mut Aimd, bytes: u64) {
        aimd.on_acked(Instant::ZERO, Acked { bytes, outstanding: 0, rtt: None, srtt: None, window_limited: true });
    }

    #[test]
    fn starts_with_the_initial_window_of_rfc_3390() {
        assert_eq!(Aimd::new(1_460).window(), 4_380);
        assert_eq!(Aimd::new(500).window(), 2_000);
        assert_eq!(Aimd::new(3_000).window(), 6_000);
    }

    #[test]
    fn slow_start_counts_bytes_however_many_are_told_of_at_once() {
        let mut aimd = Aimd::new(MTU);
        let start = aimd.window();
        ack(&mut aimd, 300);
        assert_eq!(aimd.window(), start + 300);
        ack(&mut aimd, 9 * MTU);
        assert_eq!(aimd.window(), start + 300 + 9 * MTU);
    }

    #[test]
    fn congestion_halves_what_is_outstanding_and_then_one_packet_a_window_is_added() {
        let mut aimd = Aimd::new(MTU);
        aimd.on_congestion(Instant::ZERO, Congestion { outstanding: 20 * MTU, marked: false });
        assert_eq!(aimd.window(), 10 * MTU);
        for _ in 0..9 {
            ack(&mut aimd, MTU);
        }
        assert_eq!(aimd.window(), 10 * MTU);
        ack(&mut aimd, MTU);
        assert_eq!(aimd.window(), 11 * MTU);
    }

    #[test]
    fn a_timeout_leaves_one_packet_and_slow_starts_to_half() {
        let mut aimd = Aimd::new(MTU);
        aimd.on_timeout(Instant::ZERO, TimedOut { outstanding: 8 * MTU, again: false });
        assert_eq!(aimd.window(), MTU);
        for _ in 0..5 {
            ack(&mut aimd, MTU);
        }
        assert_eq!(aimd.window(), 4 * MTU, "slow start ends at the threshold");
    }

    #[test]
    fn what_the_application_limits_does_not_grow_the_window() {
        let mut aimd = Aimd::new(MTU);
        let start = aimd.window();
        aimd.on_acked(
            Instant::ZERO,
            Acked { bytes: 5_000, outstanding: 0, rtt: None, srtt: None, window_limited: false },
        );
        assert_eq!(aimd.window(), start);
    }

    /// Acknowledges a packet for each of these RTTs, in milliseconds.
    fn sample(aimd: &mut Aimd, rtts: &[u64]) {
        for &rtt in rtts {
            let rtt = Some(Duration::from_millis(rtt));
            aimd.on_acked(Instant::ZERO, Acked { bytes: MTU, outstanding: 0, rtt, srtt: rtt, window_limited: true });
        }
    }

    #[test]
    fn three_round_trips_in_a_row_with_a_queue_end_slow_start_with_what_the_path_holds() {
        let mut aimd = Aimd::new(MTU);
        sample(&mut aimd, &[80; 8]);
        sample(&mut aimd, &[100, 110]);
        assert!(aimd.in_slow_start());
        let window = aimd.window();
        sample(&mut aimd, &[120]);
        assert!(!aimd.in_slow_start());
        assert_eq!(aimd.window(), window * 80 / 120);
    }

    #[test]
    fn an_idle_path_halves_the_window_each_timeout_and_remembers_where_it_was() {
        let mut aimd = Aimd::new(MTU);
        aimd.on_congestion(Instant::ZERO, Congestion { outstanding: 40 * MTU, marked: false });
        aimd.on_idle(Instant::ZERO, 1);
        assert_eq!(aimd.window(), 10 * MTU);
        assert!(aimd.in_slow_start());
        aimd.on_idle(Instant::ZERO, 70);
        assert_eq!(aimd.window(), initial::rfc3390(MTU));
    }

    #[test]
    fn single_late_packets_do_not_end_slow_start() {
        let mut aimd = Aimd::new(MTU);
        sample(&mut aimd, &[80, 150, 150, 85, 150, 150, 80, 99, 99, 99, 99]);
        assert!(aimd.in_slow_start());
    }

    #[test]
    fn the_rate_in_slow_start_is_the_one_that_comes() {
        let mut aimd = Aimd::new(MTU);
        let rtt = Duration::from_millis(100);
        assert_eq!(aimd.rate(rtt), Rate::from_bytes_in(8 * MTU, rtt));
        aimd.on_congestion(Instant::ZERO, Congestion { outstanding: 8 * MTU, marked: false });
        assert_eq!(aimd.rate(rtt), Rate::from_bytes_in(4 * MTU, rtt));
    }
}
