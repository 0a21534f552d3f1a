//! Closed-loop tests: a source that follows the advice, a packet ring, and a link whose rate falls to a third and recovers.

use std::collections::BTreeSet;

use timeous_choice::dbat::{Dbat, Marking, Settings};
use timeous_choice::{Chain, Dependencies};
use timeous_core::{
    AduMeta, AduSeq, AduSource, Adviser, DropReason, Duration, Fate, FrameId, Instant, PathState, Priority, Rate,
};
use timeous_ring::{Config, Producer, RingSource, create};

const PACKET: usize = 1_000;
const FRAME: Duration = Duration::from_millis(40);
/// Frames from one keyframe to the next.
const GROUP: u64 = 12;
const FULL: Rate = Rate::from_kbps(1_200);
const THIRD: Rate = Rate::from_kbps(400);
const FALLS: u64 = 10;
const RETURNS: u64 = 20;
const END: u64 = 30;

fn share(rate: Rate, parts: u64, of: u64) -> Rate {
    Rate::from_bps(rate.as_bps() * parts / of)
}

fn seconds(secs: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(secs)
}

fn link(now: Instant) -> Rate {
    if now >= seconds(FALLS) && now < seconds(RETURNS) { THIRD } else { FULL }
}

/// Sample of the loop's state.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    stream: Rate,
    queued: u64,
    max: u64,
}

/// Encoder of 25 frames per second at a constant rate, with keyframes three times as large as other frames.
struct Encoder {
    rate: Rate,
    next: Instant,
    frame: u32,
    seq: u64,
    follows: bool,
    /// Keyframe packets offered.
    marked: BTreeSet<AduSeq>,
}

impl Encoder {
    /// Hands over the next frame in packets. Packets without room in the ring count as dropped.
    fn encode(&mut self, adviser: &mut dyn Adviser, ring: &mut Producer) -> u64 {
        let advice = adviser.poll_advice();
        if let Some(advice) = advice.filter(|_| self.follows) {
            self.rate = advice.rate;
            adviser.set_rate(self.rate);
        }
        let is_i = u64::from(self.frame) % GROUP == 0;
        self.frame += 1;
        let share = self.rate.bytes_in(FRAME * GROUP) / (GROUP + 2);
        let mut left = (share * if is_i { 3 } else { 1 }) as usize;
        let mut refused = 0;
        while left > 0 {
            let len = left.min(PACKET);
            left -= len;
            self.seq += 1;
            let priority = if is_i { Priority::HIGHEST } else { Priority::NORMAL };
            if is_i {
                self.marked.insert(AduSeq(self.seq));
            }
            let frame = FrameId(self.frame);
            let meta = AduMeta { seq: AduSeq(self.seq), priority, frame, enqueued: self.next, ..AduMeta::default() };
            refused += u64::from(ring.enqueue(&meta, &[0; PACKET][..len]).is_err());
        }
        self.next += FRAME;
        refused
    }
}

#[derive(Debug, Default)]
struct Outcome {
    samples: Vec<Sample>,
    /// Packets offered and not sent.
    given_up: u64,
    /// Keyframe packets among them.
    marked_given_up: u64,
    offered: u64,
}

fn run(rtt: Duration, follows: bool) -> Outcome {
    let (mut ring, consumer) = create(&Config::new(1_024)).unwrap();
    let dbat = Dbat::new(Settings::default(), Marking::default());
    let mut source =
        RingSource::with_choice(consumer, Box::new(Chain::default().then(dbat).then(Dependencies::default())));
    let mut encoder = Encoder {
        rate: Rate::from_kbps(1_000),
        next: Instant::ZERO,
        frame: 0,
        seq: 0,
        follows,
        marked: BTreeSet::new(),
    };
    source.adviser().expect("DBAT speaks with its source").set_rate(encoder.rate);
    let mut outcome = Outcome::default();
    let (mut now, mut free) = (Instant::ZERO, Instant::ZERO);
    while now < seconds(END) {
        if encoder.next <= now {
            outcome.given_up += encoder.encode(source.adviser().expect("still"), &mut ring);
        }
        // The path's state is known with a delay of a round trip.
        let rate = link(now.saturating_sub(rtt));
        let path = PathState { rate, srtt: Some(rtt), min_rtt: Some(rtt), ..PathState::default() };
        let mut packet = Vec::new();
        while free <= now
            && let Some(pulled) = source.pull(now, &path, PACKET, &mut packet)
        {
            source.sent(pulled.token);
            source.acked(pulled.token);
            free = free.max(now) + link(now).time_for(pulled.len as u64);
        }
        while let Some(completion) = ring.poll_completion() {
            if completion.fate != Fate::Acked {
                assert!(matches!(completion.fate, Fate::Dropped(DropReason::Policy | DropReason::ReferenceLost)));
                outcome.given_up += 1;
                outcome.marked_given_up += u64::from(encoder.marked.contains(&completion.seq));
            }
        }
        outcome.samples.push(Sample {
            at: now,
            stream: encoder.rate,
            queued: source.queued_bytes() as u64,
            max: source
                .adviser()
                .and_then(|adviser| adviser.state().thresholds)
                .map_or(u64::MAX, |thresholds| thresholds.max),
        });
        now += Duration::from_millis(1);
    }
    outcome.offered = encoder.seq;
    outcome
}

impl Outcome {
    fn between(&self, from: Instant, to: Instant) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| sample.at >= from && sample.at < to)
    }

    fn share_given_up(&self) -> f64 {
        self.given_up as f64 / self.offered as f64
    }

    /// 95th percentile of the queue length relative to `Max_Th`.
    fn p95(&self) -> f64 {
        let mut shares: Vec<f64> = self.samples.iter().map(|sample| sample.queued as f64 / sample.max as f64).collect();
        shares.sort_by(f64::total_cmp);
        shares[shares.len() * 95 / 100]
    }
}

/// Requirement for encoder drivers: following the advice within two seconds.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(2);

#[test]
fn a_source_that_follows_has_the_rate_of_the_link_within_two_seconds() {
    for rtt in [20, 60, 100, 150] {
        let outcome = run(Duration::from_millis(rtt), true);
        let low = outcome.between(seconds(FALLS) + FOLLOWS_WITHIN, seconds(RETURNS));
        for sample in low {
            assert!(sample.stream <= THIRD && sample.stream >= share(THIRD, 2, 4), "{rtt} ms: {sample:?}");
        }
        for sample in outcome.between(seconds(RETURNS) + FOLLOWS_WITHIN, seconds(END)) {
            assert!(sample.stream <= FULL && sample.stream >= share(FULL, 3, 4), "{rtt} ms: {sample:?}");
        }
    }
}

#[test]
fn the_queue_of_a_source_that_follows_stays_within_the_second_threshold() {
    for rtt in [20, 60, 100, 150, 300] {
        let p95 = run(Duration::from_millis(rtt), true).p95();
        assert!(p95 <= 1.0, "{rtt} ms: {p95}");
    }
}

#[test]
fn little_is_given_up_where_the_source_follows_and_nothing_marked_ever() {
    for rtt in [20, 100, 300] {
        let [following, deaf] = [true, false].map(|follows| run(Duration::from_millis(rtt), follows));
        assert_eq!((following.marked_given_up, deaf.marked_given_up), (0, 0));
        assert!(deaf.given_up > 0, "a third of the rate is too little for one that does not hear");
        assert!(
            following.share_given_up() * 4.0 < deaf.share_given_up(),
            "{rtt} ms: {} and {}",
            following.given_up,
            deaf.given_up
        );
    }
}
