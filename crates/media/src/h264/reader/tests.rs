//! Tests of the frame reader: frames and parts of hand-made streams.

use super::*;
use crate::frame::{FrameKind, name};
use crate::h264::testing::{Slice, annexb, pps, sps};

const AUD: [u8; 2] = [9, 0xf0];
/// Recovery point with a count of 0, exact.
const RECOVERY: [u8; 4] = [6, 6, 1, 0b1100_0100];

fn sets(references: u32) -> Vec<Vec<u8>> {
    vec![sps(references, false, false, None), pps(1)]
}

fn field(kind: char, number: u32, bottom: bool) -> Slice {
    Slice { field: Some(Some(bottom)), ..Slice::new(kind, number, 2 * number + u32::from(bottom)) }
}

fn second(slice: Slice) -> Slice {
    Slice { first_mb: 6, ..slice }
}

fn frames_of(reader: &mut FrameReader) -> Vec<Frame> {
    std::iter::from_fn(|| reader.next_frame()).collect()
}

fn read(nals: &[Vec<u8>]) -> (Vec<Frame>, Ending) {
    let mut reader = FrameReader::new(None);
    reader.push(&annexb(nals)).unwrap();
    let ending = reader.finish().unwrap();
    (frames_of(&mut reader), ending)
}

/// Index, number of NAL units, first, last.
fn parts_of(reader: &mut FrameReader) -> Vec<(u32, usize, bool, bool)> {
    std::iter::from_fn(|| reader.next_part())
        .map(|part| (part.frame.index, part.frame.nals.len(), part.first, part.last))
        .collect()
}

#[test]
fn a_stream_without_a_picture_says_so() {
    let mut reader = FrameReader::new(None);
    reader.push(&[0, 0, 0, 1, 0x40, 1, 12, 1, 0, 0, 0, 1, 0x26, 1, 0xaf]).unwrap();
    assert_eq!(reader.finish(), Err(MediaError::NoPicture { bytes: 15 }));
}

#[test]
fn a_slice_leaves_when_the_next_one_begins() {
    let mut reader = FrameReader::new(None);
    let p = Slice::new('P', 1, 2);
    reader.push(&annexb(&[sets(1), vec![Slice::idr().nal()]].concat())).unwrap();
    assert_eq!(parts_of(&mut reader), [], "it may go on");
    reader.push(&annexb(&[second(Slice::idr()).nal()])).unwrap();
    assert_eq!(parts_of(&mut reader), [(0, 3, true, false)]);
    let next = annexb(&[p.nal(), second(p.clone()).nal()]);
    reader.push(&next[..10]).unwrap();
    assert_eq!(parts_of(&mut reader), [(0, 1, false, true)], "its header tells that the next frame begins");
    reader.push(&next[10..]).unwrap();
    assert_eq!(parts_of(&mut reader), [(1, 1, true, false)]);
    reader.push(&[0, 0, 1, AUD[0]]).unwrap();
    assert_eq!(parts_of(&mut reader), [(1, 1, false, true)], "so does a delimiter");
}

#[test]
fn a_pause_ends_what_is_under_way() {
    let mut reader = FrameReader::new(None);
    let slices = |number| [Slice::new('P', number, 2 * number), second(Slice::new('P', number, 2 * number))];
    reader.push(&annexb(&[sets(1), vec![Slice::idr().nal(), second(Slice::idr()).nal()]].concat())).unwrap();
    reader.flush();
    assert_eq!(parts_of(&mut reader), [(0, 3, true, false), (0, 1, false, true)]);
    reader.push(&annexb(&[slices(1)[0].nal()])).unwrap();
    reader.flush();
    assert_eq!(parts_of(&mut reader), [(1, 1, true, false)], "the frame before had two slices");
    reader.push(&annexb(&[slices(1)[1].nal()])).unwrap();
    reader.flush();
    reader.flush();
    assert_eq!(parts_of(&mut reader), [(1, 1, false, true)]);
    reader.push(&annexb(&[second(slices(1)[1].clone()).nal()])).unwrap();
    reader.flush();
    assert_eq!(parts_of(&mut reader), [(1, 1, false, true)], "another slice of the same frame");
    reader.push(&annexb(&[slices(2)[0].nal()])).unwrap();
    reader.flush();
    reader.push(&annexb(&[slices(3)[0].nal()])).unwrap();
    assert_eq!(parts_of(&mut reader), [(2, 1, true, false), (2, 0, false, true)], "the end is told when it is known");
    assert_eq!(reader.torn(), 0);
}

