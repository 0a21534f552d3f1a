//! Records as payload, with late choice: the content of a segment is chosen anew for each transmission (McQuistin
//! §3.2).
//!
//! Each datagram has a place in the stream, as long as its record. A segment holds one place, or as many datagrams as
//! wait at the same instant and fit, so that fewer packets can be lost. If content never changes, segments are filled:
//! what does not fit begins in one and ends in the next, as in a byte stream, to the last byte: a window that counts bytes
//! would grow later for each that is missing. A place that may change is never cut.
//!
//! If a place is retransmitted and its datagram is not worth it any more, the best fitting unsent datagram takes its
//! place, or padding: the length is kept.
//!
//! # Partial and mixed versions
//! If the peer has a part of a place (a segment split on the way), the rest is sent with the same bytes.
//!
//! If several versions of a place were sent, it may be unknown which one arrived. Then its datagram counts as
//! undelivered until that is certain, and is sent again when nothing better is queued.
//!
//! # Middleboxes
//! Some middleboxes swallow a changed retransmission, or replay their buffered copy (Honda et al.; McQuistin §4.2). So
//! only datagrams with a deadline replace others, and a place whose new version does not arrive is restored to its
//! first bytes.
//!
//! If that helped, and no new version ever arrived, replacement pauses, and in the end stops.

mod held;
mod place;

use std::collections::VecDeque;
use std::ops::Range;

use timeous_core::{AduMeta, AduSource, DropReason, Duration, Instant, PathState, PulledAdu};

use super::payload::{Arrived, Changes, DELAYED_ACK, Fresh, Payload, Room, Settled};
use crate::record::{TIMED, Writer, substream_len, substream_of};
use held::Held;
use place::{Place, Version};

/// Maximum number of datagrams pulled ahead of their turn, because they did not fit into the free place. Chosen by us:
/// a higher value fills more places, and chooses earlier.
const MAX_WAITING: usize = 4;
/// Pause of replacement after the first place that arrived only when restored; doubled after the second. Chosen by us:
/// a higher value sends more stale data after a wrong suspicion.
const REPLACEMENT_PAUSE: Duration = Duration::from_secs(2);
/// Places that arrived only when restored, after which the path counts as rejecting changes
/// (docs/decisions/tcp-path-check.md). A lower value gives up more paths that bear changes.
const MAX_RESTORED: u32 = 3;

/// Datagrams as records, each in a place of the stream.
#[derive(Debug)]
pub(crate) struct Late {
    /// Whether places may get another datagram.
    replaces: bool,
    records: Writer,
    places: VecDeque<Place>,
    /// End of the stream, and of what has left of it: less, if a record was cut at the end of a segment.
    end: u64,
    left: u64,
    held: Held,
    /// Pulled, unsent datagrams that were too long for the place that they were pulled for.
    waiting: VecDeque<u32>,
    /// Sent datagrams that certainly did not arrive: the peer has an earlier version of their place.
    missing: VecDeque<u32>,
    /// Sent datagrams that perhaps did not arrive.
    doubtful: VecDeque<u32>,
    /// Largest payload of a segment so far.
    room: usize,
    /// Sizes of the latest segments.
    sizes: [u64; 4],
    settled: VecDeque<Settled>,
    /// Datagrams that missed their deadline, not yet reported to the source.
    missed: Vec<AduMeta>,
    changes: Changes,
    /// Whether a new version was ever known to arrive, and the number of places that arrived only when restored.
    is_borne: bool,
    refusals: u32,
    paused_until: Instant,
}

impl Late {
    pub(crate) fn new(replaces: bool, records: Writer) -> Self {
        Self {
            replaces,
            records,
            places: VecDeque::new(),
            end: 0,
            left: 0,
            held: Held::default(),
            waiting: VecDeque::new(),
            missing: VecDeque::new(),
            doubtful: VecDeque::new(),
            room: 0,
            sizes: [0; 4],
            settled: VecDeque::new(),
            missed: Vec::new(),
            changes: Changes::default(),
            is_borne: false,
            refusals: 0,
            paused_until: Instant::ZERO,
        }
    }

