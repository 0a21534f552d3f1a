//! Decodability after losses, on streams of real encoders, compared with ffmpeg's decoding.

use std::collections::BTreeSet;

use timeous_core::{Duration, Instant, Rng};
use timeous_media::{Frame, Packetizer, PacketizerConfig, Playout, PlayoutConfig};

use crate::support::*;

/// Plays the frames that `keep` accepts over a perfect network.
fn play(frames: &[Frame], keep: impl Fn(usize) -> bool) -> Played {
    let mut packetizer = Packetizer::new(PacketizerConfig::default()).unwrap();
    let mut playout = Playout::new(PlayoutConfig::new(Duration::from_millis(400)));
    let mut played = Played::default();
    for (place, frame) in frames.iter().enumerate() {
        for adu in packetizer.packetize(frame) {
            let now = Instant::ZERO + adu.handover;
            let_time_pass(&mut playout, now, &mut played);
            if keep(place) {
                playout.handle_packet(now, &adu.rtp).unwrap();
            }
            played.take(&mut playout);
        }
    }
    playout.finish();
    played.take(&mut playout);
    played
}

/// Indices of the `frames` that were released.
fn given(frames: &[Frame], played: &Played) -> Vec<usize> {
    let place = |ticks: i64| frames.iter().position(|frame| frame.rtp_ticks as i64 == ticks).unwrap();
    played.frames.iter().map(|frame| place(frame.ticks)).collect()
}

/// Messages by which ffmpeg reports a missing reference.
const MISSING: [&str; 4] = ["eference picture missing", "concealing", "Missing reference", "gap"];

/// Checks that ffmpeg decodes the released frames to the same pictures as in the whole stream, without a missing
/// reference. Returns the number of pictures shown.
fn must_be_right(test: &str, truth: Option<&Pictures>, frames: &[Frame], played: &Played) -> usize {
    let Some(truth) = truth else { return played.frames.len() };
    assert_eq!(truth.complaint, "");
    assert_eq!(truth.hashes.len(), frames.len());
    let survived: Vec<u8> = played.frames.iter().flat_map(|frame| frame.annexb.iter().copied()).collect();
    let decoded = Pictures::leniently_of(test, &survived).unwrap();
    let mut order: Vec<usize> = (0..frames.len()).collect();
    order.sort_by_key(|&place| frames[place].rtp_ticks);
    let mut shown = given(frames, played);
    shown.sort_by_key(|&place| frames[place].rtp_ticks);
    // After losses, ffmpeg may drop a picture as out of order; the pictures shown must be right.
    let expected: BTreeSet<&String> =
        shown.iter().map(|place| &truth.hashes[order.iter().position(|other| other == place).unwrap()]).collect();
    let found = decoded.hashes.iter().filter(|hash| expected.contains(hash)).count();
    assert_eq!(found, decoded.hashes.len(), "{test}: pictures that are others: {}", decoded.complaint);
    let complaints: Vec<&str> =
        decoded.complaint.lines().filter(|line| MISSING.iter().any(|what| line.contains(what))).collect();
    assert!(complaints.is_empty(), "{test}: {complaints:?}");
    found
}

const ALL: [&str; 7] = ["open-gop", "open-gop-strict", "ref4", "slices", "mbaff", "pyramid", "prefix-nal"];

#[test]
fn whole_streams_are_decodable_and_come_back_as_they_were() {
    for name in ALL.into_iter().chain(["intra-refresh", "intra-refresh-b", "nal31", "sps-trailing", "idr-same-time"]) {
        let whole = stream(name);
        let frames = read(&whole, None);
        let truth = Pictures::of(name, &whole);
        let played = play(&frames, |_| true);
        assert!(given(&frames, &played).into_iter().eq(0..frames.len()), "{name}");
        assert_eq!(must_be_right(name, truth.as_ref(), &frames, &played), frames.len());
    }
}

#[test]
fn what_is_called_decodable_after_losses_is_right() {
    let mut rng = Rng::from_seed(7);
    for name in ALL {
        let whole = stream(name);
        let frames = read(&whole, None);
        let truth = Pictures::of(name, &whole);
        let (mut all, mut shown) = (0, 0);
        for round in 0..6 {
            let loss = [0.02, 0.1, 0.3][round % 3];
            let lost: Vec<bool> = frames.iter().map(|frame| frame.index > 0 && rng.chance(loss)).collect();
            let played = play(&frames, |place| !lost[place]);
            all += played.frames.len();
            shown += must_be_right(name, truth.as_ref(), &frames, &played);
        }
        assert!(2 * all > 3 * frames.len() && 10 * shown > 8 * all, "{name}: only {shown} of {all}");
    }
}

/// After an outage of one second, pictures resume at the next entry point.
#[test]
fn after_an_outage_the_next_entry_point_is_shown() {
    for name in ALL.into_iter().filter(|&name| name != "prefix-nal").chain(["intra-refresh", "intra-refresh-b"]) {
        let whole = stream(name);
        let frames = read(&whole, None);
        let truth = Pictures::of(name, &whole);
        let outage = 30..55;
        let entry = (outage.end..frames.len()).find(|&place| frames[place].entry.is_some()).unwrap();
        let leading = |place: usize| place > entry && frames[place].capture < frames[entry].capture;
        let played = play(&frames, |place| !outage.contains(&place));
        let given = given(&frames, &played);
        let expected = (0..outage.start).chain((entry..frames.len()).filter(|&place| !leading(place)));
        assert_eq!(given, expected.collect::<Vec<_>>(), "{name}: entry {entry}");
        let wave = frames[entry].entry.unwrap().recovery as usize;
        if wave == 0 {
            must_be_right(name, truth.as_ref(), &frames, &played);
        }
    }
}

/// The same stream without recovery points, like some broadcasts: decoding can start at I pictures.
#[test]
fn in_a_stream_without_recovery_points_i_pictures_bring_the_picture_back() {
    let name = "open-gop";
    let mut frames = read(&stream(name), None);
    for frame in &mut frames {
        frame.nals.retain(|nal| nal[0] & 0x1f != 6);
    }
    let whole: Vec<u8> = frames.iter().flat_map(Frame::annexb).collect();
    let frames = read(&whole, None);
    let truth = Pictures::of(name, &whole);
    let entries: Vec<usize> = (0..frames.len()).filter(|&place| frames[place].entry.is_some()).collect();
    assert!(entries.len() > 3, "{entries:?}");
    let outage = entries[1] + 5..entries[1] + 12;
    let played = play(&frames, |place| !outage.contains(&place));
    must_be_right(name, truth.as_ref(), &frames, &played);
    let given = given(&frames, &played);
    let after: Vec<usize> = given.into_iter().filter(|&place| place >= entries[2]).collect();
    let leading = |place: usize| place > entries[2] && frames[place].capture < frames[entries[2]].capture;
    assert_eq!(after, (entries[2]..frames.len()).filter(|&place| !leading(place)).collect::<Vec<_>>());
}
