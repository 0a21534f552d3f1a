//! The streamer: makes packets of media at the rate that its player asks for, or that early feedback advises.

use std::collections::VecDeque;

use timeous::Ladder;
use timeous::core::{AduMeta, AduSeq, Advice, DropReason, Duration, Fate, Instant, Priority, Rate, Reason};
use timeous_host::{Application, Outlet};

use super::message::{Media, Pieces, REQUEST, Request};
use super::{HASTE, RATES, interval};

/// So many packets wait at most to be sent; what comes beyond is given up, since nobody waits in a call.
pub(crate) const BUFFER: usize = 64;
/// Each so manieth packet is marked: on it the others depend.
pub(crate) const MARKED: u64 = 12;

/// A packet that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) at: Instant,
    pub(crate) level: usize,
    pub(crate) marked: bool,
    /// Why it never left the host.
    pub(crate) gone: Option<Gone>,
}

/// Why a packet never left its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// It found the send buffer full.
    Full,
    /// Late choice gave it up.
    Choice,
}

/// Who changed the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The player asked for it.
    Player,
    /// Early feedback told of a queue.
    Queue,
    /// Early feedback told of room.
    Room,
}

/// A change of the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Switch {
    pub(crate) at: Instant,
    pub(crate) level: usize,
    pub(crate) by: By,
}

/// The streamer.
#[derive(Debug)]
pub(crate) struct Server {
    until: Instant,
    pieces: Pieces,
    request: Request,
    /// Its level, and how it follows early feedback: as a source with a few rates does.
    ladder: Ladder,
    /// When the next packet is due, while it sends.
    next: Option<Instant>,
    /// Where in the media it is.
    media: Duration,
    made: Vec<Made>,
    /// Which of them the transport took, by its own numbers.
    taken: Vec<usize>,
    switches: Vec<Switch>,
    /// What it was advised and has not followed yet.
    advised: Option<Advice>,
    /// The rate that it has said last.
    said: Rate,
    finished: bool,
    packet: Vec<u8>,
    /// Whether it sends while the link is probed, too.
    sends_on: bool,
    /// Whether what is under way has its place in the send buffer, too, and how much has its fate.
    counts_flight: bool,
    settled: usize,
    /// What it has made and not handed over, where the oldest goes first.
    behind: Option<VecDeque<Vec<u8>>>,
}

impl Server {
    /// One that ends at `until`.
    pub(crate) fn new(until: Instant) -> Self {
        Self {
            until,
            pieces: Pieces::of(REQUEST),
            request: Request::default(),
            ladder: Ladder::new(RATES.to_vec()).expect("the rates rise"),
            next: None,
            media: Duration::ZERO,
            made: Vec::new(),
            taken: Vec::new(),
            switches: Vec::new(),
            advised: None,
            said: Rate::ZERO,
            finished: false,
            packet: Vec::new(),
            sends_on: false,
            counts_flight: false,
            settled: 0,
            behind: None,
        }
    }

    /// Sends while its player probes the link, too.
    pub(crate) fn sending_on(mut self, on: bool) -> Self {
        self.sends_on = on;
        self
    }

    /// What is under way has its place in the send buffer, as in TCP's.
    pub(crate) fn counting_flight(mut self, counts: bool) -> Self {
        self.counts_flight = counts;
        self
    }

    /// What finds the send buffer full takes the place of what comes next, and so on.
    pub(crate) fn shifted(mut self, shifted: bool) -> Self {
        self.behind = shifted.then(VecDeque::new);
        self
    }

    /// What it has made, by number.
    pub(crate) fn made(&self) -> &[Made] {
        &self.made
    }

    /// How its rate changed.
    pub(crate) fn switches(&self) -> &[Switch] {
        &self.switches
    }

    fn level(&self) -> usize {
        self.ladder.step()
    }

    fn switched(&mut self, now: Instant, by: By) {
        let level = self.level();
        if self.switches.last().is_none_or(|last| last.level != level) {
            self.switches.push(Switch { at: now, level, by });
        }
    }

    /// What it sends.
    fn rate(&self) -> Rate {
        match (self.request.play, self.request.fast) {
            (false, _) => Rate::ZERO,
            (true, false) => RATES[self.level()],
            (true, true) => Rate::from_bps(RATES[self.level()].as_bps() * HASTE.0 / HASTE.1),
        }
    }

    fn take_advice(&mut self, now: Instant) {
        let Some(advice) = self.advised.take().filter(|_| self.request.play) else { return };
        if self.ladder.follow(&advice) {
            self.switched(now, if advice.reason == Reason::Room { By::Room } else { By::Queue });
        }
    }

    fn send(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        let (number, level) = (self.made.len() as u64, self.level());
        let marked = number.is_multiple_of(MARKED);
        let media = Media { number, made: now, at: self.media, level, answers: self.request.number };
        media.write(&mut self.packet);
        self.media += interval(level);
        let priority = if marked { Priority::HIGHEST } else { Priority::NORMAL };
        let open = self.taken.len() - self.settled;
        let waits = |queued| if self.counts_flight { open } else { queued };
        let full = outlet.ring().is_some_and(|ring| waits(ring.queued_len()) >= BUFFER);
        let meta = AduMeta { enqueued: now, priority, ..AduMeta::default() };
        let taken = match &mut self.behind {
            Some(behind) => {
                behind.push_back(self.packet.clone());
                let taken = outlet.send(meta, &behind[0]).is_ok();
                if taken {
                    behind.pop_front();
                }
                taken
            }
            None => !full && outlet.send(meta, &self.packet).is_ok(),
        };
        if taken {
            self.taken.push(self.made.len());
        }
        self.made.push(Made { at: now, level, marked, gone: (!taken).then_some(Gone::Full) });
    }
}

impl Application for Server {
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        if now >= self.until {
            if !std::mem::replace(&mut self.finished, true) {
                self.next = None;
                outlet.finish();
            }
            return;
        }
        self.take_advice(now);
        if self.rate() != self.said {
            self.said = self.rate();
            outlet.set_rate(self.said);
        }
        while let Some(due) = self.next.filter(|due| *due <= now) {
            self.send(now, outlet);
            self.next = Some(due + self.rate().time_for(self.packet.len() as u64));
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.finished { None } else { Some(self.next.unwrap_or(self.until).min(self.until)) }
    }

    fn on_received(&mut self, now: Instant, bytes: &[u8]) {
        for piece in self.pieces.push(bytes) {
            let Some(request) = Request::read(&piece).filter(|request| request.number > self.request.number) else {
                continue;
            };
            if self.sends_on && self.request.play && !request.play {
                continue;
            }
            self.request = request;
            self.next = request.play.then(|| self.next.unwrap_or(now));
            let most = if request.up || self.switches.is_empty() { RATES.len() - 1 } else { self.level() };
            self.ladder.take(request.level.min(most));
            self.switched(now, By::Player);
        }
    }

    fn on_advice(&mut self, _: Instant, advice: &Advice) {
        self.advised = Some(*advice);
    }

    fn on_fate(&mut self, _: Instant, seq: AduSeq, fate: Fate) {
        self.settled += 1;
        if let Fate::Dropped(reason) = fate
            && reason != DropReason::Closed
            && let Some(made) = self.taken.get(seq.0 as usize).and_then(|&index| self.made.get_mut(index))
        {
            made.gone = Some(Gone::Choice);
        }
    }
}