#[test]
fn a_unit_that_goes_on_after_the_pause_is_torn() {
    let mut reader = FrameReader::new(None);
    let p = annexb(&[Slice::new('P', 1, 2).nal()]);
    reader.push(&annexb(&[sets(1), vec![Slice::idr().nal()]].concat())).unwrap();
    reader.push(&p[..p.len() - 1]).unwrap();
    reader.flush();
    reader.push(&p[p.len() - 1..]).unwrap();
    assert_eq!((parts_of(&mut reader).len(), reader.torn()), (2, 1));
    reader.push(&annexb(&[Slice::new('P', 2, 4).nal()])).unwrap();
    reader.flush();
    assert_eq!(parts_of(&mut reader), [(2, 1, true, true)]);
}

#[test]
fn parts_are_told_by_what_has_been_seen_of_the_frame() {
    let mut reader = FrameReader::new(None);
    let i = Slice::new('I', 1, 2);
    let nals = [sets(1), vec![Slice::idr().nal(), i.nal(), second(Slice { kind: 'P', ..i }).nal()]].concat();
    reader.push(&annexb(&nals)).unwrap();
    reader.finish().unwrap();
    let kinds: Vec<_> = std::iter::from_fn(|| reader.next_part())
        .map(|part| (part.frame.kind, part.frame.references.iter().collect::<Vec<_>>()))
        .collect();
    let expected = [(FrameKind::Idr, vec![]), (FrameKind::I, vec![]), (FrameKind::P, vec![name(0)])];
    assert_eq!(kinds, expected);
}

#[test]
fn two_fields_are_one_frame_even_with_a_delimiter_between_them() {
    for between in [vec![], vec![AUD.to_vec()], vec![RECOVERY.to_vec()]] {
        let mut nals = vec![sps(2, true, false, None), pps(1), Slice { idr: true, ..field('I', 0, false) }.nal()];
        nals.extend(between.clone());
        nals.push(field('P', 0, true).nal());
        for number in 1..4 {
            nals.push(AUD.to_vec());
            nals.push(field('P', number, false).nal());
            nals.extend(between.clone());
            nals.push(field('P', number, true).nal());
        }
        let (frames, _) = read(&nals);
        assert_eq!(frames.len(), 4);
        for frame in &frames {
            assert_eq!(frame.display_index, u64::from(frame.index));
            let before = frame.index.checked_sub(1).map(name);
            assert!(frame.entry.is_some() || frame.references.iter().eq(before), "{frame:?}");
        }
        let mut reader = FrameReader::new(None);
        for unit in nals.chunk_by(|_, next| next[0] & 0x1f != 1) {
            reader.push_access_unit(&annexb(unit)).unwrap();
        }
        assert_eq!(frames_of(&mut reader).iter().map(Frame::size).collect::<Vec<_>>().len(), 4, "as RTP has them");
    }
}

#[test]
fn a_field_without_its_other_one_is_a_frame() {
    let mut nals = vec![sps(2, true, false, None), pps(1), Slice { idr: true, ..field('I', 0, false) }.nal()];
    nals.extend([field('P', 1, false).nal(), field('P', 1, true).nal(), field('P', 2, true).nal()]);
    nals.extend([field('P', 3, true).nal(), field('P', 3, false).nal()]);
    nals.push(Slice { field: Some(None), ..Slice::new('P', 4, 8) }.nal());
    let (frames, _) = read(&nals);
    assert_eq!(frames.iter().map(|frame| frame.nals.len()).collect::<Vec<_>>(), [3, 2, 1, 2, 1]);
}

#[test]
fn an_access_unit_that_is_pushed_whole_ends_its_frame() {
    let mut reader = FrameReader::new(None);
    reader
        .push_access_unit(&annexb(&[sets(1), vec![Slice::idr().nal(), second(Slice::idr()).nal()]].concat()))
        .unwrap();
    assert_eq!(parts_of(&mut reader), [(0, 3, true, false), (0, 1, false, true)]);
    reader.push_access_unit(&annexb(&[Slice::new('P', 1, 2).nal()])).unwrap();
    assert_eq!(parts_of(&mut reader), [(1, 1, true, true)]);
    assert_eq!(reader.finish().unwrap().frames, 2);
    assert!(reader.push_access_unit(b"RIFF").is_err());
}

#[test]
fn a_stream_that_begins_in_the_middle_waits_for_parameter_sets() {
    let p = [1, 2].map(|number| Slice::new('P', number, 2 * number).nal());
    let (frames, ending) = read(&[p.to_vec(), sets(1), vec![Slice::idr().nal()], p.to_vec()].concat());
    assert_eq!(frames.len(), 3);
    assert_eq!(ending.left_out.slices_without_parameter_sets, 2);
    assert_eq!(ending.unreadable_slices, 2);
}

