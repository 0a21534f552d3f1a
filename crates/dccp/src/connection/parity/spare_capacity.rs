//! Estimator of the path's spare capacity beside the stream.

use timeous_core::{AduMeta, Duration, FrameId, Instant, PathState, Rate};

/// Time for which the best delivery rate is remembered, at least; at most twice that. Chosen by us: a higher value
/// counts on capacity that the path may have lost.
const BEST_RATE_LIFETIME: Duration = Duration::from_secs(3);
/// Share of the best delivery rate considered reliable. Chosen by us: a higher value sends more parity, which may delay
/// fresh data.
const RELIABLE_SHARE: f64 = 0.85;
/// Window of the averages, in frames. Chosen by us: a higher value follows the source's rate later.
const AVERAGE_WINDOW: f64 = 16.0;
/// Gap between frames from which it counts as a pause of the source, in multiples of the mean gap. Chosen by us: a
/// higher value takes pauses for a lower rate of the source.
const PAUSE_FACTOR: f64 = 1.5;
/// Consecutive pauses after which the longer gap is the new rate. Chosen by us: a higher value follows a slower source
/// later.
const MAX_PAUSES: u32 = 16;
/// Maximum queue of the path for parity, in frame intervals (docs/decisions/parity-rate-based.md): with one fewer
/// frames were decodable; with a higher value more are late.
const MAX_QUEUE_FRAMES: f64 = 2.0;

/// Rate of the stream, and the best delivery rate of the path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SpareCapacity {
    newest: Option<AduBatch>,
    /// Mean bytes per frame, and mean seconds between frames.
    bytes: f64,
    gap: f64,
    pauses: u32,
    best: [Rate; 2],
    since: Instant,
    /// Whether the rate follows from receiver reports (CCID 3 and 4).
    by_rate: bool,
}

/// ADUs queued together: a frame, or all ADUs of one instant.
#[derive(Clone, Copy, Debug)]
struct AduBatch {
    frame: FrameId,
    at: Instant,
    bytes: f64,
}

impl AduBatch {
    fn has(&self, meta: &AduMeta) -> bool {
        meta.enqueued == self.at || meta.frame != FrameId::NONE && meta.frame == self.frame
    }
}

impl SpareCapacity {
    /// Notes an ADU's first transmission, in `bytes` bytes.
    pub(crate) fn note(&mut self, meta: &AduMeta, bytes: u64) {
        if let Some(newest) = self.newest.as_mut().filter(|newest| newest.has(meta)) {
            newest.bytes += bytes as f64;
            return;
        }
        let next = AduBatch { frame: meta.frame, at: meta.enqueued, bytes: bytes as f64 };
        let Some(last) = self.newest.replace(next) else { return };
        let gap = meta.enqueued.saturating_since(last.at).as_secs_f64();
        self.bytes += (last.bytes - self.bytes) / if self.bytes == 0.0 { 1.0 } else { AVERAGE_WINDOW };
        self.pauses += 1;
        if self.gap == 0.0 || gap <= self.gap * PAUSE_FACTOR || self.pauses > MAX_PAUSES {
            self.gap +=
                (gap - self.gap) / if self.gap == 0.0 || gap < self.gap / PAUSE_FACTOR { 1.0 } else { AVERAGE_WINDOW };
            self.pauses = 0;
        }
    }

    /// Notes the path's delivery rate, and whether its rate follows from receiver reports.
    pub(super) fn look(&mut self, now: Instant, path: &PathState, by_rate: bool) {
        self.by_rate = by_rate;
        if now.saturating_since(self.since) >= BEST_RATE_LIFETIME {
            (self.best, self.since) = ([Rate::ZERO, self.best[0]], now);
        }
        if let Some(rate) = path.delivered {
            self.best[0] = self.best[0].max(rate);
        }
    }

    /// Best recent delivery rate; the allowed rate if it is unknown.
    fn best(&self, path: &PathState) -> Rate {
        let best = self.best[0].max(self.best[1]);
        if best == Rate::ZERO { path.rate } else { best }
    }

    /// Estimated one-way delay of a packet sent now. Data in flight beyond one minimum RTT wait in the queue, which the
    /// smoothed RTT shows only later.
    pub(super) fn way(&self, path: &PathState) -> Duration {
        let Some(least) = path.min_rtt else { return path.one_way() };
        let queued = self.best(path).time_for(path.outstanding).saturating_sub(least);
        path.one_way().max(least / 2 + queued)
    }

