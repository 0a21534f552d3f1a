//! Pattern of one video's frames, which its next frames repeat.

use std::collections::{BTreeSet, VecDeque};

use timeous_core::{AduMeta, Duration, FrameId, Instant};

/// Number of frames remembered: several groups of a minute at one frame per second, or two of five seconds at 50.
/// Chosen by us: a higher value takes more memory, and finds longer groups.
const MAX_FRAMES: usize = 512;
/// Maximum period of a pattern in frames, before a whole group was seen. Chosen by us: a higher value finds longer
/// patterns, and needs three times as many frames to see one.
const MAX_PATTERN: usize = 16;
/// Time for which the share of a video's frames that left is measured. Chosen by us: a higher value lets one video wait longer for another.
const SHARE_WINDOW: Duration = Duration::from_secs(1);
/// Window of the size average of a kind of frame, in frames. Chosen by us: a higher value follows the encoder later.
const SIZE_WINDOW: u64 = 8;

/// Properties of a past frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    id: FrameId,
    kind: Kind,
    at: Instant,
    /// Time since the previous frame.
    gap: Duration,
    bytes: u64,
    /// Time since the first packet at which the last one came.
    span: Duration,
    /// Time from the hand-over of its first packet to its latest deadline.
    time: Option<Duration>,
}

/// Kind of a frame: frames of one kind have the same position in the pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Kind {
    /// Distances of its references, in frames; `u16::MAX` for a forgotten one, 0 for none.
    back: [u16; 4],
    worth: u64,
}

impl Kind {
    /// Whether it is a keyframe, which begins a group.
    fn is_key(&self) -> bool {
        self.back == [0; 4]
    }
}

/// Expected frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Expected {
    pub(super) at: Instant,
    pub(super) deadline: Option<Instant>,
    pub(super) bytes: u64,
    /// Approximate number of packets.
    pub(super) packets: f32,
    pub(super) worth: u64,
    /// Distances of its references in the video, in frames; 0 for none.
    pub(super) back: [u16; 4],
}

/// Frames that the next ones repeat: the first of them, their number, and which of them comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Template {
    begin: usize,
    period: usize,
    place: usize,
}

/// Pattern of frames that refer to each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Pattern {
    frames: VecDeque<Seen>,
    /// Mean sizes by kind, and the time in which the last frame of it came.
    sizes: Vec<(Kind, u64, Duration)>,
    template: Option<Template>,
    /// Largest packet, in bytes.
    packet: u64,
}

impl Pattern {
    /// When the newest frame began.
    pub(super) fn newest(&self) -> Option<Instant> {
        self.frames.back().map(|seen| seen.at)
    }

    /// Forgets packets without a frame, such as RTCP: frames make a pattern of their own.
    pub(super) fn forget_unnamed(&mut self) {
        if self.frames.back().is_some_and(|seen| seen.id == FrameId::NONE) {
            (self.frames, self.template) = (VecDeque::new(), None);
        }
    }

    /// Learns a packet that was not seen before.
    pub(super) fn learn(&mut self, meta: &AduMeta, len: u64, worth: u64) {
        if meta.frame == FrameId::NONE && self.frames.back().is_some_and(|seen| seen.id != FrameId::NONE) {
            // Packets without a frame, such as RTCP, are not part of the pattern.
            return;
        }
        self.packet = self.packet.max(len);
        if let Some(last) = self.frames.back_mut()
            && meta.frame != FrameId::NONE
            && last.id == meta.frame
        {
            last.bytes += len;
            last.span = meta.enqueued.saturating_since(last.at);
            last.time = meta.deadline.map(|deadline| deadline.saturating_since(last.at)).max(last.time);
            return;
        }
        self.close_last();
        let at = meta.enqueued;
        let gap = self.frames.back().map_or(Duration::ZERO, |last| at.saturating_since(last.at));
        let kind = Kind { back: self.backs(meta), worth };
        let time = meta.deadline.map(|deadline| deadline.saturating_since(at));
        self.frames.push_back(Seen { id: meta.frame, kind, at, gap, bytes: len, span: Duration::ZERO, time });
        if self.frames.len() > MAX_FRAMES {
            self.frames.pop_front();
        }
        self.template = self.find_template();
    }

    /// Distances of the packet's references, in frames; `u16::MAX` for forgotten ones, which no pattern can use.
    fn backs(&self, meta: &AduMeta) -> [u16; 4] {
        let mut back = [0; 4];
        for (slot, reference) in back.iter_mut().zip(meta.references.iter()) {
            let found = self.frames.iter().rev().position(|seen| seen.id == reference);
            *slot = found.map_or(u16::MAX, |found| found as u16 + 1);
        }
        back
    }

