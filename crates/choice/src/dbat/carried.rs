//! What a path took of a stream of late: what was acknowledged, beside what was handed over.
//!
//! A window over a round trip is what a path might carry at most. While a stream does not fill its window nobody has tried
//! that, and what is sent beyond the path's rate goes into the path's own queue first, where no send buffer tells of it.

use std::collections::VecDeque;

use timeous_core::{Duration, Instant, PathState, Rate};

/// It is measured over so long at least,
const LEAST_SPAN: Duration = Duration::from_millis(240);
/// and over so many round trips: some receivers tell once in one of them.
const ROUNDS: u64 = 2;
/// Before it is said to fall behind, over so many packets at least,
const PACKETS: u64 = 32;
/// of which so many more or less are no sign: what has come is noticed when something arrives.
const FEW: f64 = 2.0;
/// What may be missing of what was handed over, since both are measured.
const LITTLE: f64 = 1.0 / 16.0;
/// So much is missed, lost or not.
const MUCH: f64 = 1.0 / 4.0;
/// Points are so far apart at least: what is kept does not grow with the rate.
const APART: Duration = Duration::from_millis(10);

/// What was known when a packet arrived: packets and bytes handed over so far, and bytes of them that had come through or were
/// gone.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: Instant,
    packets: u64,
    handed: u64,
    through: u64,
    gone: u64,
    /// When some were heard of last.
    heard: Instant,
    /// Whether nothing was on its way.
    idle: bool,
}

/// The first and the last of some points.
type Span = (usize, usize);

/// Measures what is handed over, and what a path takes of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Carried {
    packets: u64,
    handed: u64,
    through: u64,
    gone: u64,
    points: VecDeque<Point>,
    /// How long what is handed over takes to be acknowledged.
    delay: Duration,
    deviation: Duration,
}

impl Carried {
    /// `len` bytes were handed over.
    pub(super) fn arrived(&mut self, len: u64) {
        self.handed = self.handed.saturating_add(len);
        self.packets += 1;
    }

    /// `len` bytes of them were acknowledged.
    pub(super) fn acked(&mut self, len: u64) {
        self.through = self.through.saturating_add(len);
    }

    /// `len` bytes of them were lost or given up.
    pub(super) fn gone(&mut self, len: u64) {
        self.gone = self.gone.saturating_add(len);
    }

    /// Packets have just arrived. Always at this moment: between two of its frames a stream has more or less on its way.
    pub(super) fn look(&mut self, now: Instant, path: &PathState) {
        if self.through == 0 || self.points.back().is_some_and(|last| now.saturating_since(last.at) < APART) {
            return;
        }
        let Self { packets, handed, through, gone, .. } = *self;
        let heard =
            self.points.back().filter(|last| last.through + last.gone == through + gone).map_or(now, |last| last.heard);
        self.points.push_back(Point { at: now, packets, handed, through, gone, heard, idle: path.outstanding == 0 });
        (self.delay, self.deviation) = (path.srtt.unwrap_or_default(), path.rttvar);
        // What is older than what can have come in the last span goes.
        let first = self.latest(PACKETS).and_then(|now| self.before(now)).map_or(0, |(first, _)| first);
        self.points.drain(..first);
    }

    /// Whether anybody tells what comes through.
    pub(super) fn is_told(&self) -> bool {
        self.through > 0
    }

    /// What came through in the last span; `None` in the first one, and where nobody tells.
    pub(super) fn rate(&self) -> Option<Rate> {
        self.latest(0).and_then(|span| self.told(span, |point| point.through))
    }

    /// The same where something was on its way all the time: then the path could not take more.
    pub(super) fn most(&self) -> Option<Rate> {
        self.rate().filter(|_| self.latest(0).is_some_and(|span| self.is_busy(span)))
    }

    /// Whether all that is handed over comes through, by what is handed over now: what was begun a moment ago has not shown.
    pub(super) fn keeps_up(&self) -> bool {
        let missing = self.latest(0).and_then(|now| self.missing(now, now));
        missing.is_none_or(|missing| missing.share <= LITTLE)
    }

