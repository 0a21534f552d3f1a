//! Player: a buffer of media, and the control loop that chooses the rate (Hasan et al. §2.1).

use timeous::core::{AduMeta, Duration, Instant, Rate};
use timeous_host::{Application, Outlet};

use super::message::{MediaHeader, PACKET, Reassembly, Request};
use super::probe::{Probe, TIMEOUT};
use super::{RATES, fitting, interval};

/// Media in the buffer before playout starts.
pub(crate) const PLAYOUT: Duration = Duration::from_secs(1);
/// Least time over which the loss rate is measured.
pub(crate) const MONITORED: Duration = Duration::from_secs(1);
/// Loss rate above which the player lowers the level.
pub(crate) const INTOLERABLE: f64 = 0.05;
/// Time without trouble after which the player asks for a higher level.
pub(crate) const STEP: Duration = Duration::from_secs(30);
/// Loss rate in that time below which it does so.
pub(crate) const TOLERABLE: f64 = 0.01;
/// Steps without an empty buffer after which the level that emptied it is tried again.
pub(crate) const FORGIVEN: u64 = 2;
/// Interval between checks for the probe's result.
const LOOK: Duration = Duration::from_millis(10);

/// Differences from Goddard's rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlayerRules {
    /// After an empty buffer the packet pair alone decides the level, not the received rate.
    pub(crate) by_pair: bool,
    /// Losses are not counted.
    pub(crate) blind: bool,
    /// Level at which it begins, regardless of the packet pair.
    pub(crate) first: Option<usize>,
    /// It never asks for a higher level.
    pub(crate) content: bool,
}

/// Received media packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedPacket {
    pub(crate) number: u64,
    pub(crate) made: Instant,
    pub(crate) at: Instant,
}

/// Period without playout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    pub(crate) from: Instant,
    /// End of the period; `None`: it did not end.
    pub(crate) to: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Connection has just opened.
    New,
    /// Packet pair measures the bottleneck's rate.
    Probing,
    /// Buffer is filling.
    Buffering,
    /// Playout, since this time, from this position in the media.
    Playing { since: Instant, from: Duration },
}

/// Counters since the last decision.
#[derive(Clone, Copy, Debug)]
struct IntervalCounts {
    since: Instant,
    bytes: u64,
    received: u64,
    lost: u64,
}

impl IntervalCounts {
    fn from(since: Instant) -> Self {
        Self { since, bytes: 0, received: 0, lost: 0 }
    }

    fn share_lost(&self) -> f64 {
        self.lost as f64 / (self.lost + self.received).max(1) as f64
    }

    fn rate(&self, now: Instant) -> Option<Rate> {
        let time = now.saturating_since(self.since);
        (self.bytes > 0 && !time.is_zero()).then(|| Rate::from_bytes_in(self.bytes, time))
    }
}

/// Player of a stream.
#[derive(Debug)]
pub(crate) struct Player {
    probe: Probe,
    rules: PlayerRules,
    phase: Phase,
    pieces: Reassembly,
    request: Request,
    /// Time of the last transmission of the request; `None`: it must be sent.
    asked: Option<Instant>,
    answered: bool,
    level: usize,
    /// Bottleneck rate by the last packet pair, and the highest by any.
    capacity: Rate,
    best: Rate,
    /// Level at which the buffer last ran empty.
    bad: usize,
    /// Start of playout without an empty buffer, or the time at which the last one was forgiven.
    well: Instant,
    counted: IntervalCounts,
    /// Next expected packet number.
    expected: u64,
    /// Buffered media: start while the buffer fills, and end.
    begin: Option<Duration>,
    end: Duration,
    step: Instant,
    look: Instant,
    received: Vec<ReceivedPacket>,
    pauses: Vec<Pause>,
}

impl Player {
    /// Creates a player with its probe.
    pub(crate) fn new(probe: Probe, rules: PlayerRules) -> Self {
        Self {
            probe,
            rules,
            phase: Phase::New,
            pieces: Reassembly::of(PACKET),
            request: Request::default(),
            asked: Some(Instant::ZERO),
            answered: true,
            level: RATES.len() - 1,
            capacity: Rate::ZERO,
            best: Rate::ZERO,
            bad: RATES.len(),
            well: Instant::ZERO,
            counted: IntervalCounts::from(Instant::ZERO),
            expected: 0,
            begin: None,
            end: Duration::ZERO,
            step: Instant::FAR_FUTURE,
            look: Instant::ZERO,
            received: Vec::new(),
            pauses: Vec::new(),
        }
    }

    /// Returns the received packets.
    pub(crate) fn received(&self) -> &[ReceivedPacket] {
        &self.received
    }

    /// Returns the periods without playout: the initial one, then one for each time the buffer ran
    /// empty.
    pub(crate) fn pauses(&self) -> &[Pause] {
        &self.pauses
    }

    /// Requests the current level and phase.
    fn request_rate(&mut self, up: bool) {
        let Self { phase, level, request: Request { number, .. }, .. } = *self;
        let (play, fast) = (phase != Phase::Probing, phase == Phase::Buffering);
        self.request = Request { number: number + 1, play, fast, level, up };
        (self.asked, self.answered) = (None, false);
    }