    /// Returns the next datagram for a new place with room for a payload of `room` bytes.
    fn next(&mut self, now: Instant, path: &PathState, room: usize, source: &mut dyn AduSource) -> Option<u32> {
        self.next_missing(now, path, room, source)
            .or_else(|| self.next_waiting(now, path, room, source))
            .or_else(|| self.held.pull(now, path, room, source))
            .or_else(|| self.next_doubtful(now, path, room, source))
    }

    /// Returns another waiting datagram whose record fits into `room` bytes of the segment that is sent at this instant.
    fn beside(&mut self, now: Instant, path: &PathState, room: usize, source: &mut dyn AduSource) -> Option<u32> {
        let room = self.records.room(room)?;
        self.next_missing(now, path, room, source)
            .or_else(|| self.next_waiting(now, path, room, source))
            .or_else(|| self.held.pull_beside(now, path, room, source))
    }

    /// Chooses the datagrams of a segment of `most` bytes, behind the rest of a cut record. Returns them with the length of all:
    /// the first may be longer than `most`.
    fn choose(
        &mut self,
        now: Instant,
        path: &PathState,
        (longest, mut most): (usize, usize),
        source: &mut dyn AduSource,
    ) -> (VecDeque<u32>, usize) {
        let (mut chosen, mut len) = (VecDeque::new(), self.rest());
        let mut next = match len {
            0 => self.next(now, path, longest, source),
            _ => self.beside(now, path, most.saturating_sub(len), source),
        };
        while let Some(number) = next {
            len += self.record_len(number);
            chosen.push_back(number);
            if let Some((meta, _)) = self.held.get(number).filter(|_| self.replaces) {
                // It arrives with the last byte of its segment.
                most = most.min(usize::try_from(path.bytes_in_time(now, meta)).unwrap_or(usize::MAX));
            }
            next = self.beside(now, path, most.saturating_sub(len), source);
        }
        (chosen, len)
    }

    fn record_len(&self, number: u32) -> usize {
        let substream = self.held.get(number).map_or(TIMED, |(meta, _)| substream_of(meta));
        self.records.record_len(self.held.len(number) + substream_len(substream))
    }

    /// Keeps chosen datagrams for a later segment.
    fn keep(&mut self, chosen: VecDeque<u32>) {
        for number in chosen.into_iter().rev() {
            let queue = if self.held.has_left(number) { &mut self.doubtful } else { &mut self.waiting };
            queue.push_front(number);
        }
    }

    fn has_waiting(&self, now: Instant, source: &mut dyn AduSource) -> bool {
        let is_here = [&self.waiting, &self.missing, &self.doubtful].into_iter().any(|numbers| !numbers.is_empty());
        is_here || source.has_queued(now)
    }

    /// Returns the bytes of the last record that are still to leave.
    fn rest(&self) -> usize {
        (self.end - self.left) as usize
    }

    /// Returns whether segments are filled: only if no place may change, since a cut one cannot.
    fn fills(&self) -> bool {
        !self.replaces
    }

    /// Appends the datagram to the stream.
    fn append(&mut self, now: Instant, number: u32, (packet, header): (&mut Vec<u8>, usize)) {
        let start = packet.len();
        let (meta, payload) = self.held.get(number).expect("what was chosen is held");
        if start > header {
            self.records.write_behind(substream_of(meta), number, payload, packet);
        } else {
            self.records.write(substream_of(meta), number, payload, packet);
        }
        let bytes = packet[start..].to_vec();
        let end = self.end + bytes.len() as u64;
        self.places.push_back(Place::new(now, self.end, number, bytes));
        self.end = end;
    }

