//! By plan: what is kept is the set of frames that makes most of them decodable in time, those that are expected counted in.

mod forecast;
mod frames;
mod schedule;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use timeous_core::{
    AduMeta, AduSeq, DropReason, Duration, Fate, FrameId, Instant, LateChoice, PathState, Queue, Rate, SubStream,
};

use forecast::Forecast;
use frames::{Name, Waiting, gather};
use schedule::{Chances, Job, MOST_JOBS, Scheduler, Taken};

/// How many broken frames are remembered; older ones have no dependents that still wait.
const REMEMBERED: usize = 1024;
/// A plan holds for so long, unless a frame comes or breaks, or all that it kept has left.
const HOLDS: Duration = Duration::from_millis(10);
/// By so much what is thought of a time of arrival may well err.
const SPREAD: Duration = Duration::from_millis(20);
/// What waits is given up if it seems to be late by more than that.
const LATE: Duration = Duration::from_millis(40);
/// Frames that are expected, at most: two seconds of 30 a second.
const MOST_EXPECTED: usize = 60;
/// What a frame is worth beside its priority: a frame more is better than any priorities.
const FRAME: u64 = 4_096;
/// What two packets have at most, about.
const TWO_PACKETS: u64 = 3_000;
/// What is expected may not come, and counts for less, in sixteenths.
const EXPECTED_COUNTS: u64 = 15;

/// Keeps the frames of which most can be decoded in time.
///
/// From the rate and the round trip of the path it reckons when each queued frame would arrive, and finds the set that
/// is worth most: whole frames only, none whose reference is lost or not in the set, none that cannot be there
/// in time. What the source will hand over while these are sent is counted in, as far as its past tells: the tail of a
/// group that would take the room of the next one's head goes. Before the first packet of the set leaves, what stands
/// before it is given up, and nothing else: what is behind it may be wanted yet if the path proves faster.
///
/// A frame counts for as much as it is likely to be there. Estimates err: what would come at the last instant has an even chance, what
/// would be late by a little has less, and leaves where it takes nothing else's place. And where packets get lost, what leaves late
/// has no time to leave again, nor has what refers to it: the tail of a group goes that would have all later ones be late by as much.
///
/// All frames are worth the same, but for their priorities among equals, unless [`weighing`](Self::weighing) says otherwise. A plan
/// is made anew when a frame comes or is lost, when only what it left out still waits, and each 10 ms while packets leave; it costs
/// time for the frames that wait, within bounds, and nothing for a packet between.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    weights: Vec<(SubStream, u32)>,
    broken: BTreeSet<FrameId>,
    forecast: Forecast,
    /// The latest packet that was looked at.
    newest: Option<AduSeq>,
    /// What is not in the plan, of what waited when it was made.
    left_out: BTreeSet<Name>,
    /// The frame whose packets are leaving.
    begun: Option<Name>,
    /// When the plan was made; `None`: it holds no more.
    planned: Option<Instant>,
    /// Places in the queue of what is useless, the frames that wait and what they are as jobs: kept for their memory.
    useless: Vec<usize>,
    waiting: Vec<Waiting>,
    jobs: Vec<Job>,
    scheduler: Scheduler,
}

impl Plan {
    /// A frame of `substream` is worth so many others; one unless told.
    #[must_use]
    pub fn weighing(mut self, substream: SubStream, weight: u32) -> Self {
        self.weights.retain(|(of, _)| *of != substream);
        self.weights.push((substream, weight));
        self
    }

    fn worth(&self, meta: &AduMeta) -> u64 {
        let weight = self.weights.iter().find(|(of, _)| *of == meta.substream).map_or(1, |&(_, weight)| weight);
        u64::from(weight) * (FRAME + u64::from(meta.priority.0))
    }

    fn break_frame(&mut self, frame: FrameId) {
        if frame == FrameId::NONE {
            return;
        }
        if self.broken.insert(frame) {
            self.planned = None;
        }
        if self.broken.len() > REMEMBERED {
            self.broken.pop_first();
        }
    }

