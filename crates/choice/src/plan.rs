//! Planning policy: keeps the set of frames of which most can be decoded in time, including frames expected from the source.

mod forecast;
mod frames;
mod pattern;
mod schedule;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use timeous_core::{
    AduMeta, AduSeq, ArrivalModel, DropReason, Duration, Fate, FrameId, Instant, LateChoice, PathState, Queue, Rate,
    SubStream,
};

use forecast::{EQUAL, Forecast, MAX_VIDEOS};
use frames::{Name, Waiting, gather};
use schedule::{Chances, Job, MAX_JOBS, Scheduler, Timing};

/// Maximum number of broken frames remembered. Chosen by us: a higher value takes more memory; older frames have no
/// dependents in the queue.
const MAX_BROKEN: usize = 1024;
/// Lifetime of a plan, unless a frame comes or breaks, or everything that it kept was sent. Chosen by us: a higher
/// value costs less time, and follows the path's state later.
const PLAN_LIFETIME: Duration = Duration::from_millis(10);
/// Mean error of the times at which frames will have left, beyond that of predicted arrivals: sizes of frames to come vary. Without it
/// valuable frames were late by a millisecond (docs/decisions/path-model.md); 10 and 40 ms were worse
/// (docs/decisions/plan-arrival-uncertainty.md).
const ARRIVAL_ERROR: Duration = Duration::from_millis(20);
/// Maximum number of expected frames (docs/design/late-choice.md): two seconds of 30 frames per second. Chosen by us: a
/// higher value makes plans slower.
const MAX_EXPECTED: usize = 60;
/// Base value of a frame, to which its priority (0 to 255) is added. Chosen by us: one more frame outweighs the
/// priorities of sixteen.
const FRAME_VALUE: u64 = 4_096;
/// Approximate maximum size of two packets, in bytes (1500 each, Ethernet's MTU). A higher value sends useless data for
/// longer (docs/decisions/plan-useless-data.md).
const TWO_PACKETS: u64 = 3_000;
/// Weight of expected frames, which may not come, in sixteenths. Chosen by us: a higher value drops more queued frames
/// for them.
const EXPECTED_WEIGHT: u64 = 15;

/// Keeps the frames of which most can be decoded in time.
///
/// Estimates the arrival of each queued frame from the path's rate and RTT, and finds the most valuable set: complete
/// frames only, whose references are in the set or delivered, and that arrive in time. Frames expected from the
/// source's past are included, so that the tail of a group makes room for the next keyframe. Frames outside the set are
/// dropped only once they precede the first packet of the set: later ones may be sent after all if the path proves
/// faster.
///
/// A frame's value counts with its probability of arriving. Arrival exactly at the deadline has an even chance;
/// slightly later arrival has less, and is sent if it delays nothing else. On lossy paths late sending leaves no time
/// for retransmissions, also of dependents: the tail of a group that would make all later frames late is dropped.
///
/// All frames are worth the same, with the priority as a tie-breaker, unless [`weighing`](Self::weighing) changes that.
/// A new plan is made when a frame comes or is lost, when only excluded frames are queued, and every 10 ms while
/// packets are sent; its cost is bounded and depends on the queued frames, and other packets cost nothing.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    weights: Vec<(SubStream, u32)>,
    /// Worth of a frame from which on it leaves before the first round trip is measured.
    first_worth: u64,
    broken: BTreeSet<FrameId>,
    forecast: Forecast,
    /// Latest packet seen.
    newest: Option<AduSeq>,
    /// Queued frames that the plan excludes.
    left_out: BTreeSet<Name>,
    /// Frame that is partly sent.
    begun: Option<Name>,
    /// Time of the plan; `None` if a new one is needed.
    planned: Option<Instant>,
    /// Indices of useless packets, queued frames, and their jobs: fields only to reuse their memory.
    useless: Vec<usize>,
    waiting: Vec<Waiting>,
    jobs: Vec<Job>,
    scheduler: Scheduler,
}

impl Plan {
    /// Sets the value of a frame of `substream`, in frames; one by default.
    #[must_use]
    pub fn weighing(mut self, substream: SubStream, weight: u32) -> Self {
        self.weights.retain(|(of, _)| *of != substream);
        self.weights.push((substream, weight));
        self
    }

    /// Leaves out sub-streams that count less than `weight` while the first round trip is measured: behind them a loss of the first frames
    /// could not be repaired in time.
    #[must_use]
    pub fn beginning_with(mut self, weight: u32) -> Self {
        self.first_worth = u64::from(weight) * FRAME_VALUE;
        self
    }

    fn worth(&self, meta: &AduMeta) -> u64 {
        let weight = self.weights.iter().find(|(of, _)| *of == meta.substream).map_or(1, |&(_, weight)| weight);
        u64::from(weight) * (FRAME_VALUE + u64::from(meta.priority.0))
    }

