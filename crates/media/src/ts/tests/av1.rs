//! AV1 without a registration, as ffmpeg writes it, and as the registration's specification has it.

use super::*;
use crate::av1::obu::{TEMPORAL_DELIMITER, split_up};

/// PES packets of an encoder's stream, a temporal unit each.
fn mux(kind: u8, pes_of: impl Fn(&[&[u8]]) -> Vec<u8>) -> Vec<TsUnit> {
    let stream = include_bytes!("../../../tests/streams/av1-hidden.obu");
    let mut mux = Mux::default();
    mux.tables_of(&[(kind, VIDEO)]);
    let obus: Vec<&[u8]> = split_up(stream).collect();
    for unit in obus.chunk_by(|_, next| next[0] >> 3 != TEMPORAL_DELIMITER) {
        mux.add(VIDEO, &[&[0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0], &pes_of(unit)[..]].concat(), None);
    }
    units(&mux.bytes)
}

/// A unit behind a start code, with emulation prevention (H.264 §7.4.1).
fn with_start_code(obu: &[u8]) -> Vec<u8> {
    let mut out = vec![0, 0, 1];
    let mut zeros = 0;
    for &byte in obu {
        if zeros == 2 && byte <= 3 {
            out.push(3);
            zeros = 0;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        out.push(byte);
    }
    out
}

/// It counted as data: given up before video, and without what refers to what.
#[test]
fn av1_that_nothing_names_is_known_by_its_stream_id_and_units() {
    let low_overhead = |unit: &[&[u8]]| unit.concat();
    let start_codes = |unit: &[&[u8]]| unit.iter().flat_map(|obu| with_start_code(obu)).collect();
    for found in [mux(0x06, low_overhead), mux(0x06, start_codes)] {
        let pictures: Vec<_> = found.iter().filter(|unit| unit.stream.pid == VIDEO && unit.first == 0).collect();
        assert_eq!(pictures.len(), 20);
        for (n, unit) in pictures.iter().enumerate() {
            let kind = match n % 10 {
                0 => UnitKind::VideoEntry,
                1 | 5 | 9 => UnitKind::Video,
                _ => UnitKind::VideoDisposable,
            };
            assert_eq!((unit.stream.codec, unit.kind), ("AV1", kind), "picture {n}");
        }
        let back = |n: usize| pictures[n].references.iter().map(|id| pictures[n].frame - id.0).collect::<Vec<_>>();
        assert_eq!([back(0), back(1), back(2), back(7)], [vec![], vec![1], vec![1], vec![2, 6]]);
    }
}

#[test]
fn video_that_nothing_names_is_known_by_random_access_points() {
    let found = mux(0x06, |_| vec![0x82, 0x49, 0x83, 0x42]);
    assert!(found.iter().filter(|unit| unit.stream.pid == VIDEO).all(|unit| unit.kind == UnitKind::Video));
}

#[test]
fn start_codes_without_units_do_no_harm() {
    let found = mux(0x06, |_| vec![0, 0, 1, 0x10, 0, 0, 1, 0, 0, 1, 0, 0, 1]);
    assert!(found.iter().filter(|unit| unit.stream.pid == VIDEO).all(|unit| unit.stream.codec == "AV1"));
}
