//! Forecast of the source's next frames: each video repeats its recent pattern.

use std::collections::{BTreeSet, VecDeque};

use timeous_core::{AduMeta, Duration, FrameId, Instant, SubStream};

use super::pattern::{Expected, Pattern};

/// Number of frames whose sub-stream is remembered, of videos and others: more than the distance of a reference. Chosen by us.
const REMEMBERED: usize = 256;
/// Maximum number of videos with a pattern, whose frames are weighed. Chosen by us: more than a transport stream has programs; a higher
/// value takes more memory, a lower one gives up the frames of some videos for those of the others.
pub(super) const MAX_VIDEOS: usize = 16;
/// Weight of the frames of the video that has the smallest share of late, in sixteenths, and the least weight of others' frames. Chosen by us
/// (docs/design/late-choice.md): with a lower one more is left half sent, with 8 large pictures have too small a share.
pub(super) const EQUAL: u64 = 16;
const MIN_WEIGHT: u64 = 4;
/// Time by which the next frame of a video is overdue that has no deadline. Chosen by us: a higher value expects a stopped video for longer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Video: the sub-streams whose frames refer to each other, such as layers.
#[derive(Clone, Debug)]
struct Video {
    linked: BTreeSet<SubStream>,
    pattern: Pattern,
    /// Weight of its frames among those of other videos, in sixteenths.
    weight: u64,
}

impl Video {
    fn new(linked: BTreeSet<SubStream>) -> Self {
        Self { linked, pattern: Pattern::default(), weight: EQUAL }
    }

    /// Whether its next frame was due before `newest`, the beginning of the newest frame of all videos.
    fn is_silent(&self, newest: Instant) -> bool {
        let next = self.pattern.ahead().next();
        next.is_some_and(|next| next.deadline.unwrap_or(next.at + PATIENCE) < newest)
    }
}

/// Predictor of the next frames of all videos.
#[derive(Clone, Debug, Default)]
pub(super) struct Forecast {
    videos: Vec<Video>,
    /// Whether some frames refer to others at all.
    is_chained: bool,
    /// Sub-streams of the latest frames.
    latest: VecDeque<(FrameId, SubStream)>,
}

impl Forecast {
    /// Learns a packet that was not seen before.
    pub(super) fn learn(&mut self, meta: &AduMeta, len: u64, worth: u64) {
        if meta.frame != FrameId::NONE {
            self.videos.iter_mut().for_each(|video| video.pattern.forget_unnamed());
        }
        if let Some(video) = self.video_of(meta) {
            self.videos[video].pattern.learn(meta, len, worth);
        }
    }

    /// Index of the video that a packet belongs to. Sound and tables between the packets of pictures belong to none.
    fn video_of(&mut self, meta: &AduMeta) -> Option<usize> {
        let is_begun = meta.frame == FrameId::NONE || self.latest.back().is_some_and(|(last, _)| *last == meta.frame);
        if !is_begun {
            self.latest.push_back((meta.frame, meta.substream));
            if self.latest.len() > REMEMBERED {
                self.latest.pop_front();
            }
        }
        let is_control = meta.frame == FrameId::NONE && meta.substream == SubStream::TABLES;
        if self.videos.is_empty() && !self.is_chained && !is_control {
            self.videos.push(Video::new(BTreeSet::from([meta.substream])));
        }
        if !is_begun && !meta.references.is_empty() {
            self.link(meta);
        }
        self.videos.iter().position(|video| video.linked.contains(&meta.substream))
    }