    /// Marks a frame as lost for good, and with it all that depend on it, sent or not.
    fn break_frame(&mut self, frame: FrameId) {
        let Self { broken, forecast, .. } = self;
        if frame == FrameId::NONE || !broken.insert(frame) {
            return;
        }
        self.planned = None;
        forecast.break_chains(broken);
        while self.broken.len() > MAX_BROKEN {
            self.broken.pop_first();
        }
    }

    fn is_useless(&self, meta: &AduMeta) -> bool {
        self.broken.contains(&meta.frame) || meta.references.iter().any(|frame| self.broken.contains(&frame))
    }

    /// Drops packets that are useless whatever the plan, and learns new ones. Returns whether useful packets are left.
    fn pass_over(&mut self, now: Instant, path: &PathState, queue: &mut dyn Queue) -> bool {
        // While nothing is in flight the path's state ages, and nothing else would show that it is faster again.
        let least = match (predictable(path), path.outstanding) {
            (_, 0) => Duration::ZERO,
            (Some(_), _) => path.arrival(now, 0).earliest.saturating_since(now),
            (None, _) => path.min_rtt.unwrap_or(Duration::ZERO) / 2,
        };
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

    /// Drops packets whose references are lost; returns whether useful ones are left. If there are none, and the path
    /// seems too slow for the next keyframe, useless packets may be sent until that is due: a silent stream neither
    /// learns about the path nor gets a window for the keyframe.
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

    /// Whether the path should be kept busy without useful packets.
    fn holds_place(&self, now: Instant, path: &PathState) -> bool {
        let Some(head) = self.forecast.next_head() else { return path.contended };
        let Link { way, queued, .. } = Link::new(now, path);
        // A packet sent now must have left the link before the keyframe comes.
        let is_far = head.at > now + queued + path.rate.time_for(TWO_PACKETS);
        let takes = path.rate.time_for(head.bytes) + way;
        let is_late = |takes| head.deadline.is_some_and(|deadline| head.at + takes > deadline);
        // The window suffices for the keyframe, which would be late behind a queue that these packets would join.
        let is_enough = path.window >= head.bytes && is_late(queued + takes);
        is_far && (path.contended && !is_enough || is_late(takes))
    }

    /// Makes a plan: determines the frames to exclude.
    fn plan(&mut self, now: Instant, path: &PathState, queue: &dyn Queue) {
        let mut waiting = std::mem::take(&mut self.waiting);
        self.forecast.weigh(&self.broken);
        gather(queue, |meta| self.worth(meta) * self.forecast.weight(meta.substream), &mut waiting);
        let link = Link::new(now, path);
        self.set_jobs(now, &link, &waiting);
        let taken = self.scheduler.best(&self.jobs, link.timing());
        self.left_out.clear();
        let out = waiting.iter().enumerate().filter(|(at, _)| taken >> at & 1 == 0);
        self.left_out.extend(out.map(|(_, frame)| frame.name));
        self.waiting = waiting;
        self.planned = Some(now);
    }

    /// Whether all queued frames are excluded.
    fn keeps_nothing(&self, queue: &dyn Queue) -> bool {
        (0..queue.len()).filter_map(|at| queue.get(at)).all(|(meta, _)| self.left_out.contains(&Name::of(meta)))
    }

    /// Makes a new plan after everything in the last one was sent: excluded frames may fit now. Does not fall back to
    /// `hope`: the packets just sent will show the path's state, and frames that cannot arrive would keep its queue
    /// full.
    fn plan_again(&mut self, now: Instant, path: &PathState, queue: &dyn Queue) {
        // The smoothed RTT shows late that a queue is gone; nothing else is queued that an error would delay.
        let srtt = path.srtt.map(|srtt| path.latest_rtt.map_or(srtt, |latest| srtt.min(latest)));
        self.plan(now, &PathState { srtt, ..*path }, queue);
    }

    /// Whether a new plan without any queued frame leaves them out for expected ones: some could arrive, by predictions
    /// that err little. Sent in spite of it, the last frame of a group made the next keyframe late.
    fn leaves_room(&mut self, now: Instant, path: &PathState) -> bool {
        let link = Link::new(now, path);
        let queued = self.waiting.len();
        link.error < ARRIVAL_ERROR * 2 && self.scheduler.best(&self.jobs[..queued], link.timing()) != 0
    }

    /// Handles a plan without any queued frame: keeps those that could arrive on an empty path, because a stream that
    /// sends nothing learns nothing about its path.
    fn hope(&mut self, now: Instant, path: &PathState) {
        let waiting = std::mem::take(&mut self.waiting);
        let link =
            Link { backlog: Duration::ZERO, late: Duration::ZERO, begun_late: Duration::ZERO, ..Link::new(now, path) };
        self.set_jobs(now, &link, &waiting);
        let taken = self.scheduler.best(&self.jobs, Timing::default());
        for (at, frame) in waiting.iter().enumerate() {
            if taken >> at & 1 == 1 {
                self.left_out.remove(&frame.name);
            }
        }
        self.waiting = waiting;
    }

    /// Frames that were sent and are lost, each with all that depend on it.
    fn lost(&self, waiting: &[Waiting]) -> Vec<(usize, BTreeSet<FrameId>)> {
        let lost = waiting.iter().enumerate().filter(|(_, frame)| frame.begun);
        lost.filter(|(_, frame)| frame.name.frame() != FrameId::NONE)
            .map(|(at, frame)| {
                let mut dependents = BTreeSet::from([frame.name.frame()]);
                self.forecast.break_chains(&mut dependents);
                (at, dependents)
            })
            .collect()
    }

    /// Converts queued and expected frames to jobs.
    fn set_jobs(&mut self, now: Instant, link: &Link, waiting: &[Waiting]) {
        let lost = self.lost(waiting);
        // Job that a reference stands for: its own, or that of a lost frame that it depends on. Other references may have arrived.
        let needed = |reference: FrameId, before: usize| {
            let waits = waiting[..before].iter().position(|frame| frame.name.frame() == reference);
            waits.or_else(|| {
                lost.iter().rev().find(|(at, of)| *at < before && of.contains(&reference)).map(|(at, _)| *at)
            })
        };
        let jobs = &mut self.jobs;
        jobs.clear();
        for frame in waiting.iter() {
            let begun = frame.begun || self.begun == Some(frame.name);
            let due = link.nanos_until(now, frame.deadline);
            let late = if due <= link.backlog.as_nanos() { Duration::ZERO } else { link.late };
            let late = late + if begun { link.begun_late } else { Duration::ZERO };
            let deadline = due.saturating_add(late.as_nanos());
            let rest = self.forecast.rest(now, frame.name.frame());
            let bytes = link.takes(rest + counted(frame.bytes, frame.packets), frame.packets);
            let packets = frame.packets as f32;
            // Data of more packets may be of any rate, such as pictures that are scrambled.
            let (worth, is_required) = (frame.worth, frame.is_table && frame.packets == 1);
            let mut job = Job { deadline, due, bytes, packets, worth, is_required, ..Job::default() };
            for reference in frame.references.iter() {
                if let Some(at) = needed(reference, jobs.len()) {
                    let _four_at_most = job.need(at);
                }
            }
            jobs.push(job);
        }
        // Expected frames follow the queued ones, as many as there is room for.
        let first = jobs.len();
        let room = MAX_EXPECTED.min(MAX_JOBS - first);
        // Jobs of each video's expected frames, and their number.
        let mut of_video = [([0_u8; MAX_EXPECTED], 0); MAX_VIDEOS];
        for (video, frame) in self.forecast.ahead().take(room) {
            let (before, count) = &mut of_video[video];
            let n = *count;
            let (release, deadline) = (frame.at.saturating_since(now), frame.deadline.unwrap_or(Instant::FAR_FUTURE));
            let due = link.nanos_until(now, deadline);
            let mut job = Job {
                release: release.as_nanos(),
                deadline: due,
                due,
                bytes: link.takes(frame.bytes, frame.packets as u64),
                packets: frame.packets,
                worth: frame.worth * EXPECTED_WEIGHT / EQUAL,
                ..Job::default()
            };
            let mut lost = false;
            for back in frame.back.into_iter().filter(|&back| back > 0 && back < u16::MAX).map(usize::from) {
                if back <= n {
                    let _four_at_most = job.need(usize::from(before[n - back]));
                } else if let Some(id) = self.forecast.id_before_newest(video, back - n - 1) {
                    lost |= self.broken.contains(&id);
                    if let Some(at) = needed(id, first) {
                        let _four_at_most = job.need(at);
                    }
                }
            }
            if lost {
                job.deadline = 0;
            }
            before[n] = jobs.len() as u8;
            *count += 1;
            jobs.push(job);
        }
    }

    /// Drops the frames that do not leave before the first round trip is measured.
    fn leave_out_first(&mut self, queue: &mut dyn Queue) {
        for at in 0..queue.len() {
            let Some((&meta, _)) = queue.get(at) else { continue };
            if self.worth(&meta) < self.first_worth {
                queue.drop_at(at, DropReason::Policy);
                self.break_frame(meta.frame);
            }
        }
    }

    /// Drops the packets before the first one of the plan.
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
            // Dropping an excluded frame needs no new plan.
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
            let is_old = self.planned.is_none_or(|planned| now.saturating_since(planned) >= PLAN_LIFETIME);
            if is_old {
                self.plan(now, path, queue);
            }
            if self.keeps_nothing(queue) {
                if !is_old {
                    self.plan_again(now, path, queue);
                } else if !self.leaves_room(now, path) {
                    self.hope(now, path);
                }
            }
        } else if path.outstanding > 0 {
            self.leave_out_first(queue);
        }
        self.clear_the_way(queue);
    }

    fn is_worth_repeating(&mut self, now: Instant, path: &PathState, meta: &AduMeta) -> bool {
        !path.is_too_late(now, meta, 0) && !self.is_useless(meta)
    }

    fn on_fate(&mut self, meta: &AduMeta, fate: Fate) {
        match fate {
            Fate::Acked => {}
            Fate::Lost | Fate::Dropped(_) => self.break_frame(meta.frame),
        }
    }

    fn on_missed(&mut self, meta: &AduMeta) {
        self.break_frame(meta.frame);
    }
}

