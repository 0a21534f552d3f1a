//! Sources and paths as found in practice, checked at the viewer. The cases of a kind run in parallel, as they mostly
//! wait.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};

use timeous::clock;
use timeous::core::Duration;
use timeous_media::SessionDescription;

use crate::feeder::{Feeder, Sent};
use crate::pictures::{Picture, field, field_pictures, pictures};
use crate::relay::Relay;
use crate::rtp_source::RtpSource;
use crate::support::{emulate, encode, free_port, side_by_side, skip, sleep};
use crate::viewer::median;
use crate::watched::{LATENCY_MS, Outcome, WatchedReceiver, as_sent, send_to};

const PLAIN: &str = "plain25.h264";
/// RTP timestamp of a source's first picture, and ticks per picture at 25 per second.
const FIRST: u32 = 1_000_000_000;
const STEP: u32 = 3_600;
/// Delay that a busy machine may add.
const SLACK: Duration = Duration::from_millis(150);

#[track_caller]
fn assert_near(what: &str, found: Duration, expected: Duration) {
    assert!(found.max(expected) - found.min(expected) < SLACK, "{what}: {found:?} instead of {expected:?}");
}

/// Checks that the delay is constant and as requested. Pictures that wait at the end of the stream are shown at once,
/// and not checked.
#[track_caller]
fn assert_steady(outcome: &Outcome, sent: &[Sent], latency_ms: u64) {
    let latency = Duration::from_millis(latency_ms);
    let end = sent[sent.len() - 1].at.saturating_sub(latency);
    let delays: Vec<_> = outcome.seen.delays(sent).into_iter().filter(|(index, _)| sent[*index].at < end).collect();
    let quarter = delays.len() / 4;
    assert_near("the delay at the beginning", median(&delays[..quarter]), latency);
    assert_near("the delay at the end", median(&delays[delays.len() - quarter..]), latency);
}

/// Checks that all of the last pictures arrived.
#[track_caller]
fn assert_tail(delays: &[(usize, Duration)], sent: usize, tail: usize) {
    let seen = delays.iter().filter(|(index, _)| *index >= sent - tail).count();
    assert_eq!(seen, tail, "pictures seen of the last {tail}");
}

// Files.

/// Checks that a file arrives completely.
#[track_caller]
fn file(name: &str, count: usize) -> Outcome {
    let pictures = field_pictures(name);
    assert_eq!(pictures.len(), count);
    let watched = WatchedReceiver::start();
    watched.send(&field(name), &[]).ends_with(0);
    let outcome = watched.end();
    outcome.assert_whole(&as_sent(&pictures));
    outcome.assert_decodes(name);
    outcome
}

/// Time between two pictures. The last ones are shown at once at the end of the stream.
fn time_between(outcome: &Outcome, from: usize, to: usize) -> Duration {
    let pictures = outcome.seen.pictures();
    pictures[to].at.saturating_since(pictures[from].at)
}

fn prefix_nal_units_between_slices_make_no_frames() {
    let outcome = file("prefix-nal.h264", 50);
    assert_near("15 frames", time_between(&outcome, 5, 20), Duration::from_millis(15 * 40));
}

fn nal_units_of_unspecified_types_are_passed_over() {
    file("nal31.h264", 50);
}

fn parameter_sets_with_bytes_behind_them_are_read() {
    file("sps-trailing.h264", 50);
}

fn an_idr_picture_at_the_time_of_the_picture_before_is_one_of_its_own() {
    file("idr-same-time.h264", 74);
}

fn a_rate_that_changes_in_mid_stream_is_followed() {
    let outcome = file("rate-25-50.h264", 225);
    assert_near("75 frames at 25 a second", time_between(&outcome, 0, 75), Duration::from_millis(75 * 40));
    assert_near("100 frames at 50 a second", time_between(&outcome, 76, 176), Duration::from_millis(100 * 20));
}

/// Before a receiver connects, frames are kept since the last entry point only; these are delivered even if the source
/// has ended meanwhile.
fn a_file_as_a_live_source_is_over_at_once() {
    let mut watched = WatchedReceiver::start();
    let mut sender = watched.send(&field(PLAIN), &["--live"]);
    watched.receiver.until_it_says("connected");
    let began = clock::now();
    sender.ends_with(0);
    let outcome = watched.end();
    let took = clock::now() - began;
    let seen = outcome.seen.delays(&as_sent(&field_pictures(PLAIN)));
    assert!(
        took < Duration::from_secs(3),
        "{took:?}, and at its own pace the file takes three seconds and the latency"
    );
    assert!(seen.len() >= 25, "{} {:?}", seen.len(), outcome.stats);
    assert_tail(&seen, 75, 25);
    outcome.assert_decodes("a_file_as_a_live_source_is_over_at_once");
}

