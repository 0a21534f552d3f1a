//! Tests with streams of encoders, whose references were taken from `ffmpeg -bsf:v trace_headers`.

use super::obu::{TEMPORAL_DELIMITER, units};
use super::units::{TemporalUnit, Units};

/// OBUs of each temporal unit of a stream in the low-overhead format (AV1 §5.2).
fn temporal_units(stream: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let mut found: Vec<Vec<Vec<u8>>> = Vec::new();
    for obu in units(stream) {
        match obu.kind {
            TEMPORAL_DELIMITER => found.push(Vec::new()),
            _ => found.last_mut().unwrap().push(obu.without_size()),
        }
    }
    found
}

/// Entry point, disposable, and references of each unit.
fn read(stream: &[u8]) -> Vec<(bool, bool, Vec<u32>)> {
    let mut units = Units::default();
    let read = (1..).zip(temporal_units(stream)).map(|(number, obus)| {
        let unit = units.read(number, obus.iter().map(Vec::as_slice), false).expect("it shows a frame");
        let TemporalUnit { is_entry, is_disposable, references, .. } = unit;
        (is_entry, is_disposable, references.expect("its headers are read"))
    });
    read.collect()
}

#[test]
fn hidden_frames_and_pictures_that_no_other_refers_to() {
    let found = read(include_bytes!("../../tests/streams/av1-hidden.obu"));
    let entry = (true, false, vec![]);
    let reference = |of: &[u32]| (false, false, of.to_vec());
    let disposable = |of: &[u32]| (false, true, of.to_vec());
    let group = |n: u32| {
        [
            entry.clone(),
            reference(&[n + 1]),
            disposable(&[n + 2]),
            disposable(&[n + 2]),
            disposable(&[n + 2]),
            reference(&[n + 2]),
            disposable(&[n + 6]),
            disposable(&[n + 6, n + 2]),
            disposable(&[n + 2]),
            reference(&[n + 2]),
        ]
    };
    assert_eq!(found, [group(0), group(10)].concat());
}

#[test]
fn several_references_each() {
    let found = read(include_bytes!("../../tests/streams/av1-realtime.obu"));
    let references: [&[u32]; 10] =
        [&[], &[1], &[2, 1], &[3, 1], &[4, 1], &[5, 2, 1], &[6, 3, 1], &[7, 4, 2, 1], &[8, 5, 3, 1], &[9, 6, 4, 1]];
    let groups = [0, 10].map(|n| references.map(|of| of.iter().map(|unit| unit + n).collect::<Vec<u32>>()));
    assert_eq!(found.iter().map(|of| of.2.clone()).collect::<Vec<_>>(), groups.concat());
    assert_eq!(found.iter().map(|of| of.0).collect::<Vec<_>>(), (0..20).map(|n| n % 10 == 0).collect::<Vec<_>>());
}

#[test]
fn what_cannot_be_read_may_refer_to_any_and_be_referred_to_by_all_that_follows() {
    let stream = include_bytes!("../../tests/streams/av1-realtime.obu");
    let all = temporal_units(stream);
    let mut units = Units::default();
    assert!(units.read(1, all[0].iter().map(Vec::as_slice), false).is_some());
    assert_eq!(units.read(2, [&all[1][0][..3]].into_iter(), false), None, "more may come");
    assert_eq!(units.read(2, [&all[1][0][..3]].into_iter(), true).unwrap().references, Some(vec![1]));
    assert_eq!(units.read(3, all[2].iter().map(Vec::as_slice), false).unwrap().references, Some(vec![2]));
}