    /// Adds the size of the last frame, which is complete, to the mean of its kind.
    fn close_last(&mut self) {
        let Some(&Seen { kind, bytes, span, .. }) = self.frames.back() else { return };
        match self.sizes.iter_mut().find(|(of, ..)| *of == kind) {
            Some((_, mean, last)) => (*mean, *last) = ((*mean * (SIZE_WINDOW - 1) + bytes) / SIZE_WINDOW, span),
            None => {
                if self.sizes.len() >= 2 * MAX_PATTERN {
                    self.sizes.remove(0);
                }
                self.sizes.push((kind, bytes, span));
            }
        }
    }

    /// Template of the next frames: the longest group, unless the newest one is as long already; before there is a group, a pattern within
    /// the frames. A keyframe that comes later than expected breaks all frames whose reference was given up for it
    /// (docs/decisions/plan-group-length.md).
    fn find_template(&self) -> Option<Template> {
        let newest = self.frames.len().checked_sub(1)?;
        let keys = (0..=newest).filter(|&place| self.frames[place].kind.is_key());
        let place = keys.clone().next_back().map_or(0, |last| newest - last);
        let groups = keys.clone().zip(keys.skip(1)).map(|(key, next)| (next - key, key));
        if let Some((period, key)) = groups.max().filter(|(period, _)| *period > place) {
            return Some(Template { begin: key + 1, period, place });
        }
        let alike = |place: usize, period: usize| self.frames[place].kind == self.frames[place - period].kind;
        (1..=MAX_PATTERN.min(self.frames.len() / 3))
            .find(|&period| (newest + 1 - 2 * period..=newest).all(|place| alike(place, period)))
            .map(|period| Template { begin: newest + 1 - period, period, place: 0 })
    }

    /// Expected frames, in order.
    pub(super) fn ahead(&self) -> impl Iterator<Item = Expected> + '_ {
        let newest = self.frames.back().copied();
        let Template { begin, period, place } = self.template.unwrap_or_default();
        let mut at = newest.map_or(Instant::ZERO, |newest| newest.at);
        let count = if self.template.is_some() { usize::MAX } else { 0 };
        (0..count).map(move |n| {
            let seen = &self.frames[begin + (place + n) % period];
            at += seen.gap;
            let bytes =
                self.sizes.iter().find(|(kind, ..)| *kind == seen.kind).map_or(seen.bytes, |(_, mean, _)| *mean);
            let deadline = seen.time.map(|time| at + time);
            Expected {
                at,
                deadline,
                bytes,
                packets: bytes.div_ceil(self.packet.max(1)) as f32,
                worth: seen.kind.worth,
                back: seen.kind.back,
            }
        })
    }

    /// Share of the latest frames that are not `broken`, in thousandths.
    pub(super) fn share_left(&self, broken: &BTreeSet<FrameId>) -> u64 {
        let newest = self.newest().unwrap_or_default();
        let latest = self.frames.iter().rev().take_while(|seen| seen.at + SHARE_WINDOW >= newest);
        let (all, left) =
            latest.fold((0, 0), |(all, left), seen| (all + 1, left + u64::from(!broken.contains(&seen.id))));
        (1_000 * left).checked_div(all).unwrap_or(0)
    }

    /// Adds all frames that depend on broken ones.
    pub(super) fn break_chains(&self, broken: &mut BTreeSet<FrameId>) {
        for (place, seen) in self.frames.iter().enumerate() {
            let before = |back: &u16| place.checked_sub(usize::from(*back)).map(|place| self.frames[place].id);
            let mut references = seen.kind.back.iter().filter(|&&back| back > 0).filter_map(before);
            if references.any(|frame| broken.contains(&frame)) && seen.id != FrameId::NONE {
                broken.insert(seen.id);
            }
        }
    }

    /// Newest frame, if its source hands it over part by part, and the bytes of it that are still expected.
    pub(super) fn rest(&self, now: Instant) -> Option<(FrameId, u64)> {
        let newest = self.frames.back()?;
        let &(_, mean, span) = self.sizes.iter().find(|(kind, ..)| *kind == newest.kind)?;
        let is_open = now < newest.at + span;
        is_open.then(|| (newest.id, mean.saturating_sub(newest.bytes)))
    }

    /// The next keyframe.
    pub(super) fn next_head(&self) -> Option<Expected> {
        let (Template { period, .. }, head) = (self.template?, [0; 4]);
        self.ahead().take(period).find(|frame| frame.back == head)
    }

    /// Identifier of the frame `back` frames before the newest; `None` if it is forgotten.
    pub(super) fn id_before_newest(&self, back: usize) -> Option<FrameId> {
        let place = self.frames.len().checked_sub(1 + back)?;
        Some(self.frames[place].id)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }
}
