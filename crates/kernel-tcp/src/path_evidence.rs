//! Whether the path passes a retransmission whose bytes differ from the original. Some middleboxes swallow such segments (Honda et al.;
//! McQuistin §4.2). A changed record that does not arrive is restored; if that helps, changes pause for a while, and in the end stop.

use timeous_core::{Duration, Instant};

/// Consecutive timeouts before a changed record that the peer waits for is restored: if later data was SACKed, and
/// otherwise (or once a changed record has arrived), when the path may be down (docs/decisions/tcp-path-check.md).
/// Chosen by us: each timeout doubles, and delays all data behind.
const TIMEOUTS: (u8, u8) = (1, 4);
/// Replaces the first of `TIMEOUTS` under reordering, where the arrival of a changed record is rarely certain. Chosen
/// by us: a higher value delays all data behind for longer.
const TIMEOUTS_REORDERED: u8 = 2;
/// Pause of changes after the first record that arrived only when restored; doubled after the second. Chosen by us: a
/// higher value sends more stale data after a wrong suspicion.
const PAUSE: Duration = Duration::from_secs(2);
/// Records that arrived only when restored, without an arrival of a changed one between, before changes stop
/// (docs/decisions/tcp-path-check.md). A lower value gives up more paths that bear changes.
const MOST_REFUSALS: u32 = 3;

/// History of a record's bytes after transmission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Version {
    /// Unchanged.
    #[default]
    First,
    /// Overwritten, at `timeouts` consecutive timeouts. `telling_from`, if the peer waited for the record: what arrives from this instant
    /// on is not the first version.
    Changed { first: Vec<u8>, telling_from: Option<Instant>, timeouts: u8 },
    /// Restored. `awaited`, if the peer waited for the record: the count of retransmitted segments at that time; until it grows, an arrival
    /// is not that of the restored version.
    Restored { awaited: Option<u32> },
}

/// Records delivered only in front part, among `AMONG`, that mark the path as splitting segments: combined with another
/// version, such a record would be corrupt. Chosen by us: a higher value notices it later.
const MOST_CUTS: u32 = 3;
/// Records among which `MOST_CUTS` are counted. Chosen by us: a higher value takes rarer splits for the path's rule.
const AMONG: u32 = 128;

/// Evidence about the path.
#[derive(Debug, Default)]
pub(crate) struct PathEvidence {
    refusals: u32,
    /// Records received in front part only, the start of the last one, and arrivals since the count was last reduced.
    cuts: u32,
    last_cut: Option<u64>,
    arrived: u32,
    /// Latest evidence: a changed record arrived.
    borne: bool,
    paused_until: Instant,
}

impl PathEvidence {
    /// Returns whether transmitted data may be changed now.
    pub(crate) fn allows(&self, now: Instant) -> bool {
        !self.is_refused() && now >= self.paused_until
    }

    /// Returns whether the latest evidence is that the path passes changed data.
    pub(crate) fn is_borne(&self) -> bool {
        self.borne
    }

    /// Returns whether a changed record that the peer waits for has to be restored, after `timeouts` in a row and with `sacked` segments
    /// received behind it.
    pub(crate) fn is_stuck(&self, timeouts: u8, sacked: u32, is_reordered: bool) -> bool {
        timeouts
            >= match (sacked > 0 && !self.borne, is_reordered) {
                (false, _) => TIMEOUTS.1,
                (true, false) => TIMEOUTS.0,
                (true, true) => TIMEOUTS_REORDERED,
            }
    }

    /// Returns whether the path was found not to pass changed data.
    pub(crate) fn is_refused(&self) -> bool {
        self.refusals >= MOST_REFUSALS || self.cuts >= MOST_CUTS
    }

    /// Notes that the peer has only the front of the record at `start`, which left as one segment.
    pub(crate) fn is_cut(&mut self, start: u64) {
        if self.last_cut.replace(start) != Some(start) {
            self.cuts += 1;
        }
    }

