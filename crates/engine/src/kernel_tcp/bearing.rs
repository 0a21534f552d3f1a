//! Whether the path bears it that what is sent again is not what was sent. Middleboxes were seen that swallow such segments
//! (Honda et al.; McQuistin §4.2): what then does not arrive goes back to what it was, and if that helps, nothing that has
//! left is changed for a while, and in the end nothing any more.

use timeous_core::{Duration, Instant};

/// As many timeouts in a row of a changed record that the peer waits for, and it goes back: if the peer has heard what came
/// behind it, and if not, or if a changed record has arrived before. Then the path itself may be cut or lossy, and what is
/// stale had better wait. Each timeout takes twice as long as the one before, and everything behind it waits.
const TIMEOUTS: (u8, u8) = (1, 4);
/// And where segments overtake each other, so that hardly ever it is certain that a changed record has arrived, in place of the first.
const TIMEOUTS_REORDERED: u8 = 2;
/// So long nothing is changed after the first record that arrived only when it had gone back; twice as long after the second.
const PAUSE: Duration = Duration::from_secs(2);
/// As many such records, and none between them that arrived changed, tell of a path that does not bear it.
const MOST_REFUSALS: u32 = 3;

/// What became of a record's bytes after they had left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Version {
    /// Nothing.
    #[default]
    First,
    /// Others took their place, when so many timeouts had passed in a row. If the peer waited for it by then: what arrives from
    /// this instant on is not what was sent before.
    Changed { first: Vec<u8>, telling_from: Option<Instant>, timeouts: u8 },
    /// They came back, when so many segments had been sent again, if the peer waited for it: while none more was, what arrives is not
    /// what came back.
    Restored { awaited: Option<u32> },
}

/// As many records of which the peer has the front alone, among so many, tell of a path that cuts segments in two. The rest of
/// another version would make neither of them whole.
const MOST_CUTS: u32 = 3;
const AMONG: u32 = 128;

/// What is known of the path.
#[derive(Debug, Default)]
pub(super) struct Bearing {
    refusals: u32,
    /// Records of which the peer had the front alone, where the last one of them begins, and how many arrived since one was forgotten.
    cuts: u32,
    last_cut: Option<u64>,
    arrived: u32,
    /// The last that is known: something arrived that was changed.
    borne: bool,
    paused_until: Instant,
}

impl Bearing {
    /// Whether what has left may be changed now.
    pub(super) fn allows(&self, now: Instant) -> bool {
        !self.is_refused() && now >= self.paused_until
    }

    /// Whether the last that is known of the path is that it bears it.
    pub(super) fn is_borne(&self) -> bool {
        self.borne
    }

    /// Whether a changed record that the peer waits for has to go back, after so many timeouts in a row, and with so many
    /// segments heard behind it.
    pub(super) fn is_stuck(&self, timeouts: u8, sacked: u32, is_reordered: bool) -> bool {
        timeouts
            >= match (sacked > 0 && !self.borne, is_reordered) {
                (false, _) => TIMEOUTS.1,
                (true, false) => TIMEOUTS.0,
                (true, true) => TIMEOUTS_REORDERED,
            }
    }

    /// Whether the path was found not to bear it.
    pub(super) fn is_refused(&self) -> bool {
        self.refusals >= MOST_REFUSALS || self.cuts >= MOST_CUTS
    }

    /// The peer has the front of a record that begins there, all of which has left as one segment.
    pub(super) fn is_cut(&mut self, start: u64) {
        if self.last_cut.replace(start) != Some(start) {
            self.cuts += 1;
        }
    }

    /// A record has arrived, and so many segments have been sent again by now.
    pub(super) fn learn(&mut self, now: Instant, version: &Version, retransmitted: u32) {
        self.arrived += 1;
        if self.arrived >= AMONG && self.cuts < MOST_CUTS {
            // A window that was nearly closed cuts one now and then.
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

    /// It was waited for, and left once since it went back.
    fn learn_restored(bearing: &mut Bearing, now: Instant) {
        bearing.learn(now, &Version::Restored { awaited: Some(7) }, 8);
    }

    #[test]
    fn a_path_that_is_cut_is_told_from_one_that_swallows() {
        let bearing = Bearing::default();
        assert!(bearing.is_stuck(1, 1, false) && !bearing.is_stuck(0, 1, false));
        assert!(bearing.is_stuck(2, 1, true) && !bearing.is_stuck(1, 1, true));
        assert!(bearing.is_stuck(4, 0, false) && !bearing.is_stuck(3, 0, false));
    }

    /// Found by `timeous-lab peers` on a lossy link: two retransmissions in a row that are lost are no middlebox.
    #[test]
    fn a_path_that_bore_a_change_is_not_soon_taken_for_one_that_swallows() {
        let mut bearing = Bearing::default();
        bearing.learn(at(10), &changed(Some(at(9))), 8);
        assert!(!bearing.is_stuck(3, 1, false) && bearing.is_stuck(4, 1, true));
        learn_restored(&mut bearing, at(20));
        assert!(bearing.is_stuck(1, 1, false), "it may have become another path");
    }

    #[test]
    fn three_records_that_came_only_as_they_were_end_all_changes() {
        let mut bearing = Bearing::default();
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

    /// Found by `tl-middleboxes --real`: what was sent again at the timeout arrived, and was taken for what had gone back meanwhile.
    #[test]
    fn what_arrives_without_having_left_since_it_went_back_tells_nothing() {
        let mut bearing = Bearing::default();
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
        let mut bearing = Bearing::default();
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
            let mut bearing = Bearing::default();
            learn_restored(&mut bearing, at(10));
            learn_restored(&mut bearing, at(20));
            bearing.learn(at(25), &changed(from), 8);
            learn_restored(&mut bearing, at(30));
            assert_eq!(bearing.is_refused(), refused);
        }
    }
}