    /// A frame that nothing can mend any more, and with it what has left and refers to it.
    fn break_chain(&mut self, frame: FrameId) {
        let before = self.broken.len();
        self.break_frame(frame);
        if frame == FrameId::NONE || self.broken.len() == before {
            return;
        }
        let Self { broken, forecast, .. } = self;
        forecast.break_chains(broken);
        while self.broken.len() > REMEMBERED {
            self.broken.pop_first();
        }
    }

    fn is_useless(&self, meta: &AduMeta) -> bool {
        self.broken.contains(&meta.frame) || meta.references.iter().any(|frame| self.broken.contains(&frame))
    }

    /// Gives up what can be of no use any more, whatever is planned, and learns what is new. Says whether anything is of use.
    fn pass_over(&mut self, now: Instant, path: &PathState, queue: &mut dyn Queue) -> bool {
        // What was known of a path grows old while nothing is under way, and nothing else would tell that it is faster
        // again.
        let least = if path.outstanding > 0 { path.min_rtt.unwrap_or(Duration::ZERO) / 2 } else { Duration::ZERO };
        for at in 0..queue.len() {
            let Some((meta, len)) = queue.get(at) else { continue };
            let meta = *meta;
            if self.newest.is_none_or(|newest| meta.seq > newest) {
                self.newest = Some(meta.seq);
                self.planned = None;
                self.forecast.learn(&meta, counted(len as u64, 1), self.worth(&meta));
            }
            let expired = meta.is_expired(now);
            if expired || meta.is_expired(now + least) {
                queue.drop_at(at, if expired { DropReason::Expired } else { DropReason::TooLate });
                self.break_frame(meta.frame);
            }
        }
        self.pass_over_useless(now, path, queue)
    }

    /// Gives up what refers to what is lost; says whether anything is left that is of use. Where nothing is, and the path is
    /// thought too slow for the head of the next group, what is useless may leave until that is due: who sends nothing meanwhile
    /// learns nothing of the path, has no window for that head either, and so on.
    fn pass_over_useless(&mut self, now: Instant, path: &PathState, queue: &mut dyn Queue) -> bool {
        self.useless.clear();
        let mut is_of_use = false;
        // References point backwards, so that one pass in order finds whole chains.
        for at in 0..queue.len() {
            let Some((meta, _)) = queue.get(at) else { continue };
            if self.is_useless(meta) {
                let frame = meta.frame;
                self.useless.push(at);
                self.break_frame(frame);
            } else {
                is_of_use = true;
            }
        }
        let stays = !is_of_use && !self.useless.is_empty() && self.holds_place(now, path);
        for &at in &self.useless {
            if !stays || queue.was_sent(at) {
                queue.drop_at(at, DropReason::ReferenceLost);
            }
        }
        is_of_use
    }

    /// Whether the path should be used though nothing of use waits.
    fn holds_place(&self, now: Instant, path: &PathState) -> bool {
        let Some(head) = self.forecast.next_head() else { return path.contended };
        let least = path.min_rtt.unwrap_or(Duration::ZERO);
        // What leaves now has left the link before the head comes.
        let queued = path.srtt.unwrap_or(least).saturating_sub(least);
        let is_far = head.at > now + queued + path.rate.time_for(TWO_PACKETS);
        let takes = path.rate.time_for(head.bytes) + least / 2;
        let is_late = |takes| head.deadline.is_some_and(|deadline| head.at + takes > deadline);
        // What the head needs at once is there, and it would be late behind a queue in which this would wait, too.
        let is_enough = path.window >= head.bytes && is_late(queued + takes);
        is_far && (path.contended && !is_enough || is_late(takes))
    }

    /// Finds what is left out.
    fn plan(&mut self, now: Instant, path: &PathState, queue: &dyn Queue) {
        let mut waiting = std::mem::take(&mut self.waiting);
        gather(queue, |meta| self.worth(meta), &mut waiting);
        let link = Link::new(path, path.rate);
        self.set_jobs(now, &link, &waiting);
        let taken = self.scheduler.best(&self.jobs, link.picos(), link.chances());
        self.left_out.clear();
        let out = waiting.iter().take(MOST_JOBS).enumerate().filter(|(at, _)| taken >> at & 1 == 0);
        self.left_out.extend(out.map(|(_, frame)| frame.name));
        self.waiting = waiting;
        self.planned = Some(now);
    }

