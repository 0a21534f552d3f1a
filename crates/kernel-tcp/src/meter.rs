//! Path state as reported by the kernel, and the limit of unsent data in its queue.

use timeous_cm::DeliveryRate;
use timeous_core::{Duration, Instant, PathState, Rate};

use crate::info::Info;
use crate::others::Others;
use crate::socket::LEAST_LONGEST_TIMEOUT;

/// Drain time of the kernel's unsent queue at the path's rate, unless that is less than one packet: the time within
/// which this thread refills it (docs/design/late-choice-tcp.md). A higher value chooses earlier; with a lower one a
/// fast path idles.
const QUEUE_TIME: Duration = Duration::from_millis(2);
/// Maximum of that queue, in bytes (docs/design/late-choice-tcp.md): if the path stalls, late choice has to overwrite
/// it. Chosen by us: a higher value leaves more to overwrite.
const MOST_QUEUED: u64 = 64 * 1024;
/// Minimum interval between `TCP_INFO` queries. Chosen by us: a higher value costs less time and follows the path
/// later.
const INTERVAL: Duration = Duration::from_millis(1);
/// Weight of the newest sample in the loss average: one in `NEWEST`. Chosen by us: a higher value follows the path
/// later.
const NEWEST: u64 = 8;
/// Initial window in segments (RFC 6928 §2), to which a connection returns after an idle period. A window reduced by losses grows only
/// while it is used (RFC 5681 §4.1; Linux counts acknowledgements of full windows alone).
const INITIAL_WINDOW: u32 = 10;
/// Segments per sample of the loss rate. Chosen by us: a higher value follows the path later; a lower one estimates by
/// few segments.
const SAMPLE: u32 = 16;
/// Maximum delay of a peer's acknowledgement: Linux's minimum (`TCP_DELACK_MIN`), as in our own TCP.
pub(crate) const DELAYED_ACK: Duration = Duration::from_millis(40);

/// Path state derived from the kernel's last report.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    path: PathState,
    info: Option<Info>,
    next: Instant,
    stalled_since: Option<Instant>,
    /// Segments sent and retransmitted at the last loss sample.
    sampled: (u32, u32),
    /// When the last retransmission was noticed.
    repaired: Option<Instant>,
    /// When the last retransmission timeout was noticed.
    timed_out: Option<Instant>,
    /// Bytes acknowledged or SACKed by then, and their delivery rate.
    arrived: u64,
    delivery: DeliveryRate,
    others: Others,
}

impl Meter {
    /// Creates a meter of a connection of whose bytes `acknowledged` have arrived before.
    pub(crate) fn new(acknowledged: u64) -> Self {
        Self { arrived: acknowledged, ..Self::default() }
    }

    /// Returns whether the kernel is to be queried again.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// Updates the path from `TCP_INFO` and the numbers of unacknowledged and unsent bytes.
    pub(crate) fn take(&mut self, now: Instant, info: Info, unacknowledged: u64, unsent: u64) {
        self.next = now + INTERVAL;
        self.deliver(now, &info, unacknowledged);
        self.others.hear(&info, unacknowledged);
        self.repaired = self.repaired(now, &info);
        if info.timeouts() > self.info.map_or(0, |info| info.timeouts()) {
            self.timed_out = Some(now);
        }
        let srtt = info.srtt();
        let window = u64::from(info.window()) * u64::from(info.mss());
        let by_window = srtt.map_or(Rate::from_bps(0), |srtt| Rate::from_bytes_in(window, srtt));
        self.path = PathState {
            // The kernel's rate is too low while the application is the limit, and the window's is too low after a loss.
            rate: by_window.max(info.delivery_rate()),
            srtt,
            rttvar: info.rttvar(),
            min_rtt: info.min_rtt().or(srtt),
            latest_rtt: None,
            window: window.min(match info.peer_window() {
                0 => u64::MAX,
                bytes => bytes.into(),
            }),
            // As in all transports, SACKed and lost data is not in flight.
            outstanding: unacknowledged.saturating_sub(u64::from(info.gone()) * u64::from(info.mss())),
            loss_ppm: self.losses(&info),
            delivered: self.delivered(&info),
            contended: info.window() < INITIAL_WINDOW || self.others.are_there(),
            arrivals: None,
        };
        let closed = info.window_probes() > 0 || info.peer_window() < info.mss();
        self.stalled_since = (closed && unsent > 0).then(|| self.stalled_since.unwrap_or(now));
        self.info = Some(info);
    }