#[test]
fn what_is_unreadable_is_left_out_and_counted() {
    let mut nals = [sets(1), vec![Slice::idr().nal()]].concat();
    // An invalid slice type, in a slice with its own prefix; types that RTP cannot carry.
    nals.extend([vec![0x6e, 0x80, 0, 0], vec![0x41, 0b1000_0101, 0xff]]);
    nals.extend([vec![24, 1], vec![31, 2], vec![0, 1]]);
    nals.extend([vec![0x67, 0xff], vec![0x6e, 0x80, 0, 0], Slice::new('P', 1, 2).nal()]);
    let (frames, ending) = read(&nals);
    assert_eq!(frames.len(), 2);
    assert_eq!(frames[1].nals.iter().map(|nal| nal[0]).collect::<Vec<_>>(), [0x67, 0x6e, 0x41]);
    let expected = LeftOut { malformed_slices: 1, unspecified_types: 3, parameter_sets: 1, ..LeftOut::default() };
    assert_eq!(ending.left_out, expected);
}

#[test]
fn extensions_and_filler_pass_with_their_picture() {
    let mut nals = [sets(1), vec![Slice::idr().nal()]].concat();
    // An MVC slice, filler data, an auxiliary picture, a reserved type; the end of a sequence.
    nals.extend([vec![0x74, 1, 2, 3], vec![12, 0xff, 0x80], vec![19, 1], vec![22, 5], vec![10]]);
    nals.push(Slice::idr().nal());
    let (frames, _) = read(&nals);
    assert_eq!(frames.iter().map(|frame| frame.nals.len()).collect::<Vec<_>>(), [8, 1]);
}

#[test]
fn a_frame_beyond_the_limit_is_left_out_and_the_stream_goes_on() {
    let large = |mut nal: Vec<u8>, len: usize| {
        nal.resize(len, 0xaa);
        nal
    };
    let p = |number| Slice::new('P', number, 2 * number);
    for large in [vec![large(p(1).nal(), 1001)], vec![large(p(1).nal(), 600), large(second(p(1)).nal(), 600)]] {
        let nals = [sets(1), vec![Slice::idr().nal()], large, vec![p(2).nal(), p(3).nal()]].concat();
        for chunk in [1, 7, 100_000] {
            let mut reader = FrameReader::with_limit(None, 1000);
            annexb(&nals).chunks(chunk).for_each(|chunk| reader.push(chunk).unwrap());
            let ending = reader.finish().unwrap();
            let frames = frames_of(&mut reader);
            assert_eq!(frames.iter().map(|frame| frame.index).collect::<Vec<_>>(), [0, 2, 3]);
            assert_eq!((ending.frames, ending.left_out.too_large), (3, 1));
            assert!(frames[1].references.is_empty() && frames[1].entry.is_none(), "what it refers to is not sent");
        }
    }
}

#[test]
fn a_recovery_point_is_an_entry_and_leading_pictures_look_behind_it() {
    let nals = [
        sets(2),
        vec![Slice::idr().nal(), Slice::new('P', 1, 2).nal()],
        vec![RECOVERY.to_vec(), Slice::new('I', 2, 8).nal()],
        vec![Slice::discardable('B', 3, 6).nal(), Slice { active: Some(2), ..Slice::new('P', 3, 12) }.nal()],
    ];
    let (frames, _) = read(&nals.concat());
    let references = |at: usize| frames[at].references.iter().collect::<Vec<_>>();
    assert_eq!(frames[2].entry, Some(crate::frame::EntryPoint { recovery: 0 }));
    assert_eq!((frames[2].gop_position, frames[2].priority), (0, timeous_core::Priority::HIGHEST));
    assert_eq!(references(3), [name(2), name(1)], "it is shown before the entry point");
    assert_eq!(references(4), [name(2)], "it is shown after the entry point, and the rest is behind that");
    assert_eq!((frames[1].gop_position, frames[4].gop_position), (1, 1));
}

#[test]
fn a_stream_with_other_parameter_sets_goes_on() {
    let mut other = sps(3, false, false, None);
    other[1] = 66;
    let group = vec![Slice::idr().nal(), Slice::new('P', 1, 2).nal()];
    let (frames, _) = read(&[sets(1), group.clone(), vec![other, pps(2)], group].concat());
    assert_eq!(frames.len(), 4);
    assert!(frames[3].references.iter().eq([name(2)]));
}