    fn start_anew(&mut self, now: Instant) {
        self.counted = IntervalCounts::from(now);
        self.step = now + STEP;
    }

    /// Returns the level that fits the received rate and the link's capacity.
    fn affordable(&self, now: Instant) -> usize {
        fitting(self.counted.rate(now).map_or(self.capacity, |rate| rate.min(self.capacity)))
    }

    /// Probes the link when the buffer is empty, at the start too, before any media is sent.
    fn probe(&mut self) {
        self.phase = Phase::Probing;
        self.probe.ask();
    }

    /// Chooses a level by the packet pair's result.
    fn choose(&mut self, now: Instant, capacity: Rate) {
        self.capacity = capacity;
        self.best = self.best.max(capacity);
        if self.pauses.is_empty() {
            self.pauses.push(Pause { from: now, to: None });
            self.level = self.level.min(self.rules.first.unwrap_or(self.level));
        } else {
            self.bad = self.level;
        }
        self.level = if self.rules.by_pair { fitting(capacity) } else { self.level.min(self.affordable(now)) };
        self.phase = Phase::Buffering;
        self.start_anew(now);
        self.request_rate(false);
    }

    /// Raises the level by one, if losses, the best packet pair and the last empty buffer permit.
    fn climb(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Playing { .. }) && !self.rules.content {
            if now.saturating_since(self.well) >= STEP * FORGIVEN && self.bad < RATES.len() {
                self.bad += 1;
                self.well = now;
            }
            let above = self.level + 1;
            if above < self.bad
                && RATES.get(above).is_some_and(|rate| *rate < self.best)
                && self.counted.share_lost() < TOLERABLE
            {
                self.level = above;
                self.request_rate(true);
            }
        }
        self.start_anew(now);
    }

    /// Lowers the level by one if the loss rate is too high and the received rate is below the
    /// level's.
    fn judge_losses(&mut self, now: Instant) {
        if self.counted.lost == 0 || now.saturating_since(self.counted.since) <= MONITORED {
            return;
        }
        if self.counted.share_lost() > INTOLERABLE {
            if self.affordable(now) < self.level {
                self.level -= 1;
                self.request_rate(false);
            }
            self.well = now;
            self.start_anew(now);
        }
    }

    fn take(&mut self, now: Instant, media: MediaHeader) {
        self.received.push(ReceivedPacket { number: media.number, made: media.made, at: now });
        if media.answers == self.request.number {
            self.answered = true;
            // Early feedback may have changed the level meanwhile.
            self.level = media.level.min(RATES.len() - 1);
        }
        self.counted.bytes += PACKET as u64;
        self.counted.received += 1;
        let lost = media.number.saturating_sub(self.expected);
        self.counted.lost += if self.rules.blind { 0 } else { lost };
        self.expected = self.expected.max(media.number + 1);
        self.end = self.end.max(media.at + interval(media.level));
        let begin = *self.begin.get_or_insert(media.at);
        if self.phase == Phase::Buffering && self.end.saturating_sub(begin) >= PLAYOUT {
            self.phase = Phase::Playing { since: now, from: begin };
            self.well = now;
            if let Some(pause) = self.pauses.last_mut() {
                pause.to = Some(now);
            }
            self.request_rate(false);
        }
        self.judge_losses(now);
    }

    /// Returns the time at which the buffer will be empty without further packets.
    fn empty_at(&self) -> Option<Instant> {
        match self.phase {
            Phase::Playing { since, from } => Some(since + self.end.saturating_sub(from)),
            _ => None,
        }
    }
}

impl Application for Player {
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        if self.phase == Phase::New {
            self.probe();
        }
        if let Some(empty) = self.empty_at().filter(|empty| *empty <= now) {
            self.pauses.push(Pause { from: empty, to: None });
            self.begin = None;
            self.probe();
            self.request_rate(false);
        }
        if self.phase == Phase::Probing {
            self.look = now + LOOK;
            if let Some(capacity) = self.probe.answer() {
                self.choose(now, capacity);
            }
        }
        if now >= self.step {
            self.climb(now);
        }
        let due = self.asked.is_none_or(|at| !self.answered && now >= at + TIMEOUT);
        if due {
            // A request that is not sent now is repeated.
            let _again = outlet.send(AduMeta { enqueued: now, ..AduMeta::default() }, &self.request.write());
            self.asked = Some(now);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let look = (self.phase == Phase::Probing).then_some(self.look);
        let again = self.asked.filter(|_| !self.answered).map(|at| at + TIMEOUT);
        [look, again, self.empty_at(), Some(self.step)].into_iter().flatten().min()
    }

    fn on_received(&mut self, now: Instant, bytes: &[u8]) {
        for piece in self.pieces.push(bytes) {
            if let Some(media) = MediaHeader::read(&piece) {
                self.take(now, media);
            }
        }
    }
}

#[cfg(test)]
mod tests;