    /// Makes one video of the sub-streams of a frame and of its references.
    fn link(&mut self, meta: &AduMeta) {
        let of = |id| self.latest.iter().rev().find(|(frame, _)| *frame == id).map(|(_, substream)| *substream);
        let mut linked: BTreeSet<SubStream> = meta.references.iter().filter_map(of).chain([meta.substream]).collect();
        if !std::mem::replace(&mut self.is_chained, true) {
            // The first sub-stream was not a video's, unless it is this one.
            self.videos.retain(|video| video.linked.contains(&meta.substream));
        }
        if self.videos.iter().any(|video| video.linked.is_superset(&linked)) {
            return;
        }
        // Frames of the sub-streams that are new were not learnt.
        let referred = linked.clone();
        for video in self.videos.extract_if(.., |video| !video.linked.is_disjoint(&referred)) {
            linked.extend(video.linked);
        }
        // Parts of sound that is cut refer to each other, too.
        let is_beside = linked.iter().all(|of| matches!(*of, SubStream::AUDIO | SubStream::TABLES));
        if self.videos.len() == MAX_VIDEOS {
            let newest = self.newest();
            self.videos.retain(|video| !video.is_silent(newest));
        }
        if self.videos.is_empty() || !is_beside && self.videos.len() < MAX_VIDEOS {
            self.videos.push(Video::new(linked));
        }
    }

    fn newest(&self) -> Instant {
        self.videos.iter().filter_map(|video| video.pattern.newest()).max().unwrap_or_default()
    }

    /// Videos that go on.
    fn live(&self) -> impl Iterator<Item = &Video> {
        let newest = self.newest();
        self.videos.iter().filter(move |video| !video.is_silent(newest))
    }

    /// Weighs the videos by the shares of their latest frames that are not `broken`: proportional fairness. Without it the frames of one
    /// video are given up for another's, as that takes fewer keyframes.
    pub(super) fn weigh(&mut self, broken: &BTreeSet<FrameId>) {
        let least = self.live().map(|video| video.pattern.share_left(broken)).min().unwrap_or(0);
        for video in &mut self.videos {
            let weight = (EQUAL * least).checked_div(video.pattern.share_left(broken));
            video.weight = weight.map_or(EQUAL, |weight| weight.clamp(MIN_WEIGHT, EQUAL));
        }
    }

    /// Weight of a sub-stream's frames, in sixteenths.
    pub(super) fn weight(&self, substream: SubStream) -> u64 {
        self.videos.iter().find(|video| video.linked.contains(&substream)).map_or(EQUAL, |video| video.weight)
    }

