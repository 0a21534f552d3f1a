//! Tests of the reference picture buffer: lists and marking, by hand-made headers.

use super::{PossibleReferences, ReferenceBuffer};
use crate::h264::parameters::ParameterSets;
use crate::h264::poc::PocState;
use crate::h264::slice::SliceHeader;
use crate::h264::testing::{Slice, pps, sps};

/// Buffer of a stream; pictures are identified by their position.
struct Stream {
    sets: ParameterSets,
    buffer: ReferenceBuffer<u32>,
    poc: PocState,
    taken: u32,
}

impl Stream {
    fn new(sps: &[u8], active: u32) -> Self {
        let mut sets = ParameterSets::default();
        assert!(sets.try_take(sps) && sets.try_take(&pps(active)));
        Self { sets, buffer: ReferenceBuffer::default(), poc: PocState::default(), taken: 0 }
    }

    fn of_frames(references: u32, active: u32) -> Self {
        Self::new(&sps(references, false, false, None), active)
    }

    /// Adds a picture; returns its possible references, in order of position.
    fn take(&mut self, slice: &Slice) -> PossibleReferences<u32> {
        let header = self.header(slice);
        self.buffer.begin(&header, false);
        self.go_on(&header)
    }

    fn go_on(&mut self, header: &SliceHeader) -> PossibleReferences<u32> {
        let count = self.poc.count(header);
        let mut referred = self.buffer.referred(header, count);
        self.buffer.end(header, count, Some(self.taken));
        self.taken += 1;
        referred.known.sort_unstable();
        referred
    }

    fn header(&self, slice: &Slice) -> SliceHeader {
        SliceHeader::read(&slice.nal(), &self.sets).unwrap()
    }

    fn known(&mut self, slice: &Slice) -> Vec<u32> {
        let referred = self.take(slice);
        assert!(!referred.missing);
        referred.known
    }
}

fn p(frame_num: u32) -> Slice {
    Slice::new('P', frame_num, 2 * frame_num)
}

#[test]
fn the_window_slides_over_the_wrap_around_of_numbers() {
    let mut stream = Stream::of_frames(3, 3);
    assert!(stream.known(&Slice::idr()).is_empty());
    for number in 1..40 {
        let expected: Vec<u32> = (number.max(3) - 3..number).collect();
        assert_eq!(stream.known(&p(number)), expected);
    }
}

#[test]
fn lists_are_cut_to_their_length() {
    let mut stream = Stream::of_frames(3, 1);
    stream.take(&Slice::idr());
    stream.take(&p(1));
    assert_eq!(stream.known(&p(2)), [1]);
    assert_eq!(stream.known(&Slice { active: Some(2), ..p(3) }), [1, 2]);
}

#[test]
fn pictures_that_nothing_refers_to_are_in_no_list() {
    let mut stream = Stream::of_frames(3, 3);
    stream.take(&Slice::idr());
    assert_eq!(stream.known(&Slice::discardable('P', 1, 2)), [0]);
    assert_eq!(stream.known(&Slice::new('P', 1, 4)), [0]);
    assert_eq!(stream.known(&Slice::new('P', 2, 6)), [0, 2]);
}

/// Found with x264's preset veryfast and two B-pictures: without a B-picture that others refer to, later ones were shown damaged, since a
/// decoder had the missing one elsewhere in its lists.
#[test]
fn a_b_picture_needs_all_frames_of_the_buffer_unless_it_names_them() {
    let mut stream = Stream::of_frames(4, 1);
    stream.take(&Slice::idr());
    stream.take(&Slice::new('P', 1, 8));
    stream.take(&Slice::new('P', 2, 16));
    assert_eq!(stream.known(&Slice::new('B', 3, 12)), [0, 1, 2]);
    assert_eq!(stream.known(&Slice::discardable('B', 4, 10)), [0, 1, 2, 3]);
}

#[test]
fn modifications_name_frames_by_number() {
    let mut stream = Stream::of_frames(4, 1);
    stream.take(&Slice::idr());
    (1..4).for_each(|number| drop(stream.take(&p(number))));
    // One entry: the frame whose number is 3 lower.
    assert_eq!(stream.known(&Slice { modifications: vec![(0, 2)], ..p(4) }), [1]);
    // Two entries: 2 lower, and then 1 higher than that.
    assert_eq!(stream.known(&Slice { active: Some(2), modifications: vec![(0, 1), (1, 0)], ..p(5) }), [3, 4]);
    let referred = stream.take(&Slice { modifications: vec![(0, 8)], ..p(6) });
    assert_eq!(referred, PossibleReferences { known: vec![], missing: true }, "it is not there");
}

#[test]
fn memory_management_forgets_and_keeps() {
    let mut stream = Stream::of_frames(3, 4);
    stream.take(&Slice::idr());
    // The IDR picture becomes long-term reference 0 of at most one.
    stream.take(&Slice { markings: vec![vec![4, 1], vec![3, 0, 0]], ..p(1) });
    for number in 2..30 {
        let expected: Vec<u32> = [0].into_iter().chain(number.max(3) - 2..number).collect();
        assert_eq!(stream.known(&p(number)), expected);
    }
    // The long-term reference only, by its number.
    assert_eq!(stream.known(&Slice { active: Some(1), modifications: vec![(2, 0)], ..p(30) }), [0]);
    stream.take(&Slice { markings: vec![vec![2, 0], vec![1, 0]], ..p(31) });
    assert_eq!(stream.known(&p(32)), [29, 31], "the long-term one and the one before are forgotten");
    // The picture becomes a long-term reference itself.
    stream.take(&Slice { markings: vec![vec![4, 2], vec![6, 1]], ..p(33) });
    stream.take(&p(34));
    assert_eq!(stream.known(&p(35)), [32, 33, 34]);
    stream.take(&Slice { markings: vec![vec![5]], ..p(36) });
    assert_eq!(stream.known(&p(1)), [36], "all is forgotten, and it counts as number 0");
}