    /// Adds bytes given to the kernel since: later datagrams queue behind them.
    pub(crate) fn gave(&mut self, bytes: usize) {
        self.path.outstanding += bytes as u64;
    }

    /// Updates the delivery rate by newly delivered bytes: after an outage it recovers sooner than the smoothed RTT.
    fn deliver(&mut self, now: Instant, info: &Info, unacknowledged: u64) {
        let each = unacknowledged / u64::from(info.under_way().max(1));
        let arrived = info.acknowledged() + each * u64::from(info.sacked());
        if let (Some(srtt), true) = (info.srtt(), arrived > self.arrived) {
            self.delivery.acked(now, arrived - self.arrived, srtt);
            self.arrived = arrived;
        }
    }

    /// Returns the higher of two delivery rates. The kernel's is too low across an outage, and ours is too low while application-limited.
    fn delivered(&self, info: &Info) -> Option<Rate> {
        let kernel = Some(info.delivery_rate()).filter(|&rate| rate > Rate::ZERO);
        self.delivery.latest().max(kernel)
    }

    /// Returns the smoothed share of retransmitted segments, in parts per million.
    fn losses(&mut self, info: &Info) -> u32 {
        let (sent, again) = (info.data_segments_sent(), info.retransmitted());
        let new = sent.wrapping_sub(self.sampled.0);
        if new < SAMPLE {
            return self.path.loss_ppm;
        }
        let lost = again.wrapping_sub(self.sampled.1);
        self.sampled = (sent, again);
        let newest = u64::from(lost) * 1_000_000 / u64::from(new);
        ((u64::from(self.path.loss_ppm) * (NEWEST - 1) + newest) / NEWEST) as u32
    }

    pub(crate) fn path(&self) -> PathState {
        self.path
    }

    pub(crate) fn info(&self) -> Option<&Info> {
        self.info.as_ref()
    }

    /// Returns when the last retransmission was noticed, if any, given the kernel's current report.
    pub(crate) fn repaired(&self, now: Instant, info: &Info) -> Option<Instant> {
        let before = self.info.map_or(0, |info| info.retransmitted());
        if info.retransmitted() == before { self.repaired } else { Some(now) }
    }

    /// Returns whether data retransmitted at the last timeout would be acknowledged by now. The next timeout takes twice as long.
    pub(crate) fn is_timeout_answered(&self, now: Instant) -> bool {
        let within = self.path.srtt.unwrap_or_default() + (self.path.rttvar * 4).max(DELAYED_ACK);
        self.timed_out.is_none_or(|at| now >= at + within)
    }

    /// Returns the cap of the retransmission timeout: no timeout is shorter than a round trip of twice the usual length.
    pub(crate) fn longest_timeout(&self) -> Duration {
        let usual = self.path.srtt.unwrap_or_default() + self.path.rttvar * 4;
        (usual * 2).max(LEAST_LONGEST_TIMEOUT)
    }

    /// Returns the number of unsent bytes in the kernel below which the next packet is given: 1 (the queue is empty), so that one packet is
    /// queued at most, unless the path is fast.
    pub(crate) fn queue_limit(&self) -> u32 {
        let bytes = self.path.rate.bytes_in(QUEUE_TIME).min(MOST_QUEUED);
        match self.info {
            Some(info) if bytes > u64::from(info.mss()) => bytes as u32,
            _ => 1,
        }
    }

