//! Streamer: sends media packets at the rate that its player requests, or that early feedback
//! advises.

use std::collections::VecDeque;

use timeous::Ladder;
use timeous::core::{AduMeta, AduSeq, Advice, DropReason, Duration, Fate, Instant, Priority, Rate, Reason};
use timeous_host::{Application, Outlet};

use super::message::{MediaHeader, REQUEST, Reassembly, Request};
use super::{HASTE, RATES, interval};

/// Send buffer, in packets; further packets are dropped, as a live call does not wait.
pub(crate) const BUFFER: usize = 64;
/// Every n-th packet is marked: the others depend on it.
pub(crate) const MARKED: u64 = 12;

/// Packet that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GeneratedPacket {
    pub(crate) at: Instant,
    pub(crate) level: usize,
    pub(crate) marked: bool,
    /// Reason why it never left the host, if so.
    pub(crate) gone: Option<SenderDrop>,
}

/// Reason why a packet never left its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SenderDrop {
    /// Full send buffer.
    Full,
    /// Drop by late choice.
    Choice,
}

/// Cause of a rate change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateChangeCause {
    /// Request of the player.
    Player,
    /// Early feedback about a queue.
    Queue,
    /// Early feedback about spare capacity.
    Room,
}

/// Change of the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateChange {
    pub(crate) at: Instant,
    pub(crate) level: usize,
    pub(crate) by: RateChangeCause,
}

/// Streamer of live media.
#[derive(Debug)]
pub(crate) struct Server {
    until: Instant,
    pieces: Reassembly,
    request: Request,
    /// Level, and its adaptation to early feedback as in a source with a few rates.
    ladder: Ladder,
    /// Time of the next packet, while it sends.
    next: Option<Instant>,
    /// Position in the media.
    media: Duration,
    made: Vec<GeneratedPacket>,
    /// Indices in `made` of the packets that the transport accepted, in the transport's order.
    taken: Vec<usize>,
    switches: Vec<RateChange>,
    /// Advice of early feedback that it has not followed yet.
    advised: Option<Advice>,
    /// Rate announced last.
    said: Rate,
    finished: bool,
    packet: Vec<u8>,
    /// Whether it sends while the link is probed.
    sends_on: bool,
    /// Capacity of its send buffer, in packets.
    capacity: usize,
    /// Whether packets in flight occupy the send buffer, and the number of packets whose fate is
    /// known.
    counts_flight: bool,
    settled: usize,
    /// Packets made and not handed over, oldest first, for [`shifted`](Self::shifted).
    behind: Option<VecDeque<Vec<u8>>>,
}

impl Server {
    /// Creates a streamer that ends at `until`.
    pub(crate) fn new(until: Instant) -> Self {
        Self {
            until,
            pieces: Reassembly::of(REQUEST),
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
            capacity: BUFFER,
            counts_flight: false,
            settled: 0,
            behind: None,
        }
    }

    /// Sets whether it sends while its player probes the link.
    pub(crate) fn sending_on(mut self, on: bool) -> Self {
        self.sends_on = on;
        self
    }

    /// Sets whether packets in flight occupy the send buffer, as with TCP.
    pub(crate) fn counting_flight(mut self, counts: bool) -> Self {
        self.counts_flight = counts;
        self
    }

    /// Sets the capacity of its send buffer, in packets.
    pub(crate) fn buffering(mut self, packets: usize) -> Self {
        self.capacity = packets;
        self
    }

    /// Sets whether packets that find the send buffer full are sent later, in place of their
    /// successors.
    pub(crate) fn shifted(mut self, shifted: bool) -> Self {
        self.behind = shifted.then(VecDeque::new);
        self
    }

    /// Returns the packets made, by number.
    pub(crate) fn made(&self) -> &[GeneratedPacket] {
        &self.made
    }

    /// Returns the rate changes.
    pub(crate) fn switches(&self) -> &[RateChange] {
        &self.switches
    }

    fn level(&self) -> usize {
        self.ladder.step()
    }

    fn switched(&mut self, now: Instant, by: RateChangeCause) {
        let level = self.level();
        if self.switches.last().is_none_or(|last| last.level != level) {
            self.switches.push(RateChange { at: now, level, by });
        }
    }

    /// Returns the sending rate.
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
            self.switched(
                now,
                if advice.reason == Reason::Room { RateChangeCause::Room } else { RateChangeCause::Queue },
            );
        }
    }

    fn send(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        let (number, level) = (self.made.len() as u64, self.level());
        let marked = number.is_multiple_of(MARKED);
        let media = MediaHeader { number, made: now, at: self.media, level, answers: self.request.number };
        media.write(&mut self.packet);
        self.media += interval(level);
        let priority = if marked { Priority::HIGHEST } else { Priority::NORMAL };
        let open = self.taken.len() - self.settled;
        let waits = |queued| if self.counts_flight { open } else { queued };
        let full = outlet.ring().is_some_and(|ring| waits(ring.queued_len()) >= self.capacity);
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
        self.made.push(GeneratedPacket { at: now, level, marked, gone: (!taken).then_some(SenderDrop::Full) });
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
            self.switched(now, RateChangeCause::Player);
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
            made.gone = Some(SenderDrop::Choice);
        }
    }
}
