//! Benchmark of policies per packet: planning compared to policies that only look at the queue.
//!
//! A stream of 25 frames per second in groups of 30 is offered at twice the sending rate with deadlines of half a
//! second, so that half a second's worth is queued. Then rings that are full all the time, as of a source that waits for room: each
//! packet that leaves makes room for the next one, and each that comes makes a new plan.

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};
use timeous_choice::{Chain, Deadlines, Dependencies, Frames, Plan, QueueLimit};
use timeous_core::{
    AduMeta, AduSeq, DropReason, Duration, FrameId, Instant, LateChoice, PathState, Queue, Rate, References,
};

/// Number of runs, of which the median counts.
const ROUNDS: usize = 5;
const PACKETS: u64 = 20_000;
/// Number of runs over a full ring, and of the packets that leave it.
const FULL_ROUNDS: usize = 3;
const FULL_PACKETS: u64 = 400;
const LEN: usize = 1_100;

/// CPU time of this thread, in seconds.
fn computed() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Queue in plain memory.
#[derive(Default)]
struct Plain {
    waiting: Vec<(AduMeta, bool)>,
    next: u64,
}

impl Plain {
    /// Adds a frame of this many packets.
    fn push(&mut self, frame: u32, packets: u64, now: Instant) {
        for _ in 0..packets {
            self.push_packet(frame, Some(now + Duration::from_millis(500)), now);
        }
    }

    /// Adds a packet of a frame; 0 for none.
    fn push_packet(&mut self, frame: u32, deadline: Option<Instant>, now: Instant) {
        let is_key = frame == 0 || (frame - 1).is_multiple_of(30);
        let references = if is_key { References::NONE } else { References::from([FrameId(frame - 1)]) };
        let (seq, frame, enqueued) = (AduSeq(self.next), FrameId(frame), now);
        self.waiting.push((AduMeta { seq, deadline, frame, references, enqueued, ..AduMeta::default() }, true));
        self.next += 1;
    }

    /// Removes the first packet; returns whether there was one.
    fn take(&mut self) -> bool {
        let first = self.waiting.iter().position(|(_, wanted)| *wanted);
        self.waiting.drain(..first.map_or(self.waiting.len(), |first| first + 1));
        first.is_some()
    }
}

impl Queue for Plain {
    fn len(&self) -> usize {
        self.waiting.len()
    }

    fn get(&self, index: usize) -> Option<(&AduMeta, usize)> {
        self.waiting.get(index).filter(|(_, wanted)| *wanted).map(|(meta, _)| (meta, LEN))
    }

    fn drop_at(&mut self, index: usize, _: DropReason) {
        self.waiting[index].1 = false;
    }
}

/// Nanoseconds per packet of a policy, with a sending rate of `kbps` and a loss rate of `loss_ppm`.
fn cost(mut policy: Box<dyn LateChoice>, kbps: u64, loss_ppm: u32) -> f64 {
    let rate = Rate::from_kbps(kbps);
    let rtt = Duration::from_millis(50);
    let path = PathState {
        rate,
        srtt: Some(rtt),
        min_rtt: Some(rtt),
        outstanding: rate.bytes_in(rtt),
        loss_ppm,
        ..PathState::default()
    };
    let (gap, interval) = (rate.time_for(LEN as u64), Duration::from_millis(40));
    // Thirty frames, one of which is three times as large.
    let plain = (2 * rate.bytes_in(interval) * 30 / 32).div_ceil(LEN as u64);
    let (mut queue, mut now, mut due, mut frame, mut spent) = (Plain::default(), Instant::ZERO, Instant::ZERO, 0, 0.0);
    for _ in 0..PACKETS {
        while due <= now {
            frame += 1;
            queue.push(frame, if (frame - 1).is_multiple_of(30) { 3 * plain } else { plain }, due);
            due += interval;
        }
        let before = computed();
        policy.choose(now, &path, black_box(&mut queue));
        spent += computed() - before;
        queue.take();
        now += gap;
    }
    spent * 1e9 / PACKETS as f64
}

/// Nanoseconds per packet of a policy over a ring that always has `len` packets, in frames of `parts` packets (0: in none), each with
/// twice the time that a full ring takes to leave, or without a deadline.
fn full_cost(mut policy: Box<dyn LateChoice>, len: usize, parts: u64, has_deadlines: bool) -> f64 {
    let (rate, rtt) = (Rate::from_kbps(5_000), Duration::from_millis(50));
    let outstanding = rate.bytes_in(rtt);
    let path = PathState { rate, srtt: Some(rtt), min_rtt: Some(rtt), outstanding, ..PathState::default() };
    let gap = rate.time_for(LEN as u64);
    let (mut queue, mut now, mut spent) = (Plain::default(), Instant::ZERO, 0.0);
    for at in 0..=FULL_PACKETS {
        while queue.waiting.len() < len {
            let frame = queue.next.checked_div(parts).map_or(0, |frame| frame as u32 + 1);
            queue.push_packet(frame, has_deadlines.then(|| now + gap * (2 * len as u64)), now);
        }
        let before = computed();
        policy.choose(now, &path, black_box(&mut queue));
        // The first choice is over a ring that was filled at once.
        spent += if at > 0 { computed() - before } else { 0.0 };
        queue.take();
        now += gap;
    }
    spent * 1e9 / FULL_PACKETS as f64
}

/// Prints the costs of `plan` over full rings, and those of `deadline`, which looks at each packet once.
fn full_rings() {
    let policies: [(&str, Make); 2] = [
        ("deadline", || Box::new(Chain::default().then(Deadlines).then(Dependencies::default()))),
        ("plan", || Box::new(Plan::default())),
    ];
    for len in [256, 1_024, 4_096] {
        for (kind, parts) in [("no frames", 0), ("frames of 1", 1), ("frames of 8", 8)] {
            for (name, make) in policies {
                let [without, with] = [false, true].map(|has_deadlines| {
                    let mut rounds: Vec<f64> =
                        (0..FULL_ROUNDS).map(|_| full_cost(make(), len, parts, has_deadlines)).collect();
                    rounds.sort_by(f64::total_cmp);
                    rounds[FULL_ROUNDS / 2]
                });
                println!(
                    "{len:>5} queued, {kind:<11}  {name:<8} {without:>9.0} ns a packet, with deadlines {with:>9.0}"
                );
            }
        }
    }
}

type Make = fn() -> Box<dyn LateChoice>;

fn main() {
    let policies: [(&str, Make, u32); 4] = [
        ("deadline", || Box::new(Chain::default().then(Deadlines).then(Dependencies::default())), 0),
        (
            "frames",
            || {
                let sound = Chain::default().then(Deadlines).then(Dependencies::default());
                Box::new(sound.then(Frames::new(QueueLimit::Deadlines)))
            },
            0,
        ),
        ("plan", || Box::new(Plan::default()), 0),
        // With losses it computes arrival probabilities, which takes longer.
        ("plan, 2 % lost", || Box::new(Plan::default()), 20_000),
    ];
    for kbps in [300, 1_000, 5_000] {
        let mut costs = [0.0; 4];
        for (slot, (_, make, loss)) in costs.iter_mut().zip(policies) {
            let mut rounds: Vec<f64> = (0..ROUNDS).map(|_| cost(make(), kbps, loss)).collect();
            rounds.sort_by(f64::total_cmp);
            *slot = rounds[ROUNDS / 2];
        }
        for ((name, ..), cost) in policies.iter().zip(costs) {
            println!("{kbps:>5} kbit/s  {name:<14} {cost:>9.0} ns a packet  {:>6.2} of frames", cost / costs[1]);
        }
    }
    full_rings();
}
