//! Additive increase, multiplicative decrease, as TCP does it (RFC 5681), counting bytes (RFC 3465).
//!
//! Slow start ends as HyStart++ says (RFC 9406), when the round-trip time begins to grow, and not only when the
//! queue overflows: half a window of fresh video lost at once is what a live stream can bear least.

use timeous_core::{Duration, Instant, Rate};

use super::{Acked, Controller};

/// HyStart++ constants (RFC 9406 §4.3).
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u64 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;

/// The most that one acknowledgement adds in slow start, in packets: `L` of RFC 3465 §2.2.
const BYTE_COUNT_LIMIT: u64 = 2;

/// The AIMD controller of the papers: CCID 2's and the Congestion Manager's own.
///
/// ```
/// use timeous_cm::{Acked, Aimd, Controller};
/// use timeous_core::Instant;
/// let mut aimd = Aimd::new(1_000);
/// let start = aimd.window();
/// aimd.on_acked(Instant::ZERO, Acked { bytes: 1_000, rtt: None, window_limited: true });
/// assert_eq!(aimd.window(), start + 1_000, "slow start");
/// ```
#[derive(Clone, Debug)]
pub struct Aimd {
    mtu: u64,
    window: u64,
    threshold: u64,
    /// Bytes acknowledged since the window last grew in congestion avoidance.
    counted: u64,
    rounds: Rounds,
}

impl Aimd {
    /// A controller for packets of at most `mtu` bytes, with the initial window of RFC 4341 §5 (which is RFC 3390's).
    pub fn new(mtu: u64) -> Self {
        let window = initial_window(mtu);
        Self { mtu, window, threshold: u64::MAX, counted: 0, rounds: Rounds::default() }
    }

    fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    fn slow_start(&mut self, now: Instant, acked: Acked) {
        if let Some(rtt) = acked.rtt
            && self.rounds.sample(now, rtt)
        {
            self.threshold = self.window;
            return;
        }
        let growth = acked.bytes.min(BYTE_COUNT_LIMIT * self.mtu);
        let divisor = if self.rounds.is_conservative() { CSS_GROWTH_DIVISOR } else { 1 };
        self.window = (self.window + growth / divisor).min(self.threshold.max(self.window));
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
        self.rounds = Rounds::default();
    }
}

fn initial_window(mtu: u64) -> u64 {
    (4 * mtu).min((2 * mtu).max(4380))
}

impl Controller for Aimd {
    fn name(&self) -> &'static str {
        "aimd"
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn on_acked(&mut self, now: Instant, acked: Acked) {
        if !acked.window_limited {
            return;
        }
        if self.in_slow_start() {
            self.slow_start(now, acked);
        } else {
            self.avoid_congestion(acked.bytes);
        }
    }

    fn on_congestion(&mut self, _: Instant, outstanding: u64) {
        self.halve(outstanding);
        self.window = self.threshold;
    }

    fn on_timeout(&mut self, _: Instant, outstanding: u64) {
        self.halve(outstanding);
        self.window = self.mtu;
    }

    fn on_idle(&mut self, _: Instant) {
        self.window = self.window.min(initial_window(self.mtu));
    }

    fn pace(&self, srtt: Duration) -> Rate {
        let rate = Rate::from_bytes_in(self.window, srtt).as_bps();
        // Above the window's own rate, so that the window and not the pace is the limit.
        let percent = if self.in_slow_start() { 200 } else { 120 };
        Rate::from_bps((u128::from(rate) * percent / 100).min(u128::from(u64::MAX)) as u64)
    }
}

/// The rounds of HyStart++: one lasts until something that was sent in it has been acknowledged.
#[derive(Clone, Copy, Debug, Default)]
struct Rounds {
    start: Option<Instant>,
    samples: u32,
    min: Option<Duration>,
    last_min: Option<Duration>,
    /// In conservative slow start: the baseline, and rounds spent there.
    conservative: Option<(Duration, u32)>,
}