    /// Whether all that waits is left out.
    fn keeps_nothing(&self, queue: &dyn Queue) -> bool {
        (0..queue.len()).filter_map(|at| queue.get(at)).all(|(meta, _)| self.left_out.contains(&Name::of(meta)))
    }

    /// All that the plan kept has left: what it left out may fit now, or was left out for what was thought of the path in passing. Nothing
    /// is hoped for here: what has just left will tell of the path, and what cannot arrive would keep its queue full for good.
    fn plan_again(&mut self, now: Instant, path: &PathState, queue: &dyn Queue) {
        // A smoothed round trip tells late that a queue is gone, and nothing else that waits would be delayed.
        let srtt = path.srtt.map(|srtt| path.latest_rtt.map_or(srtt, |latest| srtt.min(latest)));
        self.plan(now, &PathState { srtt, ..*path }, queue);
    }

    /// Nothing is thought to make it. All leaves that might if it were alone on the path: what is known of a path comes from
    /// what is sent, and where nothing is sent any more nothing is learnt.
    fn hope(&mut self, now: Instant, path: &PathState) {
        let waiting = std::mem::take(&mut self.waiting);
        let link =
            Link { backlog: Duration::ZERO, late: Duration::ZERO, rate: Rate::MAX, ..Link::new(path, path.rate) };
        self.set_jobs(now, &link, &waiting);
        let taken: Taken = self.scheduler.best(&self.jobs, 0, Chances::default());
        for (at, frame) in waiting.iter().take(MOST_JOBS).enumerate() {
            if taken >> at & 1 == 1 {
                self.left_out.remove(&frame.name);
            }
        }
        self.waiting = waiting;
    }

    /// What waits and what is expected, as jobs.
    fn set_jobs(&mut self, now: Instant, link: &Link, waiting: &[Waiting]) {
        let jobs = &mut self.jobs;
        jobs.clear();
        for frame in waiting.iter().take(MOST_JOBS) {
            let begun = frame.begun || self.begun == Some(frame.name);
            let due = link.nanos_until(now, frame.deadline);
            let late = if due > 0 { link.late } else { Duration::ZERO };
            let deadline = due + (late + if begun { link.backlog } else { Duration::ZERO }).as_nanos();
            let bytes = link.with_repairs(counted(frame.bytes, frame.packets));
            let packets = frame.packets as f32;
            let mut job = Job { release: 0, deadline, due, bytes, packets, worth: frame.worth * 16, ..Job::default() };
            for reference in frame.references.iter() {
                // What does not wait has left, and may be there.
                if let Some(at) = waiting.iter().take(jobs.len()).position(|other| other.name.frame() == reference) {
                    let _four_at_most = job.need(at);
                }
            }
            jobs.push(job);
        }
        // Where nothing is given up, nothing needs to be looked for.
        let first = jobs.len();
        let room = MOST_EXPECTED.min(MOST_JOBS - first);
        for (n, frame) in self.forecast.ahead().take(room).enumerate() {
            let (release, deadline) = (frame.at.saturating_since(now), frame.deadline.unwrap_or(Instant::FAR_FUTURE));
            let due = link.nanos_until(now, deadline);
            let mut job = Job {
                release: release.as_nanos(),
                deadline: due,
                due,
                bytes: link.with_repairs(frame.bytes),
                packets: frame.packets,
                worth: frame.worth * EXPECTED_COUNTS,
                ..Job::default()
            };
            let mut lost = false;
            for back in frame.back.into_iter().filter(|&back| back > 0 && back < u16::MAX).map(usize::from) {
                if back <= n {
                    let _four_at_most = job.need(first + n - back);
                } else if let Some(id) = self.forecast.id_before_newest(back - n - 1) {
                    lost |= self.broken.contains(&id);
                    if let Some(at) = waiting.iter().take(first).position(|frame| frame.name.frame() == id) {
                        let _four_at_most = job.need(at);
                    }
                }
            }
            if lost {
                job.deadline = 0;
            }
            jobs.push(job);
        }
    }

