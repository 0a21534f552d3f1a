//! Forecast of the source's next frames, by repetition of its recent pattern.

use std::collections::{BTreeSet, VecDeque};

use timeous_core::{AduMeta, Duration, FrameId, Instant, SubStream};

/// Number of frames remembered: several groups of a minute at one frame per second, or two of five seconds at 50.
/// Chosen by us: a higher value takes more memory, and finds longer groups.
const MAX_FRAMES: usize = 512;
/// Maximum period of a pattern in frames, before a whole group was seen. Chosen by us: a higher value finds longer
/// patterns, and needs three times as many frames to see one.
const MAX_PATTERN: usize = 16;
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
    /// Distances of its references in the stream, in frames; 0 for none.
    pub(super) back: [u16; 4],
}

/// Number of frames whose sub-stream is remembered, of the pattern and others: more than the distance of a reference. Chosen by us.
const REMEMBERED: usize = 256;

/// Predictor of the next frames of the sub-streams whose frames refer to each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Forecast {
    frames: VecDeque<Seen>,
    /// Sub-streams of the frames, which refer to each other, and whether some frames refer to others at all.
    linked: BTreeSet<SubStream>,
    is_chained: bool,
    /// Sub-streams of the latest frames.
    latest: VecDeque<(FrameId, SubStream)>,
    /// Mean sizes by kind, and the time in which the last frame of it came.
    sizes: Vec<(Kind, u64, Duration)>,
    period: Option<usize>,
    /// Largest packet, in bytes.
    packet: u64,
}

