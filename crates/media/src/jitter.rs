//! Jitter buffer of whole frames, of several streams in one sequence of RTP packets: gives them out in time, with all that they
//! refer to.

use std::collections::{BTreeMap, VecDeque};

use rtp_types::RtpPacket;
use timeous_core::{Duration, Instant};

use crate::clock::{ClockChange, MediaClock};
use crate::error::RtpError;
use crate::playout::Release;
use crate::rtp::sequence::{Place, Sequence};

/// Frames given out or given up that are remembered, for those that refer to them: more than any distance that is told.
const REMEMBERED: usize = 1_024;
/// Most bytes that wait for their playout time. Chosen by us: ten seconds at 50 Mbit/s; a higher value takes more memory.
const MOST_WAITING: usize = 64 << 20;
/// Most frames that wait. Chosen by us: ten seconds of a whole multiplex; a higher value takes more memory.
const MOST_FRAMES: usize = 16_384;
/// Time after which a frame without a known end is given up. Chosen by us: an encoder's frame interval at four frames a second.
const END_UNKNOWN: Duration = Duration::from_millis(250);
/// Time within which packets of the source before a restart are late ones, and no other restart. Chosen by us: more than a network
/// reorders; a higher value shows a source that returns later.
const LEFT_BEHIND: Duration = Duration::from_millis(100);

/// Counts of a playout of whole frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WholeFrameCounts {
    /// Frames given out, with all that they refer to.
    pub released: u64,
    /// Entry points of a video among them.
    pub entries: u64,
    /// Frames of which a part did not come in time.
    pub incomplete: u64,
    /// Frames that were complete after their playout time.
    pub late: u64,
    /// Frames that refer to one which was not given out.
    pub reference_missing: u64,
    /// Frames of which nothing came: given up by the sender, or lost.
    pub missing: u64,
    /// RTP packets that came twice.
    pub duplicate: u64,
    /// RTP packets that are not usable.
    pub refused: u64,
    /// Bytes of the frames given out.
    pub bytes: u64,
}

/// Part of a frame that came in an RTP packet.
#[derive(Debug)]
pub(crate) struct Part<T> {
    /// Lowest bits of the number of the frame over all streams, and how many they are.
    pub(crate) frame: u32,
    pub(crate) bits: u32,
    /// Frames of a lane are given out in order, if this part tells it.
    pub(crate) lane: Option<u16>,
    /// Stream that the frame counts for, and its place in it modulo 2^16, if this part tells them.
    pub(crate) stream: Option<(u16, u16)>,
    /// Number of the frame's units before these, and number of these.
    pub(crate) first: u16,
    pub(crate) count: u16,
    /// Whether the frame ends with these.
    pub(crate) last: bool,
    pub(crate) is_entry: bool,
    /// Whether the frame is a spatial layer, and the next one of its picture follows it in the stream.
    pub(crate) is_below: bool,
    /// Distances to the frames that it refers to, if this part tells them.
    pub(crate) back: Vec<u32>,
    pub(crate) len: usize,
    /// The units, if there are any: a part without units tells the end of a frame.
    pub(crate) units: Option<T>,
}

/// Frame that is given out.
#[derive(Debug)]
pub(crate) struct Whole<T> {
    pub(crate) parts: Vec<T>,
    /// Frames of its lane that were withheld since the last one that was given out, for want of a reference.
    pub(crate) withheld: u32,
    /// Playout time.
    pub(crate) due: Instant,
}

/// Frame that waits.
#[derive(Debug)]
struct Waiting<T> {
    lane: Option<u16>,
    stream: Option<u16>,
    place: u16,
    is_below: bool,
    parts: BTreeMap<u16, (u16, T)>,
    bytes: usize,
    /// Number of its units, if known.
    len: Option<u16>,
    references: Vec<u32>,
    is_entry: bool,
    /// Playout time of its latest part.
    due: Instant,
    completed_at: Option<Instant>,
}

impl<T> Waiting<T> {
    fn new(due: Instant) -> Self {
        Self {
            lane: None,
            stream: None,
            place: 0,
            is_below: false,
            parts: BTreeMap::new(),
            bytes: 0,
            len: None,
            references: Vec::new(),
            is_entry: false,
            due,
            completed_at: None,
        }
    }

    fn is_complete(&self) -> bool {
        let mut next = 0;
        for (first, (count, _)) in &self.parts {
            if *first != next {
                return false;
            }
            next += count;
        }
        self.len == Some(next)
    }
}