fn a_picture_that_changes_its_size_goes_on() {
    const TEST: &str = "a_picture_that_changes_its_size_goes_on";
    let parts = ["64x48", "96x64"].map(|size| encode(size, 40, "keyint=20"));
    let [Some(small), Some(large)] = parts else { return skip(TEST, "ffmpeg") };
    made(&[small, large].concat(), TEST);
}

fn an_open_gop_is_sent_whole() {
    const TEST: &str = "an_open_gop_is_sent_whole";
    let x264 = "open-gop=1:keyint=20:bframes=2:b-adapt=0:scenecut=0";
    let Some(stream) = encode("64x48", 75, x264) else { return skip(TEST, "ffmpeg") };
    made(&stream, TEST);
}

/// Checks that a stream made for the test arrives completely.
#[track_caller]
fn made(stream: &[u8], test: &str) {
    let watched = WatchedReceiver::start();
    watched.send(&watched.files.write("made.h264", stream), &[]).ends_with(0);
    let outcome = watched.end();
    outcome.assert_whole(&as_sent(&pictures(stream)));
    outcome.assert_decodes(test);
}

fn a_pipe_at_the_pace_of_a_file() {
    let watched = WatchedReceiver::start();
    let mut sender = watched.send("-", &["--file"]);
    sender.write().write_all(&std::fs::read(field(PLAIN)).unwrap()).unwrap();
    sender.ends_with(0);
    let outcome = watched.end();
    outcome.assert_whole(&as_sent(&field_pictures(PLAIN)));
    assert_near("40 frames", time_between(&outcome, 5, 45), Duration::from_millis(40 * 40));
}

fn a_wrong_port_is_told_at_once_and_tried_again() {
    let port = free_port();
    let began = clock::now();
    let mut sender = send_to(port, LATENCY_MS, &field(PLAIN), &[]);
    sender.until_it_says("nobody listens");
    // A call without an answer takes ten seconds; the start of a program takes its time on a busy machine, too.
    let took = clock::now() - began;
    assert!(took < Duration::from_secs(8), "it takes {took:?}");
    sleep(Duration::from_secs(1));
    let watched = WatchedReceiver::start_at(port, LATENCY_MS);
    sender.ends_with(0);
    watched.end().assert_whole(&as_sent(&field_pictures(PLAIN)));
}

#[test]
fn files_in_the_field() {
    side_by_side(&[
        ("prefix_nal_units_between_slices_make_no_frames", prefix_nal_units_between_slices_make_no_frames),
        ("nal_units_of_unspecified_types_are_passed_over", nal_units_of_unspecified_types_are_passed_over),
        ("parameter_sets_with_bytes_behind_them_are_read", parameter_sets_with_bytes_behind_them_are_read),
        (
            "an_idr_picture_at_the_time_of_the_picture_before_is_one_of_its_own",
            an_idr_picture_at_the_time_of_the_picture_before_is_one_of_its_own,
        ),
        ("a_rate_that_changes_in_mid_stream_is_followed", a_rate_that_changes_in_mid_stream_is_followed),
        ("a_file_as_a_live_source_is_over_at_once", a_file_as_a_live_source_is_over_at_once),
        ("a_picture_that_changes_its_size_goes_on", a_picture_that_changes_its_size_goes_on),
        ("an_open_gop_is_sent_whole", an_open_gop_is_sent_whole),
        ("a_pipe_at_the_pace_of_a_file", a_pipe_at_the_pace_of_a_file),
        ("a_wrong_port_is_told_at_once_and_tried_again", a_wrong_port_is_told_at_once_and_tried_again),
    ]);
}

// Pipes.

/// Feeds the plain pictures at this rate; checks that all arrive at a constant delay.
#[track_caller]
fn pipe(fps: f64, count: usize, pause: Option<(usize, Duration)>) {
    let mut watched = WatchedReceiver::start();
    let mut sender = watched.send_pipe(watched.port);
    let fed = Feeder::start(sender.write(), field_pictures(PLAIN), fps, count, pause).end();
    sender.ends_with(0);
    let outcome = watched.end();
    outcome.assert_whole(&fed);
    assert_steady(&outcome, &fed, LATENCY_MS);
}

