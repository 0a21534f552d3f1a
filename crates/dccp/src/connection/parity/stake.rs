//! What a loss costs besides what is lost, and what parity takes of the rate.

use timeous_core::{AduMeta, FrameId, Priority};

/// A group is thought to have so many packets before one was seen.
const UNKNOWN: f64 = 50.0;
/// The overhead is that of so many packets.
const MEMORY: f64 = 100.0;

/// What nothing is likely to refer to has a lower priority.
pub(super) fn is_referred_to(meta: &AduMeta) -> bool {
    meta.frame != FrameId::NONE && meta.priority >= Priority::NORMAL
}

/// How many packets a group of frames has that refer to each other, of what leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups {
    frame: FrameId,
    since: f64,
    mean: f64,
}

impl Default for Groups {
    fn default() -> Self {
        Self { frame: FrameId::NONE, since: 0.0, mean: UNKNOWN }
    }
}

impl Groups {
    /// An ADU leaves for the first time.
    pub(crate) fn left(&mut self, meta: &AduMeta) {
        let begins = meta.references.is_empty() && (meta.frame != self.frame || meta.frame == FrameId::NONE);
        if begins && self.since > 0.0 {
            self.mean += (self.since - self.mean) / 4.0;
            self.since = 0.0;
        }
        self.frame = meta.frame;
        self.since += 1.0;
    }

    /// How many packets are to follow that refer to what leaves now, and would be of use with it: half of them, since what
    /// follows has losses of its own.
    pub(super) fn to_follow(self) -> f64 {
        (self.mean - self.since).max(0.0) / 2.0
    }
}

/// How much parity goes along with what is sent, for each packet of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Overhead(f64);

impl Overhead {
    /// So many packets got so many of parity that go before what is fresh.
    pub(crate) fn note(&mut self, packets: usize, parity: usize) {
        let gain = (packets as f64 / MEMORY).min(1.0);
        self.0 += (parity as f64 / packets.max(1) as f64 - self.0) * gain;
    }

    /// What of a rate is left for what is fresh.
    pub(super) fn rest(self, bps: u64) -> u64 {
        (bps as f64 / (1.0 + self.0)) as u64
    }
}

#[cfg(test)]
mod tests {
    use timeous_core::References;

    use super::*;

    #[test]
    fn what_follows_in_a_group_is_what_followed_in_those_before() {
        let mut groups = Groups::default();
        let mut send = |frame: u32, of: u32| {
            let references = if frame % 5 == 1 { References::NONE } else { References::from([FrameId(frame - 1)]) };
            (0..of).for_each(|_| groups.left(&AduMeta { frame: FrameId(frame), references, ..AduMeta::default() }));
            groups.to_follow()
        };
        let left: Vec<f64> = (1..=102).map(|frame| send(frame, 2)).collect();
        assert!((left[100] - 4.0).abs() < 0.5 && (left[101] - 3.0).abs() < 0.5, "{:?}", &left[95..]);
    }

    #[test]
    fn nothing_follows_what_stands_alone() {
        let mut groups = Groups::default();
        (0..50).for_each(|_| groups.left(&AduMeta::default()));
        assert!(groups.to_follow() < 0.01);
    }

    #[test]
    fn the_rate_is_what_parity_leaves_of_it() {
        let mut overhead = Overhead::default();
        assert_eq!(overhead.rest(1_000), 1_000);
        (0..100).for_each(|_| overhead.note(10, 2));
        assert_eq!(overhead.rest(1_200), 1_000);
        (0..1_000).for_each(|_| overhead.note(1, 0));
        assert_eq!(overhead.rest(1_200), 1_199);
    }
}
