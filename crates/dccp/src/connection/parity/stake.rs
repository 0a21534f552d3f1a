//! What a loss costs besides what is lost, and what parity takes of the rate.

use timeous_core::{AduMeta, Duration, FrameId, Instant, Priority};

/// A group is thought to have so many packets before one was seen.
const UNKNOWN: f64 = 50.0;
/// Where the path is idle before the next group, or nothing is known of that, a packet of parity that goes before what is
/// fresh costs so many packets.
const DEAR: f64 = 3.0;
/// Half a packet more than leaves in its place: a frame that lacks its last packet lacks all.
const LEAST_PRICE: f64 = 1.5;
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
    /// When the newest was handed over, and the time from one to the next.
    began: Instant,
    lasts: Option<Duration>,
    /// Which share of the frames refers to the one that left before.
    chained: f64,
}

impl Default for Groups {
    fn default() -> Self {
        Self { frame: FrameId::NONE, since: 0.0, mean: UNKNOWN, began: Instant::ZERO, lasts: None, chained: 1.0 }
    }
}

impl Groups {
    /// An ADU leaves for the first time.
    pub(crate) fn left(&mut self, meta: &AduMeta) {
        let begins = meta.references.is_empty() && (meta.frame != self.frame || meta.frame == FrameId::NONE);
        if begins && self.since > 0.0 {
            self.mean += (self.since - self.mean) / 4.0;
            self.since = 0.0;
            let lasted = meta.enqueued.saturating_since(self.began);
            self.lasts = Some(self.lasts.map_or(lasted, |lasts| lasts - lasts / 4 + lasted / 4));
        }
        if begins {
            self.began = meta.enqueued;
        } else if meta.frame != self.frame {
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

    /// What a packet of parity costs that goes before what is fresh, in packets, where `times` as much is handed over as fits, and may
    /// wait for `slack`.
    ///
    /// Where something waits when the next group begins, it takes the place of one. Where the path is idle then, since the
    /// rest of the group came too late, it costs more: all that comes behind it comes later by its time, and the backlog of
    /// the group grows, for each packet of it, by only 1 − 1/`times` of that, so that `times` / (`times` − 1) packets more
    /// are too late at its end: three at half as much again as fits, and two at twice as much.
    /// `contended`: others fill the queue, and how much fits is theirs to say. Where frames do not refer to the one before, as in
    /// layers, less hangs on a block than is thought: then, too, it costs more.
    pub(super) fn price(self, times: f64, slack: Duration, contended: bool) -> f64 {
        let is_known = !contended && self.chained >= CHAINED;
        let Some(lasts) = self.lasts.filter(|_| is_known) else { return DEAR };
        let each = times / (times - 1.0);
        let is_idle = times > 1.0 && slack.as_secs_f64() * each < lasts.as_secs_f64();
        if is_idle { DEAR } else { LEAST_PRICE }
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

    /// Found by `timeous-lab bloat`: streams of short groups, which fill the path, had too little parity by the price of those that
    /// do not.
    #[test]
    fn parity_takes_the_place_of_one_packet_unless_the_path_is_idle_before_the_next_group() {
        let mut groups = Groups::default();
        let ms = Duration::from_millis;
        let price = |groups: Groups, times, slack| (groups.price(times, ms(slack), false) * 10.0).round() / 10.0;
        assert_eq!(price(groups, 1.5, 400), DEAR);
        for n in 0..4 {
            let enqueued = Instant::ZERO + ms(1_000 * n);
            groups.left(&AduMeta { frame: FrameId(n as u32 + 1), enqueued, ..AduMeta::default() });
        }
        // A second of it takes 1.5 s, of which what may wait for 400 ms fills 1.2.
        assert_eq!(price(groups, 1.5, 400), LEAST_PRICE);
        assert_eq!(price(groups, 1.5, 300), DEAR, "what is captured after 600 ms comes too late");
        assert_eq!([price(groups, 2.0, 600), price(groups, 2.0, 400)], [LEAST_PRICE, DEAR]);
        assert_eq!(price(groups, 0.9, 10), LEAST_PRICE);
        assert_eq!(groups.price(1.5, ms(400), true), DEAR);
        for frame in 5..9 {
            let references = References::from([FrameId(frame - 2)]);
            groups.left(&AduMeta { frame: FrameId(frame), references, ..AduMeta::default() });
        }
        assert_eq!(price(groups, 1.5, 400), DEAR, "layers");
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