/// Stream among others.
#[derive(Debug, Default)]
struct StreamState {
    counts: WholeFrameCounts,
    /// Number of its newest frame, and the place of that in the stream.
    newest: Option<(u32, u16)>,
}

/// Jitter buffer.
#[derive(Debug)]
pub(crate) struct JitterBuffer<T> {
    latency: Duration,
    release: Release,
    clock: MediaClock,
    changes: VecDeque<ClockChange>,
    sequence: Sequence,
    ssrc: Option<u32>,
    /// Source before the last restart by another one, and when that came.
    left: Option<(u32, Instant)>,
    /// Restarts of the sender.
    restarts: u32,
    waiting: BTreeMap<u32, Waiting<T>>,
    bytes: usize,
    /// Frames that were settled, and whether they were given out.
    settled: BTreeMap<u32, bool>,
    withheld: BTreeMap<Option<u16>, u32>,
    /// Number of the newest frame that came.
    newest: Option<u32>,
    ready: VecDeque<Whole<T>>,
    counts: WholeFrameCounts,
    streams: BTreeMap<u16, StreamState>,
}

impl<T> JitterBuffer<T> {
    /// Creates a buffer that gives out frames one latency after their capture, or at once.
    pub(crate) fn new(latency: Duration, release: Release) -> Self {
        Self {
            latency,
            release,
            clock: MediaClock::new(latency / 2),
            changes: VecDeque::new(),
            sequence: Sequence::default(),
            ssrc: None,
            left: None,
            restarts: 0,
            waiting: BTreeMap::new(),
            bytes: 0,
            settled: BTreeMap::new(),
            withheld: BTreeMap::new(),
            newest: None,
            ready: VecDeque::new(),
            counts: WholeFrameCounts::default(),
            streams: BTreeMap::new(),
        }
    }

    /// Latency in force.
    pub(crate) fn latency(&self) -> Duration {
        self.latency
    }

    /// Changes the latency.
    pub(crate) fn set_latency(&mut self, latency: Duration) {
        self.latency = latency;
        self.clock.set_tolerance(latency / 2);
    }

    /// Synchronisation source (SSRC) that is played.
    pub(crate) fn ssrc(&self) -> Option<u32> {
        self.ssrc
    }

    /// Restarts of the sender.
    pub(crate) fn restarts(&self) -> u32 {
        self.restarts
    }

    /// Extra delay of the fastest packets of the last second, against the clock.
    pub(crate) fn excess(&self, now: Instant) -> Option<Duration> {
        self.clock.excess(now)
    }

    /// Counts so far.
    pub(crate) fn counts(&self) -> WholeFrameCounts {
        self.counts
    }

