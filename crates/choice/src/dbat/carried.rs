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
/// Points are so far apart at least: what is kept does not grow with the rate.
const APART: Duration = Duration::from_millis(10);

/// What was known when a packet arrived: bytes handed over so far, and those of them that had come through.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: Instant,
    handed: u64,
    through: u64,
    /// Whether nothing was on its way.
    idle: bool,
}

/// Measures what is handed over, and what a path takes of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Carried {
    handed: u64,
    through: u64,
    points: VecDeque<Point>,
}

impl Carried {
    /// `len` bytes were handed over.
    pub(super) fn arrived(&mut self, len: u64) {
        self.handed = self.handed.saturating_add(len);
    }

    /// `len` bytes of them were acknowledged.
    pub(super) fn acked(&mut self, len: u64) {
        self.through = self.through.saturating_add(len);
    }

    /// Packets have just arrived. Always at this moment: between two of its frames a stream has more or less on its way.
    pub(super) fn look(&mut self, now: Instant, path: &PathState) {
        if self.through == 0 || self.points.back().is_some_and(|last| now.saturating_since(last.at) < APART) {
            return;
        }
        let idle = path.outstanding == 0;
        self.points.push_back(Point { at: now, handed: self.handed, through: self.through, idle });
        // One that is older than the span stays, so that there is always a whole span to look at.
        let span = path.srtt.map_or(LEAST_SPAN, |srtt| LEAST_SPAN.max(srtt * ROUNDS));
        while self.points.get(1).is_some_and(|second| now.saturating_since(second.at) >= span) {
            self.points.pop_front();
        }
    }

    /// Whether anybody tells what comes through.
    pub(super) fn is_told(&self) -> bool {
        self.through > 0
    }

    /// What came through in the last span; `None` in the first one, and where nobody tells.
    pub(super) fn rate(&self) -> Option<Rate> {
        self.over(|point| point.through)
    }

    /// The same where something was on its way all the time: then the path could not take more.
    pub(super) fn most(&self) -> Option<Rate> {
        let idle = self.points.iter().filter(|point| point.idle).count();
        self.rate().filter(|_| idle <= self.points.len() / 4)
    }

    /// Whether less came through than was handed over: the rest fills queues, if none of our own then the path's.
    pub(super) fn falls_behind(&self) -> bool {
        let handed = self.over(|point| point.handed);
        handed.zip(self.most()).is_some_and(|(handed, came)| came.as_bps() < handed.as_bps() / 16 * 15)
    }

    fn over(&self, bytes: impl Fn(&Point) -> u64) -> Option<Rate> {
        let (first, last) = self.points.front().zip(self.points.back())?;
        let lasted = last.at.saturating_since(first.at);
        (lasted >= LEAST_SPAN).then(|| Rate::from_bytes_in(bytes(last) - bytes(first), lasted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(carried: &mut Carried, millis: u64, outstanding: u64) {
        let path = PathState { outstanding, srtt: Some(Duration::from_millis(60)), ..PathState::default() };
        carried.look(Instant::ZERO + Duration::from_millis(millis), &path);
    }

    /// 5 000 bytes are handed over every 40 ms, 1 Mbit/s, and `acked` bytes come through.
    fn after(frames: u64, acked: u64, outstanding: u64) -> Carried {
        let mut carried = Carried::default();
        for frame in 0..frames {
            carried.arrived(5_000);
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

    #[test]
    fn a_path_on_which_nothing_was_could_have_taken_more() {
        let idle = after(20, 4_600, 0);
        assert_eq!((idle.rate(), idle.most()), (Some(Rate::from_kbps(920)), None));
        assert!(!idle.falls_behind());
    }
}