    /// Gives up what stands before the first packet of the plan.
    fn clear_the_way(&mut self, queue: &mut dyn Queue) {
        for at in 0..queue.len() {
            let Some((meta, _)) = queue.get(at) else { continue };
            let name = Name::of(meta);
            if !self.left_out.contains(&name) {
                // Control packets between the packets of a frame do not end it.
                self.begun = if name.frame() == FrameId::NONE { self.begun } else { Some(name) };
                return;
            }
            queue.drop_at(at, DropReason::Policy);
            // No new plan is needed for what was left out of this one.
            let planned = self.planned;
            self.break_frame(name.frame());
            self.planned = planned;
        }
    }
}

impl LateChoice for Plan {
    fn choose(&mut self, now: Instant, path: &PathState, queue: &mut dyn Queue) {
        if !self.pass_over(now, path, queue) {
            return;
        }
        if path.srtt.is_some() {
            let is_old = self.planned.is_none_or(|planned| now.saturating_since(planned) >= HOLDS);
            if is_old {
                self.plan(now, path, queue);
            }
            if self.keeps_nothing(queue) {
                if is_old {
                    self.hope(now, path);
                } else {
                    self.plan_again(now, path, queue);
                }
            }
        }
        self.clear_the_way(queue);
    }

    fn is_worth_repeating(&mut self, now: Instant, path: &PathState, meta: &AduMeta) -> bool {
        !meta.is_expired(now + path.least_way()) && !self.is_useless(meta)
    }

    fn on_fate(&mut self, meta: &AduMeta, fate: Fate) {
        match fate {
            Fate::Acked => {}
            Fate::Lost | Fate::Dropped(_) => self.break_chain(meta.frame),
        }
    }

    fn on_missed(&mut self, meta: &AduMeta) {
        self.break_chain(meta.frame);
    }
}

/// So many bytes as the Congestion Manager counts, about: it counts whole DCCP packets, and rates are of these.
fn counted(bytes: u64, packets: u64) -> u64 {
    const HEADER: u64 = 20;
    bytes + packets * HEADER
}

/// The path as a plan sees it.
#[derive(Clone, Copy, Debug)]
struct Link {
    rate: Rate,
    /// From the end of its queue to the peer, with what estimates may err by.
    way: Duration,
    /// Until what is under way has left its queue.
    backlog: Duration,
    /// By how much what waits may seem to be late, and leave.
    late: Duration,
    /// Of a packet, in millionths.
    loss: u32,
    /// After so long what is lost leaves again.
    again: Duration,
}

impl Link {
    fn new(path: &PathState, rate: Rate) -> Self {
        let least = path.min_rtt.unwrap_or(Duration::ZERO);
        // What the path's queue held a round trip ago, but no more than can be there of what is under way.
        let queued = path.srtt.unwrap_or(least).saturating_sub(least);
        let backlog = queued.min(rate.time_for(path.outstanding));
        Self { rate, way: least / 2, backlog, late: LATE, loss: path.loss_ppm, again: path.again() }
    }

    /// What becomes of packets on it.
    fn chances(&self) -> Chances {
        let loss = self.loss as f32 / 1e6;
        Chances { loss, again: self.again.as_nanos(), spread: SPREAD.as_nanos() }
    }

    /// Picoseconds a byte. A rate of nothing lets nothing pass.
    fn picos(&self) -> u64 {
        8_000_000_000_000 / self.rate.as_bps().max(1)
    }

    /// How long the link may take for what has to be there at `deadline`.
    fn nanos_until(&self, now: Instant, deadline: Instant) -> u64 {
        deadline.saturating_since(now + self.way + self.backlog).as_nanos()
    }

    /// Bytes, and those of them that will have to be sent again.
    fn with_repairs(&self, bytes: u64) -> u64 {
        bytes + bytes * u64::from(self.loss) / 1_000_000
    }
}
