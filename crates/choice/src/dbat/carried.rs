//! Delivered and offered rate of a stream: acknowledged bytes compared to bytes handed over.
//!
//! Window over RTT is only an upper bound of the path's rate: a stream that does not fill its window has not tested it.
//! Data sent above the path's rate first fills the path's queue, which no send buffer shows.

use std::collections::VecDeque;

use timeous_core::{Duration, Instant, PathState, Rate};

/// Minimum measurement span, in time. Chosen by us: a higher value finds a slower path later; a lower one takes jitter
/// for missing data.
const MIN_SPAN: Duration = Duration::from_millis(240);
/// Minimum measurement span in round trips: some receivers report only once per round trip (RFC 4342 §6). A higher
/// value finds a slower path later.
const MIN_ROUNDS: u64 = 2;
/// Minimum number of packets in a span before the stream is said to fall behind. Chosen by us: a higher value finds a
/// slower path later.
const MIN_PACKETS: u64 = 32;
/// Number of missing packets that is insignificant, as acknowledgements are only noticed at arrivals. Chosen by us: a
/// higher value ignores small shortfalls at low rates.
const INSIGNIFICANT: f64 = 2.0;
/// Share of the offered bytes that may be missing due to measurement errors. Chosen by us: a higher value finds a
/// slower path later.
const MAX_ERROR: f64 = 1.0 / 16.0;
/// Share of the offered bytes whose absence counts as falling far behind, even if they were lost: a quarter
/// (docs/design/encoder-feedback.md). Chosen by us: a lower value takes random losses for a slower path.
const FAR_BEHIND: f64 = 1.0 / 4.0;
/// Minimum spacing of measurement points. Chosen by us: it bounds memory at high rates; a higher value measures more
/// coarsely.
const SAMPLE_SPACING: Duration = Duration::from_millis(10);

/// Measurement point at a packet's arrival: packets and bytes handed over so far, and bytes delivered or gone so far.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: Instant,
    packets: u64,
    handed: u64,
    through: u64,
    gone: u64,
    /// Time of the last report about packets.
    heard: Instant,
    /// Whether nothing was in flight.
    idle: bool,
}

/// Index of the first and the last point of a span.
type Span = (usize, usize);

/// Estimator of offered and delivered rate.
#[derive(Clone, Debug, Default)]
pub(super) struct Carried {
    packets: u64,
    handed: u64,
    through: u64,
    gone: u64,
    points: VecDeque<Point>,
    /// Time from hand-over to acknowledgement, and its deviation.
    delay: Duration,
    deviation: Duration,
}

impl Carried {
    /// Counts bytes handed over.
    pub(super) fn arrived(&mut self, len: u64) {
        self.handed = self.handed.saturating_add(len);
        self.packets += 1;
    }

    /// Counts acknowledged bytes.
    pub(super) fn acked(&mut self, len: u64) {
        self.through = self.through.saturating_add(len);
    }

    /// Counts bytes lost or dropped.
    pub(super) fn gone(&mut self, len: u64) {
        self.gone = self.gone.saturating_add(len);
    }

    /// Adds a point; to be called when packets have just arrived, since the bytes in flight vary within a frame interval.
    pub(super) fn look(&mut self, now: Instant, path: &PathState) {
        if self.through == 0 || self.points.back().is_some_and(|last| now.saturating_since(last.at) < SAMPLE_SPACING) {
            return;
        }
        let Self { packets, handed, through, gone, .. } = *self;
        let heard =
            self.points.back().filter(|last| last.through + last.gone == through + gone).map_or(now, |last| last.heard);
        self.points.push_back(Point { at: now, packets, handed, through, gone, heard, idle: path.outstanding == 0 });
        (self.delay, self.deviation) = (path.srtt.unwrap_or_default(), path.rttvar);
        // Remove points older than the hand-over of anything that arrived in the last span.
        let first = self.latest(MIN_PACKETS).and_then(|now| self.before(now)).map_or(0, |(first, _)| first);
        self.points.drain(..first);
    }

    /// Whether deliveries are reported at all.
    pub(super) fn is_told(&self) -> bool {
        self.through > 0
    }