    /// Learns from a record's arrival, when `retransmitted` segments have been retransmitted in total.
    pub(crate) fn learn(&mut self, now: Instant, version: &Version, retransmitted: u32) {
        self.arrived += 1;
        if self.arrived >= AMONG && self.cuts < MOST_CUTS {
            // A nearly closed window splits a segment now and then.
            (self.arrived, self.cuts) = (0, self.cuts.saturating_sub(1));
        }
        match version {
            Version::Changed { telling_from: Some(from), .. } if now >= *from && !self.is_refused() => {
                (self.refusals, self.borne) = (0, true);
            }
            Version::Restored { awaited: Some(before) } if now >= self.paused_until && *before != retransmitted => {
                self.refusals += 1;
                self.borne = false;
                self.paused_until = now + PAUSE * u64::from(self.refusals);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn changed(telling_from: Option<Instant>) -> Version {
        Version::Changed { first: Vec::new(), telling_from, timeouts: 0 }
    }

    /// Arrival of a restored record that the peer waited for, and that was retransmitted once since it was restored.
    fn learn_restored(bearing: &mut PathEvidence, now: Instant) {
        bearing.learn(now, &Version::Restored { awaited: Some(7) }, 8);
    }

    #[test]
    fn a_path_that_is_cut_is_told_from_one_that_swallows() {
        let bearing = PathEvidence::default();
        assert!(bearing.is_stuck(1, 1, false) && !bearing.is_stuck(0, 1, false));
        assert!(bearing.is_stuck(2, 1, true) && !bearing.is_stuck(1, 1, true));
        assert!(bearing.is_stuck(4, 0, false) && !bearing.is_stuck(3, 0, false));
    }

    /// Regression, found by `timeous-peer-trials` on a lossy link: two lost retransmissions in a row are not a middlebox.
    #[test]
    fn a_path_that_bore_a_change_is_not_soon_taken_for_one_that_swallows() {
        let mut bearing = PathEvidence::default();
        bearing.learn(at(10), &changed(Some(at(9))), 8);
        assert!(!bearing.is_stuck(3, 1, false) && bearing.is_stuck(4, 1, true));
        learn_restored(&mut bearing, at(20));
        assert!(bearing.is_stuck(1, 1, false), "it may have become another path");
    }

    #[test]
    fn three_records_that_came_only_as_they_were_end_all_changes() {
        let mut bearing = PathEvidence::default();
        assert!(bearing.allows(at(0)));
        learn_restored(&mut bearing, at(10));
        assert!(!bearing.allows(at(11)) && bearing.allows(at(12)));
        learn_restored(&mut bearing, at(11));
        assert!(bearing.allows(at(12)), "those of one pause are one");
        learn_restored(&mut bearing, at(20));
        assert!(!bearing.allows(at(23)) && bearing.allows(at(24)) && !bearing.is_refused());
        learn_restored(&mut bearing, at(30));
        assert!(bearing.is_refused() && !bearing.allows(at(1_000)));
        bearing.learn(at(40), &changed(Some(at(0))), 8);
        assert!(bearing.is_refused(), "for good");
    }

    /// Regression, found by `tl-middleboxes --real`: the changed retransmission of a timeout arrived, and counted as the version restored
    /// meanwhile.
    #[test]
    fn what_arrives_without_having_left_since_it_went_back_tells_nothing() {
        let mut bearing = PathEvidence::default();
        for round in 1..10 {
            bearing.learn(at(10 * round), &Version::Restored { awaited: Some(8) }, 8);
            bearing.learn(at(10 * round), &Version::Restored { awaited: None }, 9);
        }
        assert!(bearing.allows(at(90)));
        (1..4).for_each(|round| bearing.learn(at(100 * round), &Version::Restored { awaited: Some(8) }, 9));
        assert!(bearing.is_refused());
    }

    #[test]
    fn a_path_that_cuts_segments_bears_no_change_and_a_window_now_and_then_is_none() {
        let mut bearing = PathEvidence::default();
        for round in 0..10 {
            bearing.is_cut(round * 1_000);
            bearing.is_cut(round * 1_000);
            (0..AMONG).for_each(|_| bearing.learn(at(1), &Version::First, 8));
        }
        assert!(!bearing.is_refused());
        (0..3).for_each(|nth| bearing.is_cut(20_000 + nth));
        assert!(bearing.is_refused() && !bearing.allows(at(1_000)));
        (0..AMONG * 3).for_each(|_| bearing.learn(at(1), &Version::First, 8));
        assert!(bearing.is_refused(), "for good");
    }

    #[test]
    fn a_change_that_came_speaks_for_the_path_if_nothing_else_can_have_come() {
        for (from, refused) in [(Some(at(25)), false), (Some(at(26)), true), (None, true)] {
            let mut bearing = PathEvidence::default();
            learn_restored(&mut bearing, at(10));
            learn_restored(&mut bearing, at(20));
            bearing.learn(at(25), &changed(from), 8);
            learn_restored(&mut bearing, at(30));
            assert_eq!(bearing.is_refused(), refused);
        }
    }
}