impl Rounds {
    fn is_conservative(&self) -> bool {
        self.conservative.is_some()
    }

    /// Takes in a sample; `true` when slow start is over.
    fn sample(&mut self, now: Instant, rtt: Duration) -> bool {
        let sent = now.saturating_sub(rtt);
        if self.start.is_none_or(|start| sent >= start) {
            self.begin(now);
            if self.conservative.is_some_and(|(_, rounds)| rounds >= CSS_ROUNDS) {
                return true;
            }
        }
        self.samples += 1;
        let min = self.min.map_or(rtt, |min| min.min(rtt));
        self.min = Some(min);
        if self.samples >= N_RTT_SAMPLE {
            self.judge(min);
        }
        false
    }

    fn begin(&mut self, now: Instant) {
        if let Some((_, rounds)) = &mut self.conservative {
            *rounds += 1;
        }
        if self.min.is_some() {
            self.last_min = self.min;
        }
        self.start = Some(now);
        self.samples = 0;
        self.min = None;
    }

    fn judge(&mut self, min: Duration) {
        match self.conservative {
            // The delay was a passing one: back to slow start.
            Some((baseline, _)) if min < baseline => self.conservative = None,
            Some(_) => {}
            None => {
                let Some(last) = self.last_min else { return };
                let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if min >= last + threshold {
                    self.conservative = Some((min, 0));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: u64 = 1_000;

    fn ack(aimd: &mut Aimd, bytes: u64) {
        aimd.on_acked(Instant::ZERO, Acked { bytes, rtt: None, window_limited: true });
    }

    #[test]
    fn starts_with_the_initial_window_of_rfc_3390() {
        assert_eq!(Aimd::new(1_460).window(), 4_380);
        assert_eq!(Aimd::new(500).window(), 2_000);
        assert_eq!(Aimd::new(3_000).window(), 6_000);
    }

    #[test]
    fn slow_start_counts_bytes_and_at_most_two_packets_an_acknowledgement() {
        let mut aimd = Aimd::new(MTU);
        let start = aimd.window();
        ack(&mut aimd, 300);
        assert_eq!(aimd.window(), start + 300);
        ack(&mut aimd, 9 * MTU);
        assert_eq!(aimd.window(), start + 300 + 2 * MTU);
    }

    #[test]
    fn congestion_halves_what_is_outstanding_and_then_one_packet_a_window_is_added() {
        let mut aimd = Aimd::new(MTU);
        aimd.on_congestion(Instant::ZERO, 20 * MTU);
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
        aimd.on_timeout(Instant::ZERO, 8 * MTU);
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
        aimd.on_acked(Instant::ZERO, Acked { bytes: 5_000, rtt: None, window_limited: false });
        assert_eq!(aimd.window(), start);
    }

    #[test]
    fn a_growing_round_trip_ends_slow_start_before_any_loss() {
        let mut aimd = Aimd::new(MTU);
        let mut now = Instant::ZERO + Duration::from_secs(1);
        // Ten samples a round: 80 ms while the queue is empty, then 12 ms more each round.
        for round in 0..10u64 {
            let rtt = Duration::from_millis(80 + 12 * round.saturating_sub(2));
            now += rtt;
            for _ in 0..10 {
                aimd.on_acked(now, Acked { bytes: MTU, rtt: Some(rtt), window_limited: true });
            }
        }
        assert!(!aimd.in_slow_start(), "{aimd:?}");
    }

    #[test]
    fn a_steady_round_trip_keeps_slow_start() {
        let mut aimd = Aimd::new(MTU);
        let rtt = Duration::from_millis(80);
        let mut now = Instant::ZERO;
        for _ in 0..10 {
            now += rtt;
            for _ in 0..10 {
                aimd.on_acked(now, Acked { bytes: MTU, rtt: Some(rtt), window_limited: true });
            }
        }
        assert!(aimd.in_slow_start());
    }
}