    /// Returns since when data is blocked by the peer's window, which has no room for a segment.
    pub(crate) fn stalled_since(&self) -> Option<Instant> {
        self.stalled_since
    }
}

#[cfg(test)]
mod tests {
    use super::super::info::LEN;
    use super::*;

    fn info(mss: u32, window: u32, rtt: Duration, sent: u32, again: u32) -> Info {
        let mut bytes = [0; LEN];
        let mut put = |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        put(16, mss);
        put(68, rtt.as_micros() as u32);
        put(80, window);
        put(100, again);
        put(148, rtt.as_micros() as u32 / 2);
        put(156, sent);
        Info::new(bytes)
    }

    #[test]
    fn a_slow_path_has_one_packet_in_the_kernel_and_a_fast_one_two_milliseconds() {
        let mut meter = Meter::default();
        assert_eq!(meter.queue_limit(), 1);
        meter.take(Instant::ZERO, info(1_000, 10, Duration::from_millis(100), 0, 0), 0, 0);
        assert_eq!(meter.path().rate, Rate::from_kbps(800));
        assert_eq!(meter.queue_limit(), 1);
        meter.take(Instant::ZERO, info(1_000, 1_000, Duration::from_millis(10), 0, 0), 0, 0);
        assert_eq!(meter.queue_limit(), 64 * 1024);
        meter.take(Instant::ZERO, info(1_000, 100, Duration::from_millis(10), 0, 0), 0, 0);
        assert_eq!(meter.queue_limit(), 20_000);
        assert_eq!(meter.path().min_rtt, Some(Duration::from_millis(5)));
    }

    #[test]
    fn a_peer_without_room_for_a_segment_stalls_what_waits() {
        let mut meter = Meter::default();
        let closed = info(1_000, 10, Duration::from_millis(10), 0, 0);
        let later = Instant::ZERO + Duration::from_secs(1);
        meter.take(Instant::ZERO, closed, 0, 1);
        meter.take(later, closed, 0, 1);
        assert_eq!(meter.stalled_since(), Some(Instant::ZERO));
        meter.take(later, closed, 0, 0);
        assert_eq!(meter.stalled_since(), None, "nothing waits");
    }