    /// Returns the best datagram for a place that has become free, no longer than it.
    fn best(&mut self, now: Instant, path: &PathState, room: usize, source: &mut dyn AduSource) -> Option<u32> {
        let known = self.next_missing(now, path, room, source);
        let known = known.or_else(|| self.next_waiting_for(now, path, room, source, true));
        if known.is_some() {
            return known;
        }
        while self.waiting.len() < MAX_WAITING {
            // Pulled with the room of a segment: with less, the source would drop those longer than this place.
            let Some(number) = self.held.pull(now, path, self.room, source) else { break };
            if self.held.len(number) <= room && self.held.is_timed(number) {
                return Some(number);
            }
            self.waiting.push_back(number);
        }
        self.next_doubtful(now, path, room, source)
    }

    fn next_waiting(&mut self, now: Instant, path: &PathState, room: usize, source: &mut dyn AduSource) -> Option<u32> {
        self.next_waiting_for(now, path, room, source, false)
    }

    fn next_waiting_for(
        &mut self,
        now: Instant,
        path: &PathState,
        room: usize,
        source: &mut dyn AduSource,
        timed: bool,
    ) -> Option<u32> {
        let held = &mut self.held;
        self.waiting.retain(|&number| {
            let is_worth_it = held.is_worth_sending(number, now, path, source);
            if !is_worth_it {
                let reason = held.get(number).map_or(DropReason::TooLate, |(meta, _)| source.why_not(meta));
                held.forget(number).into_iter().for_each(|token| source.dropped(token, reason));
            }
            is_worth_it
        });
        let fits = |&number: &u32| held.len(number) <= room && (!timed || held.is_timed(number));
        let at = self.waiting.iter().position(fits)?;
        self.waiting.remove(at)
    }

    fn next_missing(&mut self, now: Instant, path: &PathState, room: usize, source: &mut dyn AduSource) -> Option<u32> {
        let Self { held, missing, settled, .. } = self;
        next_again(missing, held, settled, (now, path, room), source)
    }

    fn next_doubtful(
        &mut self,
        now: Instant,
        path: &PathState,
        room: usize,
        source: &mut dyn AduSource,
    ) -> Option<u32> {
        let Self { held, doubtful, settled, .. } = self;
        next_again(doubtful, held, settled, (now, path, room), source)
    }

    /// Chooses the new content of a place, if it has to change. Returns a datagram that is sent for the first time.
    fn choose_anew(
        &mut self,
        at: usize,
        now: Instant,
        path: &PathState,
        source: &mut dyn AduSource,
    ) -> Option<PulledAdu> {
        let place = &self.places[at];
        let (carried, len) = (place.carries(), place.len());
        if !place.may_change() {
            return None;
        }
        if place.is_changed() && !self.is_borne {
            self.go_back(at);
            return None;
        }
        if !self.replaces || now < self.paused_until {
            return None;
        }
        if let Some(number) = carried {
            if self.held.is_worth_sending(number, now, path, source) {
                return None;
            }
            self.missed.extend(self.held.give_up(number));
            self.settle(number, false);
        }
        let best = self.records.room(len).and_then(|room| self.best(now, path, room, source));
        let mut bytes = Vec::with_capacity(len);
        if let Some(number) = best {
            self.write(number, &mut bytes);
        } else if carried.is_none() {
            // The place holds padding already.
            return None;
        }
        self.records.pad(len - bytes.len(), &mut bytes);
        self.changes.padded += u64::from(best.is_none());
        self.changes.replaced += u64::from(best.is_some());
        self.places[at].change(now, best, bytes);
        best.and_then(|number| self.held.leave(number))
    }

    /// Restores the first version of a place.
    fn go_back(&mut self, at: usize) {
        let carried = self.places[at].carries();
        self.places[at].go_back();
        // Its later datagram can still be sent elsewhere.
        self.doubtful.extend(carried.filter(|&number| self.held.has(number)));
    }

    /// Learns from an arrived place whether the path passes changes.
    fn learn(&mut self, now: Instant, at: usize, is_certain: bool) {
        let place = &self.places[at];
        if place.is_changed() && is_certain {
            self.is_borne = true;
        } else if place.has_gone_back() && !self.is_borne && now >= self.paused_until {
            self.refusals += 1;
            self.paused_until = now + REPLACEMENT_PAUSE * u64::from(self.refusals);
            self.changes.refused = self.refusals >= MAX_RESTORED;
            self.replaces &= !self.changes.refused;
        }
    }