#[test]
fn skipped_numbers_are_missing_until_they_slide_out() {
    let mut stream = Stream::of_frames(2, 4);
    stream.take(&Slice::idr());
    stream.take(&p(1));
    assert_eq!(stream.take(&p(3)), PossibleReferences { known: vec![1], missing: true });
    assert_eq!(stream.take(&p(4)), PossibleReferences { known: vec![2], missing: true });
    assert_eq!(stream.known(&p(5)), [2, 3]);
    assert_eq!(stream.take(&p(5 + 9)), PossibleReferences { known: vec![], missing: true });
}

#[test]
fn a_lost_frame_may_be_the_nearest_on_the_screen() {
    let mut stream = Stream::of_frames(4, 1);
    stream.take(&Slice::idr());
    stream.take(&Slice { modifications: vec![(0, 1)], ..Slice::new('P', 2, 8) });
    assert!(stream.take(&Slice::discardable('B', 3, 4)).missing);
}

#[test]
fn numbers_that_may_be_skipped_are_missed_only_after_a_loss() {
    for loss in [false, true] {
        let mut stream = Stream::new(&sps(2, false, true, None), 2);
        stream.take(&Slice::idr());
        let header = stream.header(&p(2));
        stream.buffer.begin(&header, loss);
        assert_eq!(stream.go_on(&header), PossibleReferences { known: vec![0], missing: loss });
    }
}

#[test]
fn fields_refer_to_all_that_is_marked_but_their_own_frame() {
    let field = |kind, number, bottom: bool| Slice {
        field: Some(Some(bottom)),
        ..Slice::new(kind, number, 2 * number + u32::from(bottom))
    };
    let mut stream = Stream::new(&sps(3, true, false, None), 2);
    let frame = |stream: &mut Stream, first: Slice, second: Slice| {
        let first = stream.take(&first).known;
        let header = stream.header(&second);
        (first, stream.go_on(&header).known)
    };
    let idr = Slice { idr: true, ..field('I', 0, false) };
    assert_eq!(frame(&mut stream, idr, field('P', 0, true)), (vec![], vec![]));
    assert_eq!(frame(&mut stream, field('P', 1, false), field('P', 1, true)), (vec![1], vec![1]));
    assert_eq!(frame(&mut stream, field('P', 2, false), field('P', 2, true)), (vec![1, 3], vec![1, 3]));
    // Operation 1 on fields: both of the first frame, and one of the last, whose other field stays.
    let forget = Slice { markings: vec![vec![1, 5], vec![1, 6], vec![1, 1]], ..field('P', 3, false) };
    assert_eq!(frame(&mut stream, forget, field('P', 3, true)), (vec![1, 3, 5], vec![3, 5]));
}

#[test]
fn order_count_type_1_is_the_cycle_of_the_sps() {
    let mut sets = ParameterSets::default();
    assert!(sets.try_take(&sps(1, false, false, Some(&[4, 6]))) && sets.try_take(&pps(1)));
    let mut poc = PocState::default();
    let mut count = |slice: Slice| poc.count(&SliceHeader::read(&Slice { count: None, ..slice }.nal(), &sets).unwrap());
    assert_eq!(count(Slice::idr()), 0);
    assert_eq!(count(p(1)), 4);
    // A non-reference picture displayed before it: offset −1 from the one before.
    assert_eq!(count(Slice::discardable('P', 2, 0)), 3);
    assert_eq!(count(p(2)), 10);
    assert_eq!(count(p(3)), 14);
    for number in 4..16 {
        count(p(number));
    }
    assert_eq!(count(p(16)), 80, "number 16, after the wrap-around");
}

#[test]
fn whatever_headers_say_the_buffer_stays_within_its_bounds() {
    let mut rng = timeous_core::Rng::from_seed(11);
    for round in 0..300 {
        let fields = round % 3 == 0;
        let mut stream =
            Stream::new(&sps(rng.below(17) as u32, fields, round % 2 == 0, None), 1 + rng.below(32) as u32);
        for _ in 0..60 {
            let operand = |rng: &mut timeous_core::Rng| {
                let bits = rng.below(20);
                rng.below(1 << bits) as u32
            };
            let mut slice = Slice {
                idr: rng.chance(0.03),
                ref_idc: rng.below(3) as u8,
                active: rng.chance(0.3).then(|| 1 + rng.below(32) as u32),
                field: fields.then(|| rng.chance(0.8).then(|| rng.chance(0.5))),
                ..Slice::new(['I', 'P', 'B'][rng.below(3) as usize], rng.below(16) as u32, rng.below(256) as u32)
            };
            slice.ref_idc |= u8::from(slice.idr);
            for _ in 0..rng.below(5) {
                slice.modifications.push((rng.below(3) as u32, operand(&mut rng)));
                let operation = 1 + rng.below(6) as u32;
                let operands = [0, 1, 1, 2, 1, 0, 1][operation as usize];
                let operands = (0..operands).map(|_| operand(&mut rng) % [1 << 20, 4][rng.below(2) as usize]);
                slice.markings.push([operation].into_iter().chain(operands.collect::<Vec<_>>()).collect());
            }
            let header = stream.header(&slice);
            if rng.chance(0.7) {
                stream.buffer.begin(&header, rng.chance(0.5));
            }
            assert!(stream.go_on(&header).known.len() <= 17);
            if rng.chance(0.1) {
                stream.buffer.enter(rng.below(300) as i64);
            }
            assert!(stream.buffer.values().count() <= 16);
        }
    }
}