    /// Counts of each stream.
    pub(crate) fn counts_by_stream(&self) -> impl Iterator<Item = (u16, WholeFrameCounts)> + '_ {
        self.streams.iter().map(|(stream, state)| (*stream, state.counts))
    }

    /// Counts a frame, for its stream, too.
    fn count(&mut self, stream: Option<u16>, add: impl Fn(&mut WholeFrameCounts)) {
        add(&mut self.counts);
        if let Some(stream) = stream {
            add(&mut self.streams.entry(stream).or_default().counts);
        }
    }

    /// Counts a packet that is not usable.
    pub(crate) fn count_refused(&mut self) {
        self.counts.refused += 1;
    }

    /// Whether frames wait for their playout time.
    pub(crate) fn holds_frames(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes an RTP packet's place in the sequence; its timestamp is a capture time at 90 kHz. Returns its playout time; `None` if
    /// it came before.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        packet: &RtpPacket<'_>,
        is_prompt: bool,
    ) -> Result<Option<Instant>, RtpError> {
        let ssrc = packet.ssrc();
        if self.ssrc != Some(ssrc) {
            let is_late = self.left.is_some_and(|(left, at)| left == ssrc && now.saturating_since(at) < LEFT_BEHIND);
            if let Some(expected) = self.ssrc.filter(|_| is_late) {
                return Err(RtpError::Source { found: ssrc, expected });
            }
            // A sender that begins anew numbers anew.
            self.restart();
            self.left = self.ssrc.replace(ssrc).map(|left| (left, now));
        }
        let (found, expected) = (packet.sequence_number(), self.sequence.next());
        let mut place = self.sequence.place(now, found, packet.timestamp());
        if place == Place::Restart {
            self.restart();
            place = self.sequence.place(now, found, packet.timestamp());
        }
        let ticks = match place {
            Place::New { ticks, .. } => ticks,
            Place::Duplicate => {
                self.counts.duplicate += 1;
                return Ok(None);
            }
            Place::Stray | Place::Restart => return Err(RtpError::SequenceJump { found, expected }),
        };
        self.changes.extend(self.clock.observe(ticks, now, is_prompt));
        Ok(Some(self.clock.instant(ticks) + self.latency))
    }

    fn restart(&mut self) {
        self.restarts += 1;
        self.sequence = Sequence::default();
        self.clock = MediaClock::new(self.latency / 2);
        self.waiting.clear();
        self.bytes = 0;
        self.settled.clear();
        self.streams.values_mut().for_each(|stream| stream.newest = None);
        self.withheld.clear();
        self.newest = None;
    }

    /// Stores a part of a frame that is due at `due`.
    pub(crate) fn insert(&mut self, now: Instant, due: Instant, part: Part<T>) {
        let number = extended(self.newest, part.frame, part.bits);
        if self.newest.is_none_or(|newest| number > newest) {
            let gap = self.newest.map_or(0, |newest| number - newest - 1);
            self.counts.missing += u64::from(gap);
            self.newest = Some(number);
        } else if self.settled.contains_key(&number) {
            return;
        } else if !self.waiting.contains_key(&number) {
            // Counted as missing before.
            self.counts.missing = self.counts.missing.saturating_sub(1);
        }
        let frame = self.waiting.entry(number).or_insert_with(|| Waiting::new(due));
        frame.lane = frame.lane.or(part.lane);
        if let Some((stream, place)) = part.stream.filter(|_| frame.stream.is_none()) {
            (frame.stream, frame.place) = (Some(stream), place);
            self.streams.entry(stream).or_default().place(number, place);
        }
        frame.due = frame.due.max(due);
        frame.is_entry |= part.is_entry;
        frame.is_below |= part.is_below;
        if !part.back.is_empty() {
            frame.references = part.back.iter().map(|back| number.wrapping_sub(*back)).collect();
        }
        if part.last {
            frame.len = Some(part.first.saturating_add(part.count));
        }
        if let Some(units) = part.units
            && frame.parts.insert(part.first, (part.count, units)).is_none()
        {
            frame.bytes += part.len;
            self.bytes += part.len;
        }
        if frame.completed_at.is_none() && frame.is_complete() {
            frame.completed_at = Some(now);
        }
    }

    /// Gives out what is due, and gives up what did not come.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while (self.bytes > MOST_WAITING || self.waiting.len() > MOST_FRAMES)
            && let Some((&oldest, _)) = self.waiting.first_key_value()
        {
            self.give_up(oldest);
        }
        let waiting = self.waiting.iter().filter(|(_, frame)| self.is_due(frame, now));
        let mut due: Vec<(Instant, u32)> = waiting.map(|(&number, frame)| (frame.due, number)).collect();
        due.sort_unstable();
        for (_, number) in due {
            // An earlier one of its stream is given up with it.
            if let Some(frame) = self.waiting.get(&number) {
                if frame.completed_at.is_some() { self.release_picture(number) } else { self.give_up(number) }
            }
        }
    }

    /// Gives out a complete frame, with those of the upper spatial layers of its picture.
    fn release_picture(&mut self, number: u32) {
        let mut top = number;
        while let Some(frame) = self.waiting.get(&top).filter(|frame| frame.is_below)
            && let Some((&next, above)) = self.waiting.range(top + 1..).find(|(_, above)| above.lane == frame.lane)
            && above.place == frame.place.wrapping_add(1)
            && above.completed_at.is_some()
        {
            top = next;
        }
        self.release(top);
    }

    fn is_due(&self, frame: &Waiting<T>, now: Instant) -> bool {
        match (frame.completed_at, self.release) {
            // A picture waits for its upper layers.
            (Some(_), Release::Immediate) if !frame.is_below => true,
            (Some(_), _) => frame.due <= now,
            (None, _) => frame.due + if frame.len.is_some() { Duration::ZERO } else { END_UNKNOWN } <= now,
        }
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let due = |frame: &Waiting<T>| match (frame.completed_at, frame.len) {
            (None, None) => frame.due + END_UNKNOWN,
            _ => frame.due,
        };
        self.waiting.values().map(due).min()
    }

    /// Returns the next frame to give out.
    pub(crate) fn poll(&mut self) -> Option<Whole<T>> {
        self.ready.pop_front()
    }

    /// Returns the next change of the clock.
    pub(crate) fn poll_change(&mut self) -> Option<ClockChange> {
        self.changes.pop_front()
    }

    /// Ends the stream: what is complete is given out at once.
    pub(crate) fn finish(&mut self) {
        for number in self.waiting.keys().copied().collect::<Vec<_>>() {
            match self.waiting.get(&number).map(|frame| frame.completed_at.is_some()) {
                Some(true) => self.release(number),
                Some(false) => self.give_up(number),
                None => {}
            }
        }
    }

    fn give_up(&mut self, number: u32) {
        if let Some(frame) = self.waiting.remove(&number) {
            self.bytes -= frame.bytes;
            self.settle(number, false);
            self.count(frame.stream, |counts| counts.incomplete += 1);
        }
    }

    fn settle(&mut self, number: u32, is_released: bool) {
        self.settled.insert(number, is_released);
        if self.settled.len() > REMEMBERED {
            self.settled.pop_first();
        }
    }

    /// Gives out a complete frame, after those before it in its lane: the clock may have been corrected in between, so that their
    /// playout time is a little later.
    fn release(&mut self, number: u32) {
        let Some(lane) = self.waiting.get(&number).map(|frame| frame.lane) else { return };
        let until = self.waiting.range(..=number).filter(|(_, frame)| frame.lane == lane);
        for (number, is_complete) in
            until.map(|(&number, frame)| (number, frame.completed_at.is_some())).collect::<Vec<_>>()
        {
            if is_complete { self.release_next(number) } else { self.give_up(number) }
        }
    }

    /// Gives out a complete frame, if it was in time and can be decoded.
    fn release_next(&mut self, number: u32) {
        let Some(frame) = self.waiting.remove(&number) else { return };
        self.bytes -= frame.bytes;
        if frame.references.iter().any(|reference| self.settled.get(reference) != Some(&true)) {
            self.settle(number, false);
            self.count(frame.stream, |counts| counts.reference_missing += 1);
            *self.withheld.entry(frame.lane).or_default() += 1;
            return;
        }
        let is_late = self.release != Release::Immediate && frame.completed_at.is_some_and(|at| at > frame.due);
        self.settle(number, !is_late);
        if is_late {
            return self.count(frame.stream, |counts| counts.late += 1);
        }
        self.count(frame.stream, |counts| {
            counts.released += 1;
            counts.entries += u64::from(frame.is_entry);
            counts.bytes += frame.bytes as u64;
        });
        self.ready.push_back(Whole {
            parts: frame.parts.into_values().map(|(_, units)| units).collect(),
            withheld: self.withheld.remove(&frame.lane).unwrap_or(0),
            due: frame.due,
        });
    }
}