    /// Delivered rate of the last span; `None` in the first one, and without reports.
    pub(super) fn rate(&self) -> Option<Rate> {
        self.latest(0).and_then(|span| self.told(span, |point| point.through))
    }

    /// The same if data was in flight all the time: the path could then not carry more.
    pub(super) fn most(&self) -> Option<Rate> {
        self.rate().filter(|_| self.latest(0).is_some_and(|span| self.is_busy(span)))
    }

    /// Whether everything handed over is delivered, compared over the same span: the latest bytes may not have shown yet.
    pub(super) fn keeps_up(&self) -> bool {
        let missing = self.latest(0).and_then(|now| self.missing(now, now));
        missing.is_none_or(|missing| missing.share <= MAX_ERROR)
    }

    /// Whether less was delivered than handed over one delivery time before: the rest fills queues, if not our own then the path's.
    pub(super) fn falls_behind(&self) -> bool {
        self.misses(MAX_ERROR)
    }

    /// The same for more than a quarter.
    pub(super) fn falls_far_behind(&self) -> bool {
        self.misses(FAR_BEHIND)
    }

    fn misses(&self, share: f64) -> bool {
        let missing = self.latest(MIN_PACKETS).and_then(|now| self.missing(self.before(now)?, now));
        missing.is_some_and(|missing| missing.share > share && missing.packets > INSIGNIFICANT)
    }

    /// The latest span with at least this many packets handed over.
    fn latest(&self, packets: u64) -> Option<Span> {
        self.span_to(self.points.len().checked_sub(1)?, packets)
    }

    /// The span in which the data delivered in the given span was handed over.
    fn before(&self, (first, last): Span) -> Option<Span> {
        let takes = self.delay + self.deviation;
        let older = |point: &Point| {
            let handed_at = self.heard(point).saturating_sub(takes);
            self.points.partition_point(|point| point.at <= handed_at).checked_sub(1)
        };
        older(&self.points[first]).zip(older(&self.points[last])).filter(|(first, last)| first < last)
    }

    fn span_to(&self, last: usize, packets: u64) -> Option<Span> {
        let span = MIN_SPAN.max(self.delay * MIN_ROUNDS);
        let end = &self.points[last];
        let lasted = |first: &Point| end.at.saturating_since(first.at);
        let is_whole = |first: &Point| lasted(first) >= span && first.packets + packets <= end.packets;
        let first = self.points.partition_point(is_whole).saturating_sub(1);
        (lasted(&self.points[first]) >= MIN_SPAN).then_some((first, last))
    }

    /// Whether data was in flight nearly all the time.
    fn is_busy(&self, (first, last): Span) -> bool {
        let idle = self.points.range(first..=last).filter(|point| point.idle).count();
        idle <= (last + 1 - first) / 4
    }

    fn handed(&self, (first, last): Span) -> Rate {
        let (first, last) = (&self.points[first], &self.points[last]);
        Rate::from_bytes_in(last.handed - first.handed, last.at.saturating_since(first.at))
    }

    /// Time of the last report before the point. Reports come once per round trip at least, and are noticed at arrivals.
    fn heard(&self, point: &Point) -> Instant {
        let is_fresh = point.at.saturating_since(point.heard) <= self.delay * MIN_ROUNDS;
        if is_fresh { point.heard } else { point.at }
    }

    /// Rate between two reports: one that comes once per round trip covers all of it.
    fn told(&self, (first, last): Span, bytes: impl Fn(&Point) -> u64) -> Option<Rate> {
        let (first, last) = (&self.points[first], &self.points[last]);
        let lasted = self.heard(last).saturating_since(self.heard(first));
        (!lasted.is_zero()).then(|| Rate::from_bytes_in(bytes(last) - bytes(first), lasted))
    }

    /// Bytes that were `handed` over and have not arrived, so that they must be queued. Lost bytes do not count unless
    /// they are many: flows that share a full queue always lose some, which is up to congestion control.
    fn missing(&self, handed: Span, came: Span) -> Option<Missing> {
        let came = Some(came).filter(|span| self.is_busy(*span))?;
        let through = self.told(came, |point| point.through)?.as_bps() as f64;
        let settled = self.told(came, |point| point.through + point.gone)?.as_bps() as f64;
        let packets = (self.points[handed.1].packets - self.points[handed.0].packets) as f64;
        let handed = self.handed(handed).as_bps() as f64;
        let missing = handed - if through < handed * (1.0 - FAR_BEHIND) { through } else { settled };
        let share = missing / handed;
        Some(Missing { share, packets: share * packets })
    }
}