    fn write(&mut self, number: u32, out: &mut Vec<u8>) {
        let (meta, payload) = self.held.get(number).expect("what was chosen is held");
        self.records.write(substream_of(meta), number, payload, out);
    }

    /// Notes a datagram that arrived after its deadline, to be reported to the late choice.
    fn note_if_late(&mut self, number: u32, arrived: &Arrived) {
        self.missed.extend(self.held.miss(number, arrived.earliest()));
    }

    /// Reports missed deadlines to the source before it chooses.
    fn tell(&mut self, source: &mut dyn AduSource) {
        for meta in self.missed.drain(..) {
            source.missed(&meta);
        }
    }

    /// Also reports sent datagrams without an acknowledgement that would be known by now, had they arrived in time.
    fn tell_of_overdue(&mut self, now: Instant, path: &PathState, source: &mut dyn AduSource) {
        if let Some(least) = path.min_rtt {
            self.held.miss_before(now.saturating_sub(least / 2 + DELAYED_ACK), &mut self.missed);
        }
        self.tell(source);
    }

    /// Settles the fate of a datagram.
    fn settle(&mut self, number: u32, arrived: bool) {
        if let Some(token) = self.held.forget(number) {
            self.settled.push_back(Settled { token, arrived });
        }
    }

    /// Returns the index of the first place that ends after `offset`.
    fn find(&self, offset: u64) -> usize {
        self.places.partition_point(|place| place.end() <= offset)
    }
}

impl Payload for Late {
    fn has_fresh(&mut self, now: Instant, source: &mut dyn AduSource) -> bool {
        self.tell(source);
        self.rest() > 0 || self.has_waiting(now, source)
    }

    /// Returns the largest of the latest sizes. If segments are filled, the choice itself decides what a window is too small for.
    fn next_size(&self, _: &dyn AduSource) -> Option<u64> {
        if self.fills() {
            return Some(self.rest().max(1) as u64);
        }
        self.sizes.iter().max().copied().filter(|&size| size > 0)
    }