impl StreamState {
    /// Takes the place of a frame in the stream; what lies between it and the newest one is missing so far.
    fn place(&mut self, number: u32, place: u16) {
        match self.newest {
            Some((newest, _)) if number < newest => {
                self.counts.missing = self.counts.missing.saturating_sub(1);
                return;
            }
            Some((_, before)) => self.counts.missing += u64::from(place.wrapping_sub(before).wrapping_sub(1)),
            None => {}
        }
        self.newest = Some((number, place));
    }
}

/// Number of a frame whose lowest bits are `number`: the one that is nearest to the newest.
fn extended(newest: Option<u32>, number: u32, bits: u32) -> u32 {
    // Frames before the first one that came have numbers, too.
    let Some(newest) = newest else { return 1 << bits | number };
    let unused = u32::BITS - bits;
    let step = (number.wrapping_sub(newest) << unused).cast_signed() >> unused;
    newest.wrapping_add_signed(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descending_frame_numbers_take_no_more_memory() {
        let mut buffer = JitterBuffer::new(Duration::from_millis(100), Release::Immediate);
        for frame in (0..4 * REMEMBERED as u32).rev() {
            let part = Part {
                frame,
                bits: 24,
                lane: None,
                stream: None,
                first: 0,
                count: 1,
                last: true,
                is_entry: true,
                is_below: false,
                back: Vec::new(),
                len: 1,
                units: Some(()),
            };
            buffer.insert(Instant::ZERO, Instant::ZERO, part);
            buffer.handle_timeout(Instant::ZERO);
        }
        assert_eq!(buffer.counts().released, 4 * REMEMBERED as u64);
        assert_eq!(buffer.settled.len(), REMEMBERED);
    }
}