    /// Whether less came through than was handed over the time before that it takes: the rest fills queues, if none of our own
    /// then the path's.
    pub(super) fn falls_behind(&self) -> bool {
        self.misses(LITTLE)
    }

    /// The same of a quarter.
    pub(super) fn falls_far_behind(&self) -> bool {
        self.misses(MUCH)
    }

    fn misses(&self, share: f64) -> bool {
        let missing = self.latest(PACKETS).and_then(|now| self.missing(self.before(now)?, now));
        missing.is_some_and(|missing| missing.share > share && missing.packets > FEW)
    }

    /// The last span in which so many packets were handed over.
    fn latest(&self, packets: u64) -> Option<Span> {
        self.span_to(self.points.len().checked_sub(1)?, packets)
    }

    /// The one in which what came in that was handed over.
    fn before(&self, (first, last): Span) -> Option<Span> {
        let takes = self.delay + self.deviation;
        let older = |point: &Point| {
            let handed_at = self.heard(point).saturating_sub(takes);
            self.points.partition_point(|point| point.at <= handed_at).checked_sub(1)
        };
        older(&self.points[first]).zip(older(&self.points[last])).filter(|(first, last)| first < last)
    }

    fn span_to(&self, last: usize, packets: u64) -> Option<Span> {
        let span = LEAST_SPAN.max(self.delay * ROUNDS);
        let end = &self.points[last];
        let lasted = |first: &Point| end.at.saturating_since(first.at);
        let is_whole = |first: &Point| lasted(first) >= span && first.packets + packets <= end.packets;
        let first = self.points.partition_point(is_whole).saturating_sub(1);
        (lasted(&self.points[first]) >= LEAST_SPAN).then_some((first, last))
    }

    /// Whether something was on its way nearly all the time.
    fn is_busy(&self, (first, last): Span) -> bool {
        let idle = self.points.range(first..=last).filter(|point| point.idle).count();
        idle <= (last + 1 - first) / 4
    }

    fn handed(&self, (first, last): Span) -> Rate {
        let (first, last) = (&self.points[first], &self.points[last]);
        Rate::from_bytes_in(last.handed - first.handed, last.at.saturating_since(first.at))
    }

    /// When news came by that time. The next may take a round trip, and are noticed when something arrives.
    fn heard(&self, point: &Point) -> Instant {
        let is_fresh = point.at.saturating_since(point.heard) <= self.delay * ROUNDS;
        if is_fresh { point.heard } else { point.at }
    }

    /// From news to news: one that comes once in a round trip tells of all of that.
    fn told(&self, (first, last): Span, bytes: impl Fn(&Point) -> u64) -> Option<Rate> {
        let (first, last) = (&self.points[first], &self.points[last]);
        let lasted = self.heard(last).saturating_since(self.heard(first));
        (!lasted.is_zero()).then(|| Rate::from_bytes_in(bytes(last) - bytes(first), lasted))
    }

    /// How much less came than was `handed` over, and so waits: what is lost does not, unless that is much. Where flows share a
    /// full queue a few are always lost, and congestion control sees to that.
    fn missing(&self, handed: Span, came: Span) -> Option<Missing> {
        let came = Some(came).filter(|span| self.is_busy(*span))?;
        let through = self.told(came, |point| point.through)?.as_bps() as f64;
        let settled = self.told(came, |point| point.through + point.gone)?.as_bps() as f64;
        let packets = (self.points[handed.1].packets - self.points[handed.0].packets) as f64;
        let handed = self.handed(handed).as_bps() as f64;
        let missing = handed - if through < handed * (1.0 - MUCH) { through } else { settled };
        let share = missing / handed;
        Some(Missing { share, packets: share * packets })
    }
}

/// What was handed over and has not come.
#[derive(Clone, Copy, Debug)]
struct Missing {
    /// Of what was handed over.
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

    /// Five packets of 1 000 bytes are handed over every 40 ms, 1 Mbit/s, and `acked` bytes come through.
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

    /// 2 500 bytes every 40 ms, from the 20th on twice as much; all of it comes through 200 ms later.
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

    /// A packet of 1 000 bytes every 25 ms, which takes 200 ms; of 16 packets so many are lost. News come once in a round trip.
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