fn a_pipe_slower_than_it_declares_keeps_its_delay() {
    pipe(23.0, 230, None);
}

fn a_pipe_faster_than_it_declares_keeps_its_delay() {
    pipe(31.0, 310, None);
}

fn a_pipe_goes_on_after_a_pause() {
    pipe(25.0, 100, Some((50, Duration::from_secs(6))));
}

/// All at once: each still has a timestamp of its own.
fn a_burst_out_of_a_pipe_arrives() {
    let mut watched = WatchedReceiver::start();
    let mut sender = watched.send_pipe(watched.port);
    sleep(Duration::from_millis(500));
    sender.write().write_all(&std::fs::read(field(PLAIN)).unwrap()).unwrap();
    sender.ends_with(0);
    let outcome = watched.end();
    let seen = outcome.seen.delays(&as_sent(&field_pictures(PLAIN)));
    assert_tail(&seen, 75, 25);
}

/// A frame every 1.3 s, with a latency of one second: waiting for the next frame would be too late.
fn a_pipe_with_few_frames_a_second_loses_none() {
    let mut watched = WatchedReceiver::start_at(free_port(), 1_000);
    let mut sender = watched.send_pipe(watched.port);
    let fed = Feeder::start(sender.write(), field_pictures(PLAIN), 0.75, 12, None).end();
    sender.ends_with(0);
    watched.end().assert_whole(&fed);
}

fn several_slices_a_picture_out_of_a_pipe() {
    const TEST: &str = "several_slices_a_picture_out_of_a_pipe";
    let Some(stream) = encode("160x128", 75, "slices=4:keyint=25") else { return skip(TEST, "ffmpeg") };
    let pictures = pictures(&stream);
    assert!(pictures.iter().all(|picture| picture.len() >= 4));
    let mut watched = WatchedReceiver::start();
    let mut sender = watched.send_pipe(watched.port);
    let fed = Feeder::start(sender.write(), pictures, 25.0, 75, None).end();
    sender.ends_with(0);
    let outcome = watched.end();
    outcome.assert_whole(&fed);
    assert_steady(&outcome, &fed, LATENCY_MS);
    outcome.assert_decodes(TEST);
}

fn a_receiver_that_comes_late_is_not_behind() {
    let port = free_port();
    let mut sender = send_to(port, LATENCY_MS, "-", &[]);
    let feeder = Feeder::start(sender.write(), field_pictures(PLAIN), 25.0, 225, None);
    sleep(Duration::from_secs(3));
    let watched = WatchedReceiver::start_at(port, LATENCY_MS);
    let fed = feeder.end();
    sender.ends_with(0);
    let outcome = watched.end();
    // Pictures repeat in the source; only the last 150 sent can have arrived, so that earlier ones are skipped.
    let delays = outcome.seen.delays(&fed[75..]);
    assert!(delays.len() >= 75, "{} {:?}", delays.len(), outcome.stats);
    let first = median(&delays[1..6]);
    assert!(first < Duration::from_millis(LATENCY_MS) + SLACK, "the first pictures are behind: {first:?}");
    assert_steady(&outcome, &fed[75..], LATENCY_MS);
    assert_tail(&delays, 150, 75);
    outcome.assert_decodes("a_receiver_that_comes_late_is_not_behind");
}

#[test]
fn pipes_in_the_field() {
    side_by_side(&[
        ("a_pipe_slower_than_it_declares_keeps_its_delay", a_pipe_slower_than_it_declares_keeps_its_delay),
        ("a_pipe_faster_than_it_declares_keeps_its_delay", a_pipe_faster_than_it_declares_keeps_its_delay),
        ("a_pipe_goes_on_after_a_pause", a_pipe_goes_on_after_a_pause),
        ("a_burst_out_of_a_pipe_arrives", a_burst_out_of_a_pipe_arrives),
        ("a_pipe_with_few_frames_a_second_loses_none", a_pipe_with_few_frames_a_second_loses_none),
        ("several_slices_a_picture_out_of_a_pipe", several_slices_a_picture_out_of_a_pipe),
        ("a_receiver_that_comes_late_is_not_behind", a_receiver_that_comes_late_is_not_behind),
    ]);
}