/// Bytes as the Congestion Manager counts them, about: rates include the headers of DCCP packets.
fn counted(bytes: u64, packets: u64) -> u64 {
    const HEADER: u64 = 20;
    bytes + packets * HEADER
}

/// Model of arrivals, unless others fill the queue: how much of it they will have taken when a frame leaves is not predicted.
fn predictable(path: &PathState) -> Option<&ArrivalModel> {
    path.arrivals.as_ref().filter(|_| !path.contended)
}

/// Path parameters for planning.
#[derive(Clone, Copy, Debug)]
struct Link {
    rate: Rate,
    /// Rate of the path's bottleneck, if known, and the headers of a packet on it that `rate` does not include.
    capacity: Option<(Rate, u64)>,
    /// Delay from the end of the path's queue to the peer.
    way: Duration,
    /// Time that a packet sent now waits in the path's queue; and for this host's packets, at most.
    queued: Duration,
    backlog: Duration,
    /// Estimated lateness beyond which a queued frame is dropped, and how much later one may be that is partly sent.
    late: Duration,
    begun_late: Duration,
    /// Mean error of estimated arrivals.
    error: Duration,
    /// Packet loss rate, in parts per million.
    loss: u32,
    /// Time until a lost packet is retransmitted.
    again: Duration,
}

