//! Frame reader on streams of real encoders: frame types, references and times.

use std::collections::BTreeSet;

use timeous_core::{Duration, Priority};
use timeous_media::{EntryPoint, Frame, FrameKind, FrameRate, FrameReader};

use crate::support::*;

#[test]
fn streams_of_the_field_are_read_whole() {
    for (name, count) in
        [("prefix-nal", 50), ("nal31", 50), ("sps-trailing", 50), ("idr-same-time", 74), ("intra-refresh", 150)]
    {
        let frames = read(&stream(name), None);
        assert_eq!(frames.len(), count, "{name}");
        let ticks: BTreeSet<u64> = frames.iter().map(|frame| frame.rtp_ticks).collect();
        assert_eq!(ticks.len(), count, "{name}: each frame has a timestamp of its own");
        assert!(frames.windows(2).all(|pair| pair[0].handover < pair[1].handover), "{name}");
        assert!(frames.iter().flat_map(|frame| &frame.nals).all(|nal| (1..24).contains(&(nal[0] & 0x1f))), "{name}");
        assert!(frames.last().unwrap().capture <= Duration::from_millis(40 * count as u64 + 80), "{name}");
    }
}

#[test]
fn a_prefix_goes_with_the_slice_behind_it() {
    for frame in read(&stream("prefix-nal"), None) {
        let mut kinds = frame.nals.iter().map(|nal| nal[0] & 0x1f).skip_while(|kind| (6..9).contains(kind));
        assert!(kinds.by_ref().eq([14, 1, 14, 1, 14, 1].map(|kind| if frame.kind == FrameKind::Idr && kind == 1 {
            5
        } else {
            kind
        })));
    }
}

#[test]
fn what_rtp_cannot_carry_is_counted() {
    let mut reader = FrameReader::new(None);
    reader.push(&stream("nal31")).unwrap();
    let ending = reader.finish().unwrap();
    assert_eq!((ending.left_out.unspecified_types, ending.unreadable_slices), (50, 0));
    assert_eq!(reader.left_out(), ending.left_out);
}

#[test]
fn a_rate_that_changes_in_mid_stream_is_followed() {
    let frames = read(&stream("rate-25-50"), None);
    assert_eq!(frames.len(), 225);
    let mut time = Duration::ZERO;
    for frame in &frames {
        let duration = Duration::from_millis(if frame.index < 75 { 40 } else { 20 });
        assert_eq!((frame.duration, frame.capture, frame.handover), (duration, time, time), "{}", frame.index);
        assert_eq!(frame.rtp_ticks, time.as_nanos() * 90 / 1_000_000);
        time += duration;
    }
    let given = read(&stream("rate-25-50"), FrameRate::new(10, 1));
    assert!(given.iter().all(|frame| frame.duration == Duration::from_millis(100)));
    assert_eq!(given[224].capture, Duration::from_millis(22_400));
}

#[test]
fn entry_points_are_worth_most_and_have_no_references() {
    for (name, recovery) in [("open-gop", 0), ("intra-refresh", 24), ("intra-refresh-b", 24), ("ref4", 0)] {
        let frames = read(&stream(name), None);
        let entries: Vec<&Frame> = frames.iter().filter(|frame| frame.entry.is_some()).collect();
        assert!(entries.len() >= 3, "{name}: {}", entries.len());
        for (place, entry) in entries.iter().enumerate() {
            assert!(entry.references.is_empty() && entry.gop_position == 0, "{name}");
            let recovery = if place == 0 { 0 } else { recovery };
            let EntryPoint { recovery: found } = entry.entry.unwrap();
            assert!(found == 0 && recovery == 0 || found.abs_diff(recovery) < 24 && found > 0, "{name}: {found}");
            assert_eq!(entry.priority == Priority::HIGHEST, found == 0);
        }
        let others = frames.iter().filter(|frame| frame.entry.is_none());
        for frame in others {
            assert!(!frame.references.is_empty() && frame.priority < Priority(241), "{name}: frame {}", frame.index);
            assert_eq!(frame.priority == Priority(16), !frame.reference, "{name}: frame {}", frame.index);
        }
    }
}

/// References precede the frame, and none is a non-reference frame.
#[test]
fn references_are_reference_frames_before_the_frame() {
    for name in ["open-gop", "open-gop-strict", "pyramid", "ref4", "slices", "mbaff", "intra-refresh-b"] {
        let frames = read(&stream(name), None);
        let named = |id| frames.iter().find(|frame| frame.id() == id).unwrap();
        for frame in &frames {
            for reference in frame.references.iter().map(named) {
                assert!(reference.index < frame.index && reference.reference, "{name}: frame {}", frame.index);
            }
            assert!(frame.kind != FrameKind::P || frame.references.len() <= 2, "{name}: a chain needs its last link");
        }
    }
    let frames = read(&stream("pyramid"), None);
    let pair = |frame: &&Frame| frame.kind == FrameKind::B && frame.references.len() > 1;
    assert_eq!(frames.iter().filter(pair).count(), 0, "the later P frame covers the earlier");
}

#[test]
fn parts_make_the_same_frames_in_any_chunks() {
    for name in ["slices", "prefix-nal", "open-gop", "nal31"] {
        let whole = stream(name);
        let frames = read(&whole, None);
        for chunk in [1, 113, 5_000] {
            let mut reader = FrameReader::new(None);
            let mut parts = Vec::new();
            for chunk in whole.chunks(chunk) {
                reader.push(chunk).unwrap();
                parts.extend(std::iter::from_fn(|| reader.next_part()));
            }
            reader.finish().unwrap();
            parts.extend(std::iter::from_fn(|| reader.next_part()));
            let slices = if name == "slices" { 4 } else { 1 };
            let many = if name == "prefix-nal" { 3 } else { slices };
            assert_eq!(parts.len(), many * frames.len(), "{name}: each slice is a part");
            for (frame, parts) in frames.iter().zip(parts.chunks(many)) {
                let nals: Vec<_> = parts.iter().flat_map(|part| part.frame.nals.clone()).collect();
                assert_eq!(frame.nals, nals);
                assert!(parts.iter().all(|part| part.frame.rtp_ticks == frame.rtp_ticks));
                assert!(parts.iter().enumerate().all(|(at, part)| part.first == (at == 0)));
                assert!(parts.iter().rev().enumerate().all(|(at, part)| part.last == (at == 0)));
            }
        }
    }
}

/// Live source: each NAL unit is followed by a pause.
#[test]
fn with_pauses_each_frame_leaves_without_the_next_one() {
    let frames = read(&stream("slices"), None);
    let mut reader = FrameReader::new(None);
    for frame in &frames {
        let annexb = frame.annexb();
        let starts: Vec<usize> = (0..annexb.len()).filter(|&at| annexb[at..].starts_with(&[0, 0, 0, 1])).collect();
        let ends = starts.iter().skip(1).copied().chain([annexb.len()]);
        let mut seen = Vec::new();
        for (&start, end) in starts.iter().zip(ends) {
            reader.push(&annexb[start..end]).unwrap();
            reader.flush();
            seen.extend(std::iter::from_fn(|| reader.next_part()));
        }
        let nals: Vec<_> = seen.iter().flat_map(|part| part.frame.nals.clone()).collect();
        assert_eq!(nals, frame.nals, "frame {}", frame.index);
        assert!(seen.iter().all(|part| part.frame.index == frame.index));
        assert!(seen.last().unwrap().last);
    }
    assert_eq!(reader.torn(), 0);
}
