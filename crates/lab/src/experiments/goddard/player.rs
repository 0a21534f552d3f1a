//! The player: a buffer of media, and the control loop that chooses the rate (Hasan et al. §2.1).

use timeous::core::{AduMeta, Duration, Instant, Rate};
use timeous_host::{Application, Outlet};

use super::message::{Media, PACKET, Pieces, Request};
use super::probe::{Probe, TIMEOUT};
use super::{RATES, fitting, interval};

/// So much of the media is in the buffer before it plays.
pub(crate) const PLAYOUT: Duration = Duration::from_secs(1);
/// Losses are judged over at least this time.
pub(crate) const MONITORED: Duration = Duration::from_secs(1);
/// A larger share of lost packets lowers the rate.
pub(crate) const INTOLERABLE: f64 = 0.05;
/// A higher rate is asked for after so long without trouble.
pub(crate) const STEP: Duration = Duration::from_secs(30);
/// And only if a smaller share of the packets was lost meanwhile.
pub(crate) const TOLERABLE: f64 = 0.01;
/// A rate at which the buffer ran empty is tried again after so many steps without that.
pub(crate) const FORGIVEN: u64 = 2;
/// How often it looks for what the probe has found.
const LOOK: Duration = Duration::from_millis(10);

/// Where it is not as Goddard is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// After an empty buffer the pair alone says which rate is taken, and not what came.
    pub(crate) by_pair: bool,
    /// No losses are counted.
    pub(crate) blind: bool,
    /// It begins at this level, whatever the pair tells.
    pub(crate) first: Option<usize>,
    /// It never asks for more than it has.
    pub(crate) content: bool,
}

/// A packet of media that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) number: u64,
    pub(crate) made: Instant,
    pub(crate) at: Instant,
}

/// A time in which nothing plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    pub(crate) from: Instant,
    /// `None`: it did not end.
    pub(crate) to: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The connection has just opened.
    New,
    /// The narrowest link is asked for its rate.
    Probing,
    /// The buffer fills.
    Buffering,
    /// From then on it plays, from there in the media.
    Playing { since: Instant, from: Duration },
}

/// What came since the last decision.
#[derive(Clone, Copy, Debug)]
struct Counted {
    since: Instant,
    bytes: u64,
    received: u64,
    lost: u64,
}

impl Counted {
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

/// The player.
#[derive(Debug)]
pub(crate) struct Player {
    probe: Probe,
    rules: Rules,
    phase: Phase,
    pieces: Pieces,
    request: Request,
    /// When it was sent last; `None`: it has to be sent.
    asked: Option<Instant>,
    answered: bool,
    level: usize,
    /// What the last pair told, and the most that one told.
    capacity: Rate,
    best: Rate,
    /// The level at which the buffer ran empty last.
    bad: usize,
    /// Since when it plays without that, or since when that was forgiven.
    well: Instant,
    counted: Counted,
    /// The number that comes next.
    expected: u64,
    /// Of what is in the buffer: where it begins, if it fills, and where it ends.
    begin: Option<Duration>,
    end: Duration,
    step: Instant,
    look: Instant,
    received: Vec<Received>,
    pauses: Vec<Pause>,
}

impl Player {
    /// One with what probes for it.
    pub(crate) fn new(probe: Probe, rules: Rules) -> Self {
        Self {
            probe,
            rules,
            phase: Phase::New,
            pieces: Pieces::of(PACKET),
            request: Request::default(),
            asked: Some(Instant::ZERO),
            answered: true,
            level: RATES.len() - 1,
            capacity: Rate::ZERO,
            best: Rate::ZERO,
            bad: RATES.len(),
            well: Instant::ZERO,
            counted: Counted::from(Instant::ZERO),
            expected: 0,
            begin: None,
            end: Duration::ZERO,
            step: Instant::FAR_FUTURE,
            look: Instant::ZERO,
            received: Vec::new(),
            pauses: Vec::new(),
        }
    }

    /// What came.
    pub(crate) fn received(&self) -> &[Received] {
        &self.received
    }

    /// When nothing played: first until it began to, then each time the buffer was empty.
    pub(crate) fn pauses(&self) -> &[Pause] {
        &self.pauses
    }

    /// Asks for what is wanted now.
    fn ask(&mut self, up: bool) {
        let Self { phase, level, request: Request { number, .. }, .. } = *self;
        let (play, fast) = (phase != Phase::Probing, phase == Phase::Buffering);
        self.request = Request { number: number + 1, play, fast, level, up };
        (self.asked, self.answered) = (None, false);
    }

    fn start_anew(&mut self, now: Instant) {
        self.counted = Counted::from(now);
        self.step = now + STEP;
    }

    /// The level that what came, or what the link carries, is enough for.
    fn affordable(&self, now: Instant) -> usize {
        fitting(self.counted.rate(now).map_or(self.capacity, |rate| rate.min(self.capacity)))
    }

    /// Nothing is left to play, or it never has been: the link is probed before anything is sent.
    fn probe(&mut self) {
        self.phase = Phase::Probing;
        self.probe.ask();
    }

    /// The pair has come.
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
        self.ask(false);
    }

    /// A level more, if nothing speaks against it.
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
                self.ask(true);
            }
        }
        self.start_anew(now);
    }

    /// A level less, if too much is lost and what comes is not enough for this one.
    fn judge_losses(&mut self, now: Instant) {
        if self.counted.lost == 0 || now.saturating_since(self.counted.since) <= MONITORED {
            return;
        }
        if self.counted.share_lost() > INTOLERABLE {
            if self.affordable(now) < self.level {
                self.level -= 1;
                self.ask(false);
            }
            self.well = now;
            self.start_anew(now);
        }
    }

    fn take(&mut self, now: Instant, media: Media) {
        self.received.push(Received { number: media.number, made: media.made, at: now });
        if media.answers == self.request.number {
            self.answered = true;
            // Early feedback may have changed it meanwhile.
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
            self.ask(false);
        }
        self.judge_losses(now);
    }

    /// When the buffer is empty, as it stands.
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
            self.ask(false);
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
            // What does not get through is said again.
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
            if let Some(media) = Media::read(&piece) {
                self.take(now, media);
            }
        }
    }
}

#[cfg(test)]
mod tests;