    #[test]
    fn what_the_peer_has_beyond_a_gap_and_what_is_lost_is_not_outstanding() {
        let mut bytes = [0; LEN];
        // Ten segments were sent: the peer has four beyond a gap of two, of which one was retransmitted.
        for (at, value) in [(16, 1_000_u32), (24, 10), (28, 4), (32, 2), (36, 1)] {
            bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        let mut meter = Meter::default();
        meter.take(Instant::ZERO, Info::new(bytes), 10_000, 0);
        assert_eq!(meter.path().outstanding, 5_000);
    }

    /// Regression, found by `ldc-rate --real`: a choice that waits for less data in flight sent a whole burst.
    #[test]
    fn what_was_given_since_the_kernel_was_asked_is_outstanding() {
        let mut meter = Meter::default();
        let info = info(1_000, 10, Duration::from_millis(10), 0, 0);
        meter.take(Instant::ZERO, info, 3_000, 0);
        meter.gave(1_000);
        assert_eq!(meter.path().outstanding, 4_000);
        meter.take(Instant::ZERO + INTERVAL, info, 3_500, 500);
        assert_eq!(meter.path().outstanding, 3_500, "it says itself");
    }

    /// Regression, found by `tcp-expired`: after a dropped chain of frames, the next keyframe was late, because losses had reduced the
    /// window.
    #[test]
    fn a_window_that_losses_have_made_small_does_not_come_back_by_silence() {
        let mut meter = Meter::default();
        for (window, contended) in [(10, false), (9, true), (2, true), (40, false)] {
            meter.take(Instant::ZERO, info(1_000, window, Duration::from_millis(10), 0, 0), 0, 0);
            assert_eq!(meter.path().contended, contended, "{window} segments");
        }
    }

    /// Regression, found by `tcp-expired`: after each delay spike keyframes were dropped, since RTT samples stayed high for a second.
    #[test]
    fn after_a_standstill_a_path_is_as_fast_as_it_delivers() {
        let mut meter = Meter::default();
        let look = |acknowledged: u64, sacked: u32| {
            let mut bytes = [0; LEN];
            for (at, value) in [(16, 1_000_u32), (24, 10), (28, sacked), (68, 300_000)] {
                bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
            }
            bytes[120..128].copy_from_slice(&acknowledged.to_ne_bytes());
            bytes[160..168].copy_from_slice(&10_000_u64.to_ne_bytes());
            Info::new(bytes)
        };
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        for n in 0..=5 {
            meter.take(at(10 * n), look(1_000 * n, 0), 5_000, 0);
        }
        assert_eq!(meter.path().delivered, Some(Rate::from_kbps(800)));
        // Ten segments are 5000 bytes: the peer has six of them beyond a gap.
        meter.take(at(60), look(5_000, 6), 5_000, 0);
        assert_eq!(meter.path().delivered, Some(Rate::from_bytes_in(7_000, Duration::from_millis(50))));
        // The source was idle, and a single acknowledgement gives no rate: the kernel keeps the last one.
        meter.take(at(900), look(17_000, 0), 0, 0);
        assert_eq!(meter.path().delivered, Some(Rate::from_kbps(80)));
    }

    #[test]
    fn a_repair_is_seen_when_the_kernel_tells_of_one_more() {
        let mut meter = Meter::default();
        let rtt = Duration::from_millis(10);
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        meter.take(at(0), info(1_000, 10, rtt, 100, 0), 0, 0);
        assert_eq!(meter.repaired(at(1), &info(1_000, 10, rtt, 100, 0)), None);
        let one = info(1_000, 10, rtt, 101, 1);
        assert_eq!(meter.repaired(at(2), &one), Some(at(2)), "it is asked between two looks");
        meter.take(at(3), one, 0, 0);
        meter.take(at(4), one, 0, 0);
        assert_eq!(meter.repaired(at(5), &one), Some(at(3)));
    }

    #[test]
    fn what_left_at_a_timeout_has_a_round_trip_to_be_heard_of() {
        let mut meter = Meter::default();
        let rtt = Duration::from_millis(100);
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        meter.take(at(0), info(1_000, 10, rtt, 100, 0), 0, 0);
        let mut bytes = [0; LEN];
        bytes[2] = 1;
        bytes[68..72].copy_from_slice(&100_000_u32.to_ne_bytes());
        for look in [10, 60] {
            meter.take(at(look), Info::new(bytes), 0, 0);
        }
        assert!(!meter.is_timeout_answered(at(149)) && meter.is_timeout_answered(at(150)));
        bytes[2] = 2;
        meter.take(at(300), Info::new(bytes), 0, 0);
        assert!(!meter.is_timeout_answered(at(439)) && meter.is_timeout_answered(at(440)));
    }

    #[test]
    fn a_timeout_may_take_a_second_or_twice_what_round_trips_take_and_vary() {
        let mut meter = Meter::default();
        assert_eq!(meter.longest_timeout(), Duration::from_secs(1));
        for (rtt, longest) in [(100, 1_000), (2_000, 4_000)] {
            meter.take(Instant::ZERO, info(1_000, 10, Duration::from_millis(rtt), 0, 0), 0, 0);
            assert_eq!(meter.longest_timeout(), Duration::from_millis(longest));
        }
    }

    #[test]
    fn losses_are_what_had_to_leave_again() {
        let mut meter = Meter::default();
        let rtt = Duration::from_millis(10);
        for round in 1..100 {
            meter.take(Instant::ZERO, info(1_000, 10, rtt, round * 100, round * 5), 0, 0);
        }
        assert!(meter.path().loss_ppm.abs_diff(50_000) < 100, "{}", meter.path().loss_ppm);
    }
}