    /// Expected frames of all videos, in order, each with the index of its video; their worth is weighed, in sixteenths.
    pub(super) fn ahead(&self) -> impl Iterator<Item = (usize, Expected)> + '_ {
        let newest = self.newest();
        let live = self.videos.iter().enumerate().filter(|(_, video)| !video.is_silent(newest));
        let mut live: Vec<_> = live.map(|(n, video)| (n, video.weight, video.pattern.ahead().peekable())).collect();
        std::iter::from_fn(move || {
            let heads = live.iter_mut().filter_map(|(n, weight, ahead)| Some((ahead.peek()?.at, *n, *weight, ahead)));
            let (_, video, weight, ahead) = heads.min_by_key(|(at, n, ..)| (*at, *n))?;
            let frame = ahead.next()?;
            Some((video, Expected { worth: frame.worth * weight, ..frame }))
        })
    }

    /// Adds all frames that depend on broken ones.
    pub(super) fn break_chains(&self, broken: &mut BTreeSet<FrameId>) {
        self.videos.iter().for_each(|video| video.pattern.break_chains(broken));
    }

    /// Bytes of a frame that are still expected, if it is the newest of its video and its source hands it over part by part.
    pub(super) fn rest(&self, now: Instant, frame: FrameId) -> u64 {
        let rests = self.videos.iter().filter_map(|video| video.pattern.rest(now));
        rests.filter(|(of, _)| *of == frame).map(|(_, bytes)| bytes).sum()
    }

    /// The next keyframe of any video.
    pub(super) fn next_head(&self) -> Option<Expected> {
        self.live().filter_map(|video| video.pattern.next_head()).min_by_key(|head| head.at)
    }

    /// Identifier of the frame `back` frames before the newest of a video; `None` if it is forgotten.
    pub(super) fn id_before_newest(&self, video: usize, back: usize) -> Option<FrameId> {
        self.videos.get(video)?.pattern.id_before_newest(back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;
    use timeous_core::References;

    fn expected(forecast: &Forecast) -> impl Iterator<Item = Expected> + '_ {
        forecast.ahead().map(|(_, frame)| frame)
    }

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
        let ahead: Vec<Expected> = expected(&forecast).take(4).collect();
        assert_eq!(
            ahead.iter().map(|frame| (frame.bytes, frame.back[0])).collect::<Vec<_>>(),
            [(100, 1), (900, 0), (100, 1), (100, 1)]
        );
        assert_eq!((ahead[1].at, ahead[1].deadline), (at(240), Some(at(440))));
        assert_eq!(forecast.id_before_newest(0, 1), Some(FrameId(4)));
    }

    /// A camera of two that is unplugged: its frames, all in the past, took the places of the other's.
    #[test]
    fn a_video_that_has_stopped_is_expected_no_more() {
        let mut forecast = Forecast::default();
        let mut next = 0;
        let mut learn = |forecast: &mut Forecast, substream, n: u64| {
            next += 1;
            let references = if n.is_multiple_of(5) { References::NONE } else { References::from([FrameId(next - 1)]) };
            let (enqueued, deadline) = (at(40 * n), Some(at(40 * n + 200)));
            let frame = FrameId(next);
            let meta = AduMeta { substream, frame, references, enqueued, deadline, ..AduMeta::default() };
            forecast.learn(&meta, 100, 1);
        };
        let [one, other] = [SubStream(10), SubStream(11)];
        (0..20).for_each(|n| learn(&mut forecast, one, n));
        (0..20).for_each(|n| learn(&mut forecast, other, n));
        assert_eq!(forecast.ahead().take(8).filter(|(video, _)| *video == 0).count(), 4);
        (20..30).for_each(|n| learn(&mut forecast, other, n));
        assert!(forecast.ahead().take(60).all(|(video, _)| video == 1));
        assert_eq!(forecast.next_head().unwrap().at, at(40 * 30));
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
        assert_eq!(forecast.rest(at(305), FrameId(7)), 200);
        assert_eq!(forecast.rest(at(320), FrameId(7)), 0, "it is smaller than those before");
    }

    #[test]
    fn within_the_first_group_its_pattern_goes_on() {
        let forecast = learnt(&[(0, 900), (1, 50), (2, 200), (1, 50), (2, 200), (1, 50), (2, 200)]);
        let backs: Vec<u16> = expected(&forecast).take(3).map(|frame| frame.back[0]).collect();
        assert_eq!(backs, [1, 2, 1]);
    }

    #[test]
    fn the_next_group_begins_when_the_last_is_as_long_as_the_one_before() {
        let forecast = learnt(&[(0, 900), (1, 100), (1, 100), (0, 700), (1, 100)]);
        let head = forecast.next_head().unwrap();
        assert_eq!((head.at, head.bytes, head.deadline), (at(240), 875, Some(at(440))));
        assert_eq!(learnt(&[(0, 900), (1, 100)]).next_head(), None);
    }

    /// Found with x264, which begins groups at cuts: the frames before a keyframe that was expected too soon were given up, and with them all
    /// until it came.
    #[test]
    fn a_group_may_become_as_long_as_the_longest() {
        let group = |frames: usize| std::iter::once((0, 900)).chain(std::iter::repeat_n((1, 100), frames - 1));
        let next_head = |groups: &[usize]| {
            let frames: Vec<_> = groups.iter().flat_map(|frames| group(*frames)).collect();
            learnt(&frames).next_head().map(|head| head.at.as_nanos() / 40_000_000)
        };
        assert_eq!(next_head(&[6, 3, 2]), Some(9 + 6));
        assert_eq!(next_head(&[3, 6, 3]), Some(9 + 6));
        assert_eq!(next_head(&[3, 6, 6]), Some(9 + 6));
        assert_eq!(next_head(&[3, 6, 7]), None, "longer than any");
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
        let ahead: Vec<Expected> = expected(&forecast).take(4).collect();
        forecast.learn(&told(170), 30, 9);
        forecast.learn(&told(170), 30, 9);
        assert_eq!(expected(&forecast).take(4).collect::<Vec<_>>(), ahead);
        let frame = AduMeta { frame: FrameId(1), enqueued: at(40), ..AduMeta::default() };
        before.learn(&frame, 900, 1);
        assert_eq!(before.videos[0].pattern.len(), 1, "nor if it came before the first frame");
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
        let ahead: Vec<Expected> = expected(&forecast).take(6).collect();
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
            let ahead: Vec<u16> = expected(&forecast).take(4).map(|frame| frame.back[0]).collect();
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
        assert_eq!(expected(&forecast).next(), None);
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
        assert_eq!(expected(&learnt(&[])).next(), None);
        assert_eq!(expected(&learnt(&[(0, 900), (1, 100), (2, 300), (1, 100)])).next(), None);
    }

    /// Found with a transport stream of two programs over half of its rate: only frames of the first were expected, and room was left for
    /// them by giving up those of the second.
    #[test]
    fn videos_that_do_not_refer_to_each_other_are_expected_side_by_side() {
        let mut forecast = Forecast::default();
        for number in 1..=20u32 {
            let (video, place) = (number % 2, (number - 1) / 2);
            let references = if place % 4 == 0 { References::NONE } else { References::from([FrameId(number - 2)]) };
            let (frame, substream) = (FrameId(number), SubStream(video as u8));
            let enqueued = at(40 * u64::from(place) + 10 * u64::from(1 - video));
            forecast.learn(&AduMeta { frame, references, substream, enqueued, ..AduMeta::default() }, 100, 1);
        }
        let ahead: Vec<_> = forecast.ahead().take(6).map(|(video, frame)| (video, frame.at, frame.back[0])).collect();
        let of = |video, at_ms, back| (video, at(at_ms), back);
        assert_eq!(ahead, [of(0, 400, 1), of(1, 410, 1), of(0, 440, 1), of(1, 450, 1), of(0, 480, 0), of(1, 490, 0)]);
    }

    /// Found with two programs over half of their rate: the plan of most pictures is that of one program, whose keyframe has left already.
    #[test]
    fn the_video_that_has_more_of_late_counts_less() {
        let mut forecast = Forecast::default();
        for number in 1..=80u32 {
            let (video, place) = (number % 2, (number - 1) / 2);
            let references = if place % 8 == 0 { References::NONE } else { References::from([FrameId(number - 2)]) };
            let (frame, substream, enqueued) = (FrameId(number), SubStream(video as u8), at(40 * u64::from(place)));
            forecast.learn(&AduMeta { frame, references, substream, enqueued, ..AduMeta::default() }, 100, 1);
        }
        let mut weights = |broken: &[u32]| {
            forecast.weigh(&broken.iter().copied().map(FrameId).collect());
            [0, 1, 2].map(|substream| forecast.weight(SubStream(substream)))
        };
        assert_eq!(weights(&[]), [16, 16, 16]);
        let odd: Vec<u32> = (1..80).step_by(2).collect();
        assert_eq!(weights(&odd[27..]), [8, 16, 16], "13 of the last 26 of the second");
        assert_eq!(weights(&odd), [4, 16, 16], "not sound");
        assert_eq!(weights(&[odd.as_slice(), &[80, 78]].concat()), [4, 16, 16]);
        assert_eq!(weights(&(1..=80).collect::<Vec<_>>()), [16, 16, 16], "nothing left of either");
    }
}