// RTP.

/// Plays pictures as RTP, from a source modified by `make`; returns the pictures sent and the outcome.
fn rtp(
    pictures: &[Picture],
    fps: f64,
    options: &[&str],
    make: impl FnOnce(&mut RtpSource),
    each: impl FnMut(&mut RtpSource, u32) -> u32,
) -> (Vec<Sent>, Outcome) {
    let mut watched = WatchedReceiver::start();
    let port = free_port();
    let mut sender = watched.send_rtp(port, options);
    let mut source = RtpSource::new(port);
    make(&mut source);
    let sent = source.play(pictures, fps, each);
    // Leave time for reordered packets.
    sleep(Duration::from_millis(200));
    sender.stop();
    (sent, watched.end())
}

/// Plays the plain pictures as RTP; checks that all arrive at a constant delay.
#[track_caller]
fn plain_rtp(
    options: &[&str],
    make: impl FnOnce(&mut RtpSource),
    each: impl FnMut(&mut RtpSource, u32) -> u32,
) -> (Vec<Sent>, Outcome) {
    let (sent, outcome) = rtp(&field_pictures(PLAIN), 25.0, options, make, each);
    outcome.assert_whole(&sent);
    assert_steady(&outcome, &sent, LATENCY_MS);
    (sent, outcome)
}

/// Source clock that drifts against the sender's by this share.
#[track_caller]
fn drift(by: f64) {
    let pictures: Vec<Picture> = field_pictures(PLAIN).into_iter().cycle().take(300).collect();
    let (sent, outcome) = rtp(&pictures, 25.0 * (1.0 + by), &[], |_| {}, |_, index| FIRST + STEP * index);
    outcome.assert_whole(&sent);
    assert_steady(&outcome, &sent, LATENCY_MS);
}

fn a_clock_that_is_slow_by_a_hundredth_is_followed() {
    drift(0.01);
}

fn a_clock_that_is_fast_by_a_hundredth_is_followed() {
    drift(-0.01);
}

/// Timestamps as for 30 and for 20 pictures a second, of a source with 25.
fn timestamps_of_another_rate_lose_no_picture() {
    for step in [3_000, 4_500] {
        let pictures: Vec<Picture> = field_pictures(PLAIN).into_iter().cycle().take(150).collect();
        let (sent, outcome) = rtp(&pictures, 25.0, &[], |_| {}, |_, index| FIRST + step * index);
        outcome.assert_whole(&sent);
    }
}

/// Packets of another program, with an SSRC of its own, come to the same port before each picture.
fn another_source_without_pictures_keeps_none_away() {
    plain_rtp(
        &[],
        |_| {},
        |source, index| {
            let video = (source.ssrc, source.sequence);
            (source.ssrc, source.sequence) = (77, 9_000 + index as u16);
            source.packet(&[0x41, 0x12, 0x34, 0x56], 5 + index, false);
            (source.ssrc, source.sequence) = video;
            FIRST + STEP * index
        },
    );
}

fn fragments_without_their_start_are_passed_over() {
    plain_rtp(
        &[],
        |_| {},
        |source, index| {
            let timestamp = FIRST + STEP * index;
            if index % 10 == 5 {
                source.packet(&[0x5c, 0x41, 9, 9, 9], timestamp, false);
            }
            timestamp
        },
    );
}

fn a_source_that_starts_anew_goes_on() {
    plain_rtp(
        &[],
        |_| {},
        |source, index| {
            if index == 37 {
                (source.ssrc, source.sequence) = (2, 7);
            }
            FIRST + STEP * index
        },
    );
}

fn a_clock_that_is_set_by_an_hour_is_followed() {
    let hour = 3_600 * 90_000;
    plain_rtp(&[], |_| {}, |_, index| FIRST + STEP * index + if index >= 37 { hour } else { 0 });
}

fn a_timestamp_that_is_wrong_once_is_passed_over() {
    plain_rtp(&[], |_| {}, |_, index| FIRST + STEP * index + if index == 37 { 10 * 90_000 } else { 0 });
}

