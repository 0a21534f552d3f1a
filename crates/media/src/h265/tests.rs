//! Tests of references, by a stream of x265 with B-pictures and open groups of pictures.

use super::nal::NalHeader;
use super::pictures::Pictures;
use crate::h264::annexb::{NalSplitter, write};

/// 60 pictures of 128×96, an IRAP picture every 23 to 27; `assets/make-small.sh` tells how it was made.
const CLIP: &[u8] = include_bytes!("../../../../assets/small.h265");

/// Types of NAL units (H.265 table 7-1): TRAIL_N, TRAIL_R, RASL_N, RASL_R, IDR_N_LP, CRA.
const CLIP_TYPES: [u8; 6] = [0, 1, 8, 9, 20, 21];

/// Access units of the clip, which has one slice in each picture.
fn access_units() -> Vec<Vec<u8>> {
    let mut splitter = NalSplitter::new(1 << 20);
    splitter.push(CLIP).unwrap();
    splitter.finish().unwrap();
    let (mut units, mut unit) = (Vec::new(), Vec::new());
    while let Some(nal) = splitter.next_nal() {
        write([nal.as_slice()], &mut unit);
        if NalHeader::read(&nal).is_some_and(NalHeader::is_slice) {
            units.push(std::mem::take(&mut unit));
        }
    }
    units
}

/// Type and references of each picture.
fn pictures(units: &[Vec<u8>]) -> Vec<(u8, Vec<u32>)> {
    let mut pictures = Pictures::default();
    let read = (0..).zip(units).map(|(number, unit)| pictures.read(number, unit).unwrap());
    read.map(|picture| (picture.header.kind, picture.references.iter().map(|id| id.0).collect())).collect()
}

/// ffmpeg decodes each picture of the clip bit by bit from the picture and what it leads back to by these references, and warns of
/// nothing.
#[test]
fn pictures_refer_to_what_their_sets_name() {
    let read = pictures(&access_units());
    assert_eq!(read.len(), 60);
    assert!(read.iter().all(|(kind, _)| CLIP_TYPES.contains(kind)));
    let expected: [(usize, u8, &[u32]); 10] = [
        (0, 20, &[]),
        (1, 1, &[0]),
        // Without those that the others lead to.
        (2, 1, &[1]),
        (3, 0, &[2]),
        (7, 1, &[6]),
        (8, 0, &[7]),
        (23, 21, &[]),
        // Leading pictures refer to what was before the entry point; those after it do not.
        (24, 9, &[23, 20]),
        (26, 1, &[23]),
        (51, 1, &[50]),
    ];
    for (picture, kind, references) in expected {
        assert_eq!(read[picture], (kind, references.to_vec()), "picture {picture}");
    }
}

#[test]
fn nothing_refers_to_pictures_that_no_other_needs() {
    let read = pictures(&access_units());
    for (picture, (kind, _)) in (0..).zip(&read) {
        let is_needed = read.iter().any(|(_, references)| references.contains(&picture));
        assert!(!(is_needed && kind.is_multiple_of(2) && *kind < 16), "picture {picture}");
    }
}

#[test]
fn a_stream_that_is_joined_at_a_random_access_point_goes_on() {
    let units = access_units();
    // Parameter sets come with each of them.
    let read = pictures(&units[23..]);
    assert_eq!(read[0], (21, Vec::new()));
    // What the leading picture refers to beside the entry point was never seen.
    assert_eq!(read[1], (9, vec![0]));
    assert_eq!(read[4], (1, vec![3]));
}

#[test]
fn without_parameter_sets_nothing_is_known() {
    assert_eq!(Pictures::default().read(0, &access_units()[1]), None);
    assert_eq!(Pictures::default().read(0, &[0, 0, 1]), None);
}