impl Forecast {
    /// Learns a packet that was not seen before.
    pub(super) fn learn(&mut self, meta: &AduMeta, len: u64, worth: u64) {
        let is_named = |seen: &Seen| seen.id != FrameId::NONE;
        if meta.frame == FrameId::NONE && self.frames.back().is_some_and(is_named) {
            // Packets without a frame, such as RTCP, are not part of the pattern.
            return;
        }
        if meta.frame != FrameId::NONE && !self.frames.back().is_none_or(is_named) {
            (self.frames, self.period) = (VecDeque::new(), None);
        }
        if !self.is_of_pattern(meta) {
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
        self.period = self.find_period();
    }

    /// Whether a packet belongs to the pattern: sound and tables between the packets of pictures do not, and layers of one video do.
    fn is_of_pattern(&mut self, meta: &AduMeta) -> bool {
        let is_linked = self.linked.is_empty() || self.linked.contains(&meta.substream);
        let is_begun = meta.frame == FrameId::NONE || self.latest.back().is_some_and(|(last, _)| *last == meta.frame);
        if !is_begun {
            self.latest.push_back((meta.frame, meta.substream));
            if self.latest.len() > REMEMBERED {
                self.latest.pop_front();
            }
        }
        if self.linked.is_empty() {
            self.linked.insert(meta.substream);
        }
        if is_begun || meta.references.is_empty() {
            return is_linked;
        }
        if !is_linked && !self.is_chained {
            // The first sub-stream with references has the pattern. Its keyframe came before.
            self.begin_anew(BTreeSet::from([meta.substream]));
            return true;
        }
        self.is_chained = true;
        let of = |id| self.latest.iter().rev().find(|(frame, _)| *frame == id).map(|(_, substream)| *substream);
        let referred = || meta.references.iter().filter_map(of).chain([meta.substream]);
        let is_known = |substream: SubStream| self.linked.contains(&substream);
        if referred().any(is_known) && !referred().all(is_known) {
            // Frames of the sub-streams that are new were not learnt.
            let linked = self.linked.iter().copied().chain(referred()).collect();
            self.begin_anew(linked);
        }
        self.linked.contains(&meta.substream)
    }

    /// Forgets the pattern, for one of these sub-streams.
    fn begin_anew(&mut self, linked: BTreeSet<SubStream>) {
        let latest = std::mem::take(&mut self.latest);
        *self = Self { linked, is_chained: true, latest, ..Self::default() };
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

    /// Period of the stream in frames: the length of the last complete group or, before there is one, of a pattern in it.
    fn find_period(&self) -> Option<usize> {
        let newest = self.frames.len().checked_sub(1)?;
        let mut keys = (0..self.frames.len()).rev().filter(|&place| self.frames[place].kind.is_key());
        if let (Some(last), Some(before)) = (keys.next(), keys.next())
            && newest - last <= last - before
        {
            return Some(last - before);
        }
        let alike = |place: usize, period: usize| self.frames[place].kind == self.frames[place - period].kind;
        (1..=MAX_PATTERN.min(self.frames.len() / 3))
            .find(|&period| (newest + 1 - 2 * period..=newest).all(|place| alike(place, period)))
    }

    /// Expected frames, in order.
    pub(super) fn ahead(&self) -> impl Iterator<Item = Expected> + '_ {
        let newest = self.frames.back().copied();
        let period = self.period.unwrap_or(1);
        let mut at = newest.map_or(Instant::ZERO, |newest| newest.at);
        let pattern = self.frames.len().saturating_sub(period);
        let count = if self.period.is_some() { usize::MAX } else { 0 };
        (0..count).map(move |n| {
            let seen = &self.frames[pattern + n % period];
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
        let (period, head) = (self.period?, [0; 4]);
        self.ahead().take(period).find(|frame| frame.back == head)
    }

    /// Identifier of the frame `back` frames before the newest; `None` if it is forgotten.
    pub(super) fn id_before_newest(&self, back: usize) -> Option<FrameId> {
        let place = self.frames.len().checked_sub(1 + back)?;
        Some(self.frames[place].id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;
    use timeous_core::References;

    /// Frames every 40 ms, with the distances of their references and their sizes.
    fn learnt(frames: &[(u32, u64)]) -> Forecast {
        let mut forecast = Forecast::default();
        for (n, &(back, bytes)) in frames.iter().enumerate() {
            let references = match back {
                0 => References::NONE,
                back => References::from([FrameId(n as u32 + 1 - back)]),
            };
            let enqueued = at(40 * n as u64);
            let deadline = Some(enqueued + Duration::from_millis(200));
            let meta = AduMeta { frame: FrameId(n as u32 + 1), references, enqueued, deadline, ..AduMeta::default() };
            forecast.learn(&meta, bytes / 2, 1);
            forecast.learn(&meta, bytes / 2, 1);
        }
        forecast
    }

    #[test]
    fn the_last_group_comes_again() {
        let forecast = learnt(&[(0, 900), (1, 100), (1, 100), (0, 900), (1, 100)]);
        let ahead: Vec<Expected> = forecast.ahead().take(4).collect();
        assert_eq!(
            ahead.iter().map(|frame| (frame.bytes, frame.back[0])).collect::<Vec<_>>(),
            [(100, 1), (900, 0), (100, 1), (100, 1)]
        );
        assert_eq!((ahead[1].at, ahead[1].deadline), (at(240), Some(at(440))));
        assert_eq!(forecast.id_before_newest(1), Some(FrameId(4)));
    }

    /// Found with MPEG-TS over 0.7 times its rate: a keyframe comes within 40 ms, as parts with a deadline each.
    #[test]
    fn a_frame_that_comes_in_parts_is_due_with_the_last_one() {
        let mut forecast = Forecast::default();
        let learn = |forecast: &mut Forecast, frame: u32, back: u32, at_ms| {
            let references = if back == 0 { References::NONE } else { References::from([FrameId(frame - back)]) };
            let (enqueued, deadline) = (at(at_ms), Some(at(at_ms + 200)));
            let meta = AduMeta { frame: FrameId(frame), references, enqueued, deadline, ..AduMeta::default() };
            forecast.learn(&meta, 100, 1);
        };
        for group in 0..3 {
            let (first, begin) = (2 * group + 1, 100 * u64::from(group));
            [0, 10, 20].iter().for_each(|more| learn(&mut forecast, first, 0, begin + more));
            learn(&mut forecast, first + 1, 1, begin + 50);
        }
        let head = forecast.next_head().unwrap();
        assert_eq!((head.at, head.bytes, head.deadline), (at(300), 300, Some(at(520))));
        learn(&mut forecast, 7, 0, 300);
        assert_eq!(forecast.rest(at(305)), Some((FrameId(7), 200)));
        assert_eq!(forecast.rest(at(320)), None, "it is smaller than those before");
    }

    #[test]
    fn within_the_first_group_its_pattern_goes_on() {
        let forecast = learnt(&[(0, 900), (1, 50), (2, 200), (1, 50), (2, 200), (1, 50), (2, 200)]);
        let backs: Vec<u16> = forecast.ahead().take(3).map(|frame| frame.back[0]).collect();
        assert_eq!(backs, [1, 2, 1]);
    }

    #[test]
    fn the_next_group_begins_when_the_last_is_as_long_as_the_one_before() {
        let forecast = learnt(&[(0, 900), (1, 100), (1, 100), (0, 700), (1, 100)]);
        let head = forecast.next_head().unwrap();
        assert_eq!((head.at, head.bytes, head.deadline), (at(240), 875, Some(at(440))));
        assert_eq!(learnt(&[(0, 900), (1, 100)]).next_head(), None);
    }

    /// Found with two hours of a camera: two RTCP packets were taken for groups of one frame, of which sixty more were
    /// expected at once, and a keyframe was dropped for them.
    #[test]
    fn what_belongs_to_no_frame_is_no_part_of_the_pattern() {
        let groups = [(0, 900), (1, 100), (1, 100), (0, 900), (1, 100)];
        let told = |at_ms| AduMeta { enqueued: at(at_ms), ..AduMeta::default() };
        let mut before = Forecast::default();
        before.learn(&told(0), 30, 9);
        let mut forecast = learnt(&groups);
        let ahead: Vec<Expected> = forecast.ahead().take(4).collect();
        forecast.learn(&told(170), 30, 9);
        forecast.learn(&told(170), 30, 9);
        assert_eq!(forecast.ahead().take(4).collect::<Vec<_>>(), ahead);
        let frame = AduMeta { frame: FrameId(1), enqueued: at(40), ..AduMeta::default() };
        before.learn(&frame, 900, 1);
        assert_eq!(before.frames.len(), 1, "nor if it came before the first frame");
    }

    /// Found with MPEG-TS through 2 % loss: sound and tables between the packets of pictures were taken for keyframes that come all at
    /// once, and a third of the pictures was dropped for them.
    #[test]
    fn sound_and_tables_between_the_packets_of_pictures_are_no_part_of_the_pattern() {
        let mut forecast = Forecast::default();
        let mut learn = |frame, references, substream, at_ms| {
            let deadline = Some(at(at_ms + 200));
            let substream = SubStream(substream);
            let enqueued = at(at_ms);
            let meta =
                AduMeta { frame: FrameId(frame), references, substream, enqueued, deadline, ..AduMeta::default() };
            forecast.learn(&meta, 100, 1);
        };
        for picture in 0..20u32 {
            let (number, at_ms) = (3 * picture + 1, 40 * u64::from(picture));
            let before = if picture % 5 == 0 { References::NONE } else { References::from([FrameId(number - 3)]) };
            learn(number + 1, References::NONE, 0, at_ms);
            learn(number, before, 1, at_ms);
            learn(number + 2, References::NONE, 2, at_ms);
            learn(number, before, 1, at_ms);
        }
        let ahead: Vec<Expected> = forecast.ahead().take(6).collect();
        assert_eq!(ahead.iter().map(|frame| frame.back[0]).collect::<Vec<_>>(), [0, 1, 1, 1, 1, 0]);
        assert_eq!((ahead[0].at, ahead[0].bytes, ahead[5].at), (at(800), 200, at(1_000)));
    }

    /// Found by `timeous-lab bloat` at all of its cells: of a stream that began with a frame of an upper layer, that layer alone was learnt.
    #[test]
    fn layers_that_refer_to_each_other_are_one_pattern_wherever_the_stream_begins() {
        // Groups of four: base, upper, middle, upper; each frame refers to a lower layer.
        let of = |place: u32| [(0, 0), (2, 1), (1, 2), (2, 1)][place as usize % 4];
        for begin in 0..4 {
            let mut forecast = Forecast::default();
            for number in 1..=24u32 {
                let (layer, back) = of(number - 1 + begin);
                let references =
                    if back == 0 { References::NONE } else { References::from([FrameId(number + 100 - back)]) };
                let enqueued = at(40 * u64::from(number));
                let (frame, substream) = (FrameId(number + 100), SubStream(layer));
                let meta = AduMeta { frame, references, substream, enqueued, ..AduMeta::default() };
                forecast.learn(&meta, 100, 1);
            }
            let ahead: Vec<u16> = forecast.ahead().take(4).map(|frame| frame.back[0]).collect();
            let expected: Vec<u16> = (24..28).map(|number| of(number + begin).1 as u16).collect();
            assert_eq!(ahead, expected, "from place {begin} on");
        }
    }

    /// A second receiver of `timeous send` that came in the middle: RTCP packets made a pattern, and the first frame was sound.
    #[test]
    fn a_pattern_that_is_forgotten_expects_nothing() {
        let mut forecast = Forecast::default();
        let packet = |at_ms| AduMeta { enqueued: at(at_ms), ..AduMeta::default() };
        (0..4).for_each(|n| forecast.learn(&packet(n * 10), 30, 9));
        let sound = AduMeta { frame: FrameId(1), substream: SubStream::AUDIO, ..packet(40) };
        forecast.learn(&sound, 30, 9);
        assert_eq!(forecast.ahead().next(), None);
    }

    #[test]
    fn a_chain_breaks_as_far_as_it_goes() {
        let forecast = learnt(&[(0, 9), (1, 1), (1, 1), (0, 9), (1, 1)]);
        let mut broken = BTreeSet::from([FrameId(2)]);
        forecast.break_chains(&mut broken);
        assert_eq!(broken, BTreeSet::from([FrameId(2), FrameId(3)]));
    }

    #[test]
    fn nothing_is_expected_of_a_stream_without_a_pattern() {
        assert_eq!(learnt(&[]).ahead().next(), None);
        assert_eq!(learnt(&[(0, 900), (1, 100), (2, 300), (1, 100)]).ahead().next(), None);
    }
}