fn the_last_frame_before_a_pause_comes_at_once() {
    let pause = Duration::from_secs(4);
    let (sent, outcome) = plain_rtp(
        &[],
        |_| {},
        |_, index| {
            if index == 37 {
                sleep(pause);
            }
            FIRST + STEP * index + if index >= 37 { 4 * 90_000 } else { 0 }
        },
    );
    let (_, last) = outcome.seen.delays(&sent)[36];
    assert_near("the delay of the last frame before the pause", last, Duration::from_millis(LATENCY_MS));
}

fn a_marker_on_each_nal_unit_ends_no_picture() {
    plain_rtp(&[], |source| source.marks_all = true, |_, index| FIRST + STEP * index);
}

fn packets_out_of_order_and_repeated_ones_are_put_in_order() {
    let make = |source: &mut RtpSource| (source.reorders, source.repeats) = (true, true);
    plain_rtp(&[], make, |_, index| FIRST + STEP * index);
}

fn another_payload_type_is_found() {
    plain_rtp(&[], |source| source.payload_type = 97, |_, index| FIRST + STEP * index);
}

/// Sends a packet of audio with this payload type before the picture.
fn audio(source: &mut RtpSource, payload_type: u8, index: u32) {
    let video = (source.payload_type, source.ssrc, source.sequence);
    (source.payload_type, source.ssrc, source.sequence) = (payload_type, 77, 5_000 + index as u16);
    source.packet(&[0xd5; 160], 8_000 + 320 * index, index == 0);
    (source.payload_type, source.ssrc, source.sequence) = video;
}

fn audio_of_a_static_type_at_the_same_port_is_passed_over() {
    plain_rtp(
        &[],
        |source| source.payload_type = 97,
        |source, index| {
            audio(source, 0, index);
            FIRST + STEP * index
        },
    );
}

fn audio_of_a_dynamic_type_at_the_same_port_is_passed_over_with_pt() {
    plain_rtp(
        &["--pt", "97"],
        |source| source.payload_type = 97,
        |source, index| {
            audio(source, 96, index);
            FIRST + STEP * index
        },
    );
}

fn parameter_sets_out_of_an_sdp_file_are_used() {
    let is_set = |nal: &Vec<u8>| matches!(nal[0] & 0x1f, 7 | 8);
    let whole = field_pictures(PLAIN);
    let sets: Vec<Vec<u8>> = whole[0].iter().filter(|nal| is_set(nal)).cloned().collect();
    assert_eq!(sets.len(), 2);
    let bare: Vec<Picture> =
        whole.iter().map(|picture| picture.iter().filter(|nal| !is_set(nal)).cloned().collect()).collect();
    let mut watched = WatchedReceiver::start();
    let port = free_port();
    let session = SessionDescription::h264(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), 101, sets);
    let sdp = watched.files.write("source.sdp", session.write(1).as_bytes());
    let mut sender = watched.send(&sdp, &[]);
    watched.receiver.until_it_says("connected");
    let mut source = RtpSource::new(port);
    source.payload_type = 101;
    let sent = source.play(&bare, 25.0, |_, index| FIRST + STEP * index);
    sleep(Duration::from_millis(200));
    sender.stop();
    let outcome = watched.end();
    outcome.assert_whole(&sent);
    outcome.assert_decodes("parameter_sets_out_of_an_sdp_file_are_used");
}

#[test]
fn rtp_in_the_field() {
    side_by_side(&[
        ("a_clock_that_is_slow_by_a_hundredth_is_followed", a_clock_that_is_slow_by_a_hundredth_is_followed),
        ("a_clock_that_is_fast_by_a_hundredth_is_followed", a_clock_that_is_fast_by_a_hundredth_is_followed),
        ("timestamps_of_another_rate_lose_no_picture", timestamps_of_another_rate_lose_no_picture),
        ("another_source_without_pictures_keeps_none_away", another_source_without_pictures_keeps_none_away),
        ("fragments_without_their_start_are_passed_over", fragments_without_their_start_are_passed_over),
        ("a_source_that_starts_anew_goes_on", a_source_that_starts_anew_goes_on),
        ("a_clock_that_is_set_by_an_hour_is_followed", a_clock_that_is_set_by_an_hour_is_followed),
        ("a_timestamp_that_is_wrong_once_is_passed_over", a_timestamp_that_is_wrong_once_is_passed_over),
        ("the_last_frame_before_a_pause_comes_at_once", the_last_frame_before_a_pause_comes_at_once),
        ("a_marker_on_each_nal_unit_ends_no_picture", a_marker_on_each_nal_unit_ends_no_picture),
        (
            "packets_out_of_order_and_repeated_ones_are_put_in_order",
            packets_out_of_order_and_repeated_ones_are_put_in_order,
        ),
        ("another_payload_type_is_found", another_payload_type_is_found),
        (
            "audio_of_a_static_type_at_the_same_port_is_passed_over",
            audio_of_a_static_type_at_the_same_port_is_passed_over,
        ),
        (
            "audio_of_a_dynamic_type_at_the_same_port_is_passed_over_with_pt",
            audio_of_a_dynamic_type_at_the_same_port_is_passed_over_with_pt,
        ),
        ("parameter_sets_out_of_an_sdp_file_are_used", parameter_sets_out_of_an_sdp_file_are_used),
    ]);
}