    /// Whether there may be spare capacity. A rate by reports may be twice the receive rate of a stream with less to
    /// send (RFC 5348 §4.3), whatever the path carries: the excess would queue. So the queue must be below two frame
    /// intervals, one of which is the stream's own. A congestion window limits itself.
    pub(super) fn is_any(&self, path: &PathState) -> bool {
        let waits = path.latest_rtt.or(path.srtt).zip(path.min_rtt).map(|(now, least)| now.saturating_sub(least));
        !self.by_rate || waits.is_none_or(|waits| waits.as_secs_f64() <= self.gap * MAX_QUEUE_FRAMES)
    }

    /// Spare capacity in parity packets per data packet; zero if other flows fill the queue. The stream's rate is
    /// measured as offered, not as sent: a dropped group would free capacity that the next group needs.
    pub(super) fn share(&self, path: &PathState) -> f64 {
        if path.contended || !self.is_any(path) || self.bytes == 0.0 || self.gap == 0.0 {
            return 0.0;
        }
        let rate = path.rate.min(self.best(path)).as_bps() as f64 * RELIABLE_SHARE / 8.0;
        (rate * self.gap / self.bytes - 1.0).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// A path of this rate that delivered 1 Mbit/s at its best, of which 850 kbit/s are relied on.
    fn path(kbps: u64) -> PathState {
        let rate = Rate::from_kbps(kbps);
        let delivered = Some(Rate::from_kbps(1_000));
        PathState { rate, delivered, srtt: Some(LEAST), min_rtt: Some(LEAST), ..PathState::default() }
    }

    /// Frames each 40 ms, of two packets of 1000 bytes each: 400 kbit/s.
    fn streaming(numbers: impl Iterator<Item = u32>) -> SpareCapacity {
        let mut spare = SpareCapacity::default();
        for n in numbers {
            let meta = AduMeta { frame: FrameId(n), enqueued: at(40 * u64::from(n)), ..AduMeta::default() };
            spare.note(&meta, 1_000);
            spare.note(&meta, 1_000);
        }
        spare.look(at(0), &path(2_000), false);
        spare
    }

    #[test]
    fn what_is_spare_is_what_the_stream_leaves_of_the_most_that_was_delivered() {
        let spare = streaming(1..100);
        assert!((spare.share(&path(2_000)) - 1.125).abs() < 0.01, "{}", spare.share(&path(2_000)));
        assert!(
            (spare.share(&path(500)) - 0.0625).abs() < 0.01,
            "what may be sent is less: {}",
            spare.share(&path(500))
        );
        assert!(spare.share(&path(400)) == 0.0);
        assert!(spare.share(&PathState { contended: true, ..path(2_000) }) == 0.0);
    }

    /// Found by `timeous-lab bloat`: each group that was given up made room for parity, and that for the next one to be.
    #[test]
    fn frames_that_do_not_leave_are_no_room() {
        let spare = streaming((1..200).filter(|n| n % 30 < 5));
        assert!((spare.share(&path(2_000)) - 1.125).abs() < 0.01, "{}", spare.share(&path(2_000)));
    }

    /// Found by `timeous-demo adapt` over CCID 3: parity filled the path's queue, and what was fresh came late.
    #[test]
    fn where_a_receivers_reports_make_the_rate_a_queue_that_stands_leaves_no_room() {
        let queued = |millis| {
            let latest_rtt = Some(LEAST + Duration::from_millis(millis));
            PathState { latest_rtt, delivered: None, ..path(2_000) }
        };
        let mut spare = streaming(1..100);
        assert!(spare.share(&queued(900)) > 1.0, "a window says what the path carries");
        spare.look(at(0), &queued(79), true);
        assert!(spare.is_any(&queued(79)) && spare.share(&queued(79)) > 1.0, "frames come each 40 ms");
        assert!(!spare.is_any(&queued(81)) && spare.share(&queued(81)) == 0.0);
    }

    #[test]
    fn what_was_delivered_long_ago_is_forgotten() {
        let mut spare = streaming(1..100);
        let slower = PathState { delivered: Some(Rate::from_kbps(500)), ..path(2_000) };
        spare.look(at(3_000), &slower, false);
        assert!(spare.share(&slower) > 1.0);
        spare.look(at(6_000), &slower, false);
        assert!(spare.share(&slower) < 0.1, "{}", spare.share(&slower));
    }

    #[test]
    fn a_packet_waits_for_what_is_under_way_beyond_a_round_trip() {
        let spare = streaming(1..100);
        let way = |outstanding| spare.way(&PathState { outstanding, ..path(2_000) });
        assert_eq!([way(0), way(12_500), way(15_000)], [LEAST / 2, LEAST / 2, LEAST / 2 + Duration::from_millis(20)]);
    }
}