    fn fresh(
        &mut self,
        now: Instant,
        path: &PathState,
        room: Room,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Option<Fresh> {
        let payload_room = self.records.room(room.segment)?;
        self.room = self.room.max(payload_room);
        self.tell_of_overdue(now, path, source);
        let most = room.segment.min(room.window);
        let (mut chosen, len) = self.choose(now, path, (payload_room, most), source);
        let is_more = self.fills() && self.has_waiting(now, source);
        if self.fills() && (len > most || (is_more && most < room.segment)) {
            // Sent in small parts, what waits would stay in small segments (RFC 1122 §4.2.3.4).
            self.keep(chosen);
            return None;
        }
        if is_more && len < most {
            chosen.extend(self.next(now, path, payload_room, source));
        }
        let (header, rest) = (packet.len(), self.left..self.end);
        self.bundle(&rest, packet);
        let mut left = None;
        for number in chosen {
            self.append(now, number, (packet, header));
            tell_all_but_the_last(&mut left, self.held.leave(number), source);
        }
        // The byte of a sub-stream may be one too many for a segment.
        packet.truncate(header + if self.fills() { most } else { room.segment });
        let len = packet.len() - header;
        self.left += len as u64;
        self.sizes.rotate_right(1);
        self.sizes[0] = len as u64;
        (len > 0).then_some(Fresh { len, adu: left, token: None })
    }

    fn again(
        &mut self,
        now: Instant,
        path: &PathState,
        span: Range<u64>,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Option<PulledAdu> {
        self.tell_of_overdue(now, path, source);
        let mut pulled = None;
        let mut at = self.find(span.start);
        while let Some(place) = self.places.get(at).filter(|place| place.start() < span.end) {
            let is_whole = span.start <= place.start() && place.end() <= span.end;
            if is_whole {
                let chosen = self.choose_anew(at, now, path, source);
                tell_all_but_the_last(&mut pulled, chosen, source);
            }
            self.places[at].was_sent(now);
            packet.extend_from_slice(self.places[at].bytes(&span));
            at += 1;
        }
        pulled
    }

    /// Allows whole places with their first datagrams, each still of use.
    fn may_bundle(&mut self, now: Instant, path: &PathState, span: Range<u64>, source: &mut dyn AduSource) -> bool {
        let from = self.find(span.start);
        let Self { places, held, .. } = self;
        let mut here = places.range_mut(from..).take_while(|place| place.start() < span.end);
        here.all(|place| {
            place.was_sent(now);
            let is_whole = span.start <= place.start() && place.end() <= span.end;
            let is_first = place.may_change() && !place.is_changed();
            let carries = place.carries().is_some_and(|number| held.is_worth_sending(number, now, path, source));
            is_whole && is_first && carries
        })
    }

    fn bundle(&self, span: &Range<u64>, packet: &mut Vec<u8>) {
        let here = self.places.range(self.find(span.start)..).take_while(|place| place.start() < span.end);
        here.for_each(|place| packet.extend_from_slice(place.bytes(span)));
    }

    fn is_held(&mut self, span: Range<u64>) {
        for end in [span.start, span.end] {
            let at = self.find(end);
            if let Some(place) = self.places.get_mut(at).filter(|place| place.start() < end) {
                place.was_cut();
            }
        }
    }

    fn arrived(&mut self, arrived: &Arrived) {
        let mut at = self.find(arrived.span.start);
        while let Some(place) = self.places.get_mut(at).filter(|place| place.start() < arrived.span.end) {
            if let Some(version) = place.arrive(arrived) {
                match (place.carries(), version) {
                    (Some(number), Version::Latest) => {
                        self.note_if_late(number, arrived);
                        self.settle(number, true);
                    }
                    (Some(number), Version::Earlier) if self.held.has(number) => self.missing.push_back(number),
                    (Some(number), Version::Unknown) if self.held.has(number) => self.doubtful.push_back(number),
                    _ => {}
                }
                self.learn(arrived.now, at, version == Version::Latest);
            }
            at += 1;
        }
    }

    fn release(&mut self, below: u64) {
        self.is_held(below..below);
        while self.places.front().is_some_and(|place| place.end() <= below) {
            self.places.pop_front();
        }
    }

    fn poll_settled(&mut self) -> Option<Settled> {
        self.settled.pop_front()
    }

    fn changes(&self) -> Changes {
        self.changes
    }

    fn give_up(&mut self) {
        self.places.clear();
        self.waiting.clear();
        self.missing.clear();
        self.doubtful.clear();
        let tokens = self.held.clear();
        self.settled.extend(tokens.map(|token| Settled { token, arrived: false }));
    }
}

/// Returns the first sent datagram that is worth it and fits. Those not worth it are settled.
fn next_again(
    sent: &mut VecDeque<u32>,
    held: &mut Held,
    settled: &mut VecDeque<Settled>,
    (now, path, room): (Instant, &PathState, usize),
    source: &mut dyn AduSource,
) -> Option<u32> {
    sent.retain(|&number| {
        let is_worth_it = held.is_worth_sending(number, now, path, source);
        if !is_worth_it && let Some(token) = held.forget(number) {
            settled.push_back(Settled { token, arrived: false });
        }
        is_worth_it
    });
    let at = sent.iter().position(|&number| held.len(number) <= room)?;
    sent.remove(at)
}

/// Reports all datagrams of a segment but the last: the driver reports one datagram per segment, the last, and the
/// source learns of the others here.
fn tell_all_but_the_last(last: &mut Option<PulledAdu>, left: Option<PulledAdu>, source: &mut dyn AduSource) {
    if let Some(left) = left
        && let Some(before) = last.replace(left)
    {
        source.sent(before.token);
    }
}

#[cfg(test)]
mod tests;