impl Link {
    fn new(now: Instant, path: &PathState) -> Self {
        let Some(model) = predictable(path) else { return Self::by_round_trip(path) };
        let backlog = model.clears.saturating_since(now + model.passage);
        Self {
            rate: path.rate,
            capacity: model.capacity.map(|capacity| (capacity, u64::from(model.headers))),
            way: model.passage,
            queued: backlog,
            backlog,
            late: model.early,
            begun_late: Duration::ZERO,
            error: model.error + ARRIVAL_ERROR,
            loss: path.loss_ppm,
            again: path.again(),
        }
    }

    /// Where the transport reports no arrivals: by the smoothed RTT.
    fn by_round_trip(path: &PathState) -> Self {
        let least = path.min_rtt.unwrap_or(Duration::ZERO);
        // Queueing delay a round trip ago, but no more than the bytes in flight can cause.
        let queued = path.srtt.unwrap_or(least).saturating_sub(least);
        let backlog = queued.min(path.rate.time_for(path.outstanding));
        let late = ARRIVAL_ERROR * 2;
        Self {
            rate: path.rate,
            capacity: None,
            way: least / 2,
            queued,
            backlog,
            late,
            begun_late: backlog,
            error: ARRIVAL_ERROR,
            loss: path.loss_ppm,
            again: path.again(),
        }
    }

    /// Speed, and probabilities of losses and errors.
    fn timing(&self) -> Timing {
        let loss = self.loss as f32 / 1e6;
        let chances = Chances { loss, again: self.again.as_nanos(), spread: self.error.as_nanos() };
        let rate = self.capacity.map_or(self.rate, |(capacity, _)| capacity);
        Timing { picos: 8_000_000_000_000 / rate.as_bps().max(1), busy: self.backlog.as_nanos(), chances }
    }

    /// Link time until a frame must have left the path's queue to arrive by `deadline`.
    fn nanos_until(&self, now: Instant, deadline: Instant) -> u64 {
        deadline.saturating_since(now + self.way).as_nanos()
    }

    /// Bytes of the bottleneck that a frame takes, with its expected retransmissions: its own and those of headers, or more where the
    /// flow's rate is below the bottleneck's.
    fn takes(&self, bytes: u64, packets: u64) -> u64 {
        let bytes = bytes + bytes * u64::from(self.loss) / 1_000_000;
        self.capacity.map_or(bytes, |(capacity, headers)| {
            let by_rate = bytes as f64 * capacity.as_bps() as f64 / self.rate.as_bps().max(1) as f64;
            (by_rate as u64).max(bytes + packets * headers)
        })
    }
}