// Paths.

/// Latency too short for a longer path, in milliseconds.
const TIGHT_MS: u64 = 300;

fn after_an_outage_the_picture_comes_back_at_a_recovery_point() {
    let watched = WatchedReceiver::start_at(free_port(), TIGHT_MS);
    let near = free_port();
    // Almost no capacity for one second, from the second second on (in Mbit/s).
    let trace = watched.files.write("outage.trace", b"0 5000\n2 1\n3 5000\n");
    let path = ["--trace", &trace, "--delay", "20ms", "--back-delay", "20ms", "--queue", "100ms"];
    let _link = emulate(near, watched.port, &path);
    send_to(near, TIGHT_MS, &field("intra-refresh.h264"), &[]).ends_with(0);
    let outcome = watched.end();
    let delays = outcome.seen.delays(&as_sent(&field_pictures("intra-refresh.h264")));
    let seen: Vec<usize> = delays.iter().map(|(index, _)| *index).collect();
    assert!(seen.iter().filter(|&&index| index < 50).count() >= 35, "{seen:?}");
    // Recovery points are 25 frames apart; the outage may still cost one.
    assert_tail(&delays, 150, 20);
}

/// Stream of `seconds` through a relay, to which `happens` is applied after three.
fn path(seconds: usize, happens: impl FnOnce(&Relay)) -> (Vec<Sent>, Outcome) {
    let mut watched = WatchedReceiver::start_at(free_port(), TIGHT_MS);
    let near = free_port();
    let relay = Relay::start(near, watched.port);
    let mut sender = watched.send_pipe(near);
    let feeder = Feeder::start(sender.write(), field_pictures(PLAIN), 25.0, 25 * seconds, None);
    sleep(Duration::from_secs(3));
    happens(&relay);
    let fed = feeder.end();
    sender.ends_with(0);
    (fed, watched.end())
}

fn a_path_that_gets_longer_for_good_moves_the_delay() {
    let longer = Duration::from_millis(370);
    let (fed, outcome) = path(11, |relay| relay.set_delay(longer, Duration::from_millis(20)));
    let delays = outcome.seen.delays(&fed);
    // Two seconds until both ends have noticed, and one until the next keyframe.
    assert!(delays.len() >= 200, "{} of {}: {} {:?}", delays.len(), fed.len(), outcome.said, outcome.stats);
    assert_tail(&delays, fed.len(), 50);
    let tail = &delays[delays.len() - 50..];
    let (first, last) = (median(&tail[..20]), median(&tail[30..]));
    assert_near("the delay after the step", first, longer + Duration::from_millis(TIGHT_MS));
    assert_near("the delay at the end", last, first);
}

fn a_sender_that_comes_from_another_port_goes_on() {
    let (fed, outcome) = path(7, Relay::rebind);
    let delays = outcome.seen.delays(&fed);
    assert!(delays.len() + 10 >= fed.len(), "{} of {}: {}", delays.len(), fed.len(), outcome.said);
    assert_steady(&outcome, &fed, TIGHT_MS);
    assert_tail(&delays, fed.len(), 75);
}

#[test]
fn paths_in_the_field() {
    side_by_side(&[
        (
            "after_an_outage_the_picture_comes_back_at_a_recovery_point",
            after_an_outage_the_picture_comes_back_at_a_recovery_point,
        ),
        ("a_path_that_gets_longer_for_good_moves_the_delay", a_path_that_gets_longer_for_good_moves_the_delay),
        ("a_sender_that_comes_from_another_port_goes_on", a_sender_that_comes_from_another_port_goes_on),
    ]);
}