/// Undelivered part of what was handed over.
#[derive(Clone, Copy, Debug)]
struct Missing {
    /// As a share of what was handed over.
    share: f64,
    packets: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(carried: &mut Carried, millis: u64, outstanding: u64) {
        let path = PathState { outstanding, srtt: Some(Duration::from_millis(60)), ..PathState::default() };
        carried.look(Instant::ZERO + Duration::from_millis(millis), &path);
    }

    /// Offers five packets of 1 000 bytes every 40 ms (1 Mbit/s), of which `acked` bytes are acknowledged.
    fn after(frames: u64, acked: u64, outstanding: u64) -> Carried {
        let mut carried = Carried::default();
        for frame in 0..frames {
            (0..5).for_each(|_| carried.arrived(1_000));
            carried.acked(acked);
            look(&mut carried, 40 * frame, outstanding);
        }
        carried
    }

    #[test]
    fn what_came_through_is_known_after_a_span() {
        assert_eq!(after(6, 5_000, 1).rate(), None);
        assert_eq!(after(7, 5_000, 1).rate(), Some(Rate::from_kbps(1_000)));
        assert_eq!(after(70, 0, 1).rate(), None, "nobody tells");
    }

    #[test]
    fn who_hands_over_more_than_comes_through_falls_behind() {
        assert!(!after(20, 4_800, 1).falls_behind());
        assert!(after(20, 4_600, 1).falls_behind());
        assert_eq!(after(20, 4_600, 1).most(), Some(Rate::from_kbps(920)));
    }

    /// 2 500 bytes every 40 ms, twice as much from the 20th frame on; all of it is acknowledged 200 ms later.
    #[test]
    fn what_is_handed_over_is_not_behind_before_it_can_have_come() {
        let mut carried = Carried::default();
        let len = |frame: u64| if frame < 20 { 2_500 } else { 5_000 };
        for frame in 0..60 {
            carried.arrived(len(frame));
            if let Some(frame) = frame.checked_sub(5) {
                carried.acked(len(frame));
            }
            let path = PathState { outstanding: 1, srtt: Some(Duration::from_millis(200)), ..PathState::default() };
            carried.look(Instant::ZERO + Duration::from_millis(40) * frame, &path);
            assert!(!carried.falls_behind(), "frame {frame}");
            assert!(carried.keeps_up() || (20..20 + 5 + 10).contains(&frame), "frame {frame}");
        }
    }

    /// Offers a packet of 1 000 bytes every 25 ms with an RTT of 200 ms; of 16 packets `lost` are lost. Reports come
    /// once per round trip.
    fn once_a_round_trip(lost: u64) -> Carried {
        let mut carried = Carried::default();
        for n in 0..200 {
            carried.arrived(1_000);
            if n % 8 == 7 {
                let gone = lost / 2 + (lost % 2) * (n / 8 % 2);
                carried.gone(1_000 * gone);
                carried.acked(1_000 * (8 - gone));
            }
            let path = PathState { outstanding: 1, srtt: Some(Duration::from_millis(200)), ..PathState::default() };
            carried.look(Instant::ZERO + Duration::from_millis(25) * n, &path);
            assert_eq!(carried.falls_behind() && n > 100, lost > 4 && n > 100, "{lost} of 16, packet {n}");
        }
        carried
    }

    #[test]
    fn a_few_that_are_lost_wait_nowhere() {
        assert_eq!(once_a_round_trip(0).rate(), Some(Rate::from_kbps(320)));
        assert!(once_a_round_trip(2).keeps_up());
        once_a_round_trip(5);
    }

    #[test]
    fn a_path_on_which_nothing_was_could_have_taken_more() {
        let idle = after(20, 4_600, 0);
        assert_eq!((idle.rate(), idle.most()), (Some(Rate::from_kbps(920)), None));
        assert!(!idle.falls_behind());
    }
}
