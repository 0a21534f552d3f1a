//! What a loss costs besides what is lost, and what parity takes of the rate.

use timeous_core::{AduMeta, Duration, FrameId, Instant, Priority};

/// A group is thought to have so many packets before one was seen.
const UNKNOWN: f64 = 50.0;
/// Where the path is idle before the next group, or nothing is known of that, a packet of parity that goes before what is fresh
/// costs so many. All that comes behind it comes later by its time, and the backlog of a stream that offers x times what fits
/// grows, for each packet of it, by only 1 − 1/x of that: at the end of a group x / (x − 1) packets are too late, three at half
/// as much again as fits, and two at twice as much.
const DEAR: f64 = 3.0;
/// Where it is not, it takes the place of one, and a half more: a frame that lacks its last packet lacks all.
const CHEAP: f64 = 1.5;
/// What waits for so long has others before it.
const WAITED: Duration = Duration::from_millis(5);
/// Frames form a chain where so many refer to the one before, of so many.
const CHAINED: f64 = 0.9;
const FRAMES: f64 = 16.0;
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
    /// Which share of the groups waited before they began.
    waited: f64,
    /// Which share of the frames refers to the one that left before.
    chained: f64,
}

impl Default for Groups {
    fn default() -> Self {
        Self { frame: FrameId::NONE, since: 0.0, mean: UNKNOWN, waited: 0.0, chained: 1.0 }
    }
}

impl Groups {
    /// An ADU leaves for the first time.
    pub(crate) fn left(&mut self, now: Instant, meta: &AduMeta) {
        let begins = meta.references.is_empty() && (meta.frame != self.frame || meta.frame == FrameId::NONE);
        if begins && self.since > 0.0 {
            self.mean += (self.since - self.mean) / 4.0;
            self.since = 0.0;
            let waited = now.saturating_since(meta.enqueued) > WAITED;
            self.waited += (f64::from(u8::from(waited)) - self.waited) / 4.0;
        } else if !begins && meta.frame != self.frame {
            let refers = meta.references.iter().any(|frame| frame == self.frame);
            self.chained += (f64::from(u8::from(refers)) - self.chained) / FRAMES;
        }
        self.frame = meta.frame;
        self.since += 1.0;
    }

    /// How many packets are to follow that refer to what leaves now, and would be of use with it: half of them, since what
    /// follows has losses of its own.
    pub(super) fn to_follow(self) -> f64 {
        (self.mean - self.since).max(0.0) / 2.0
    }

    /// What a packet of parity costs that goes before what is fresh, in packets. `is_full`: the path carries no more than the stream,
    /// and is the stream's alone. Where frames do not refer to the one before, as in layers, less hangs on a block than is
    /// thought: then, too, it costs more.
    pub(super) fn price(self, is_full: bool) -> f64 {
        if is_full && self.chained >= CHAINED { DEAR + (CHEAP - DEAR) * self.waited } else { DEAR }
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
            (0..of).for_each(|_| {
                groups.left(Instant::ZERO, &AduMeta { frame: FrameId(frame), references, ..AduMeta::default() });
            });
            groups.to_follow()
        };
        let left: Vec<f64> = (1..=102).map(|frame| send(frame, 2)).collect();
        assert!((left[100] - 4.0).abs() < 0.5 && (left[101] - 3.0).abs() < 0.5, "{:?}", &left[95..]);
    }

    #[test]
    fn nothing_follows_what_stands_alone() {
        let mut groups = Groups::default();
        (0..50).for_each(|_| groups.left(Instant::ZERO, &AduMeta::default()));
        assert!(groups.to_follow() < 0.01);
    }

    /// Found by `timeous-lab bloat`: streams of short groups, which fill the path, had too little parity by the price of those that
    /// do not.
    #[test]
    fn parity_takes_the_place_of_one_packet_unless_the_path_is_idle_before_the_next_group() {
        let mut groups = Groups::default();
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let groups_begin = |groups: &mut Groups, after: u64, back: u32| {
            for n in 1..40_u32 {
                let enqueued = at(u64::from(n) * 40);
                let references = if n % 4 == 1 { References::NONE } else { References::from([FrameId(n - back)]) };
                let meta = AduMeta { frame: FrameId(n), references, enqueued, ..AduMeta::default() };
                groups.left(enqueued + Duration::from_millis(after), &meta);
            }
        };
        assert_eq!(groups.price(true), DEAR, "who knows");
        groups_begin(&mut groups, 50, 1);
        assert!(groups.price(true) < CHEAP + 0.2 && groups.price(false) == DEAR);
        let mut layers = groups;
        groups_begin(&mut layers, 50, 2);
        assert_eq!(layers.price(true), DEAR);
        groups_begin(&mut groups, 0, 1);
        assert!(groups.price(true) > DEAR - 0.2);
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
