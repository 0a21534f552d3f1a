//! Cost model of parity: what a lost packet makes useless, and what parity takes from the rate.

use timeous_core::{AduMeta, Duration, FrameId, Instant, Priority};

/// Assumed packets in a group of frames before one has been seen. Chosen by us: a higher value sends more parity at the
/// beginning of a stream.
const INITIAL_GROUP: f64 = 50.0;
/// Price of an urgent parity packet, in packets, if the path is idle before each group or that is unknown
/// (docs/decisions/parity-price.md). It delays all packets behind it: with x times the stream's rate as capacity, x /
/// (x − 1) packets at the end of a group become late.
const PARITY_COST_IDLE: f64 = 3.0;
/// Price of an urgent parity packet, in packets, if groups queue (docs/decisions/parity-price.md): it displaces one
/// packet, and half of another, as a frame that lacks one packet is useless.
const PARITY_COST_QUEUED: f64 = 1.5;
/// Queueing time from which a group counts as having waited. Chosen by us: a higher value prices parity as on an idle
/// path more often.
const MIN_QUEUEING: Duration = Duration::from_millis(5);
/// Share of frames that refer to the previous one from which frames form a chain. Chosen by us: with a lower value
/// parity of layered streams becomes cheaper.
const CHAIN_SHARE: f64 = 0.9;
/// Window of the average of that share, in frames. Chosen by us: a higher value follows the source later.
const CHAIN_WINDOW: f64 = 16.0;
/// Window of the overhead average, in packets. Chosen by us: a higher value follows the amount of parity later.
const OVERHEAD_WINDOW: f64 = 100.0;

/// Whether other frames may refer to it: frames without dependents have a lower priority.
pub(super) fn is_referred_to(meta: &AduMeta) -> bool {
    meta.frame != FrameId::NONE && meta.priority >= Priority::NORMAL
}

/// Statistics of groups of frames that refer to each other, as sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups {
    frame: FrameId,
    since: f64,
    mean: f64,
    /// Share of groups that waited before their first packet left.
    waited: f64,
    /// Share of frames that refer to the previously sent frame.
    chained: f64,
}

impl Default for Groups {
    fn default() -> Self {
        Self { frame: FrameId::NONE, since: 0.0, mean: INITIAL_GROUP, waited: 0.0, chained: 1.0 }
    }
}

impl Groups {
    /// Notes an ADU's first transmission.
    pub(crate) fn left(&mut self, now: Instant, meta: &AduMeta) {
        let begins = meta.references.is_empty() && (meta.frame != self.frame || meta.frame == FrameId::NONE);
        if begins && self.since > 0.0 {
            self.mean += (self.since - self.mean) / 4.0;
            self.since = 0.0;
            let waited = now.saturating_since(meta.enqueued) > MIN_QUEUEING;
            self.waited += (f64::from(u8::from(waited)) - self.waited) / 4.0;
        } else if !begins && meta.frame != self.frame {
            let refers = meta.references.iter().any(|frame| frame == self.frame);
            self.chained += (f64::from(u8::from(refers)) - self.chained) / CHAIN_WINDOW;
        }
        self.frame = meta.frame;
        self.since += 1.0;
    }

    /// Expected packets still to come that depend on the one sent now: half of the rest of the group, since later
    /// packets have losses of their own.
    pub(super) fn to_follow(self) -> f64 {
        (self.mean - self.since).max(0.0) / 2.0
    }

    /// Price of an urgent parity packet, in packets. `is_full`: the path has no capacity beside the stream, and no
    /// other flow. Where frames do not form a chain, as with layers, less depends on a block than assumed, so the price
    /// is higher.
    pub(super) fn price(self, is_full: bool) -> f64 {
        if is_full && self.chained >= CHAIN_SHARE {
            PARITY_COST_IDLE + (PARITY_COST_QUEUED - PARITY_COST_IDLE) * self.waited
        } else {
            PARITY_COST_IDLE
        }
    }
}

/// Urgent parity packets per data packet, averaged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Overhead(f64);

impl Overhead {
    /// Notes a block of `packets` data packets with `parity` urgent parity packets.
    pub(crate) fn note(&mut self, packets: usize, parity: usize) {
        let gain = (packets as f64 / OVERHEAD_WINDOW).min(1.0);
        self.0 += (parity as f64 / packets.max(1) as f64 - self.0) * gain;
    }

    /// Returns the share of a rate that is left for fresh data.
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
        assert_eq!(groups.price(true), PARITY_COST_IDLE, "who knows");
        groups_begin(&mut groups, 50, 1);
        assert!(groups.price(true) < PARITY_COST_QUEUED + 0.2 && groups.price(false) == PARITY_COST_IDLE);
        let mut layers = groups;
        groups_begin(&mut layers, 50, 2);
        assert_eq!(layers.price(true), PARITY_COST_IDLE);
        groups_begin(&mut groups, 0, 1);
        assert!(groups.price(true) > PARITY_COST_IDLE - 0.2);
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
