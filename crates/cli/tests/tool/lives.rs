//! Restarts of sender, receiver or encoder, and path failures, plain and encrypted: the recording continues with the right gap, and
//! plays.

use std::process::{Command, Stdio};

use timeous::core::Duration;

use crate::feeder::Feeder;
use crate::pictures::{annexb, field_pictures, first_slices};
use crate::recorded::{Recorded, assert_decodes};
use crate::relay::Relay;
use crate::support::{Files, Running, command, free_port, is_installed, side_by_side, skip, sleep, timeous};
use crate::watched::LATENCY_MS;

const PLAIN: &str = "plain25.h264";
/// Tolerance for times of a recording: the latency, plus delays of a busy machine.
const SLACK: f64 = 0.5;

/// Options of both ends.
fn options<const SEALED: bool>() -> String {
    let credential = if SEALED { "&passphrase=correct-horse-1" } else { "" };
    format!("latency={LATENCY_MS}ms{credential}")
}

fn send_to<const SEALED: bool>(port: u16, source: &str) -> Running {
    let mut send = command(&["send", source, &format!("timeous://127.0.0.1:{port}?{}", options::<SEALED>())]);
    send.stdin(Stdio::piped());
    Running::start(send)
}

/// Receiver that records until it is stopped.
fn record<const SEALED: bool>(port: u16, sink: &str) -> Running {
    let uri = format!("timeous://127.0.0.1:{port}?mode=listener&{}", options::<SEALED>());
    let mut receiver = timeous(&["recv", &uri, sink]);
    receiver.until_it_says("listening at");
    receiver
}

/// File of the plain pictures at 25 per second, of this length.
fn source(files: &Files, seconds: usize) -> String {
    let pictures = field_pictures(PLAIN);
    let bytes: Vec<u8> = pictures.iter().cycle().take(25 * seconds).flat_map(annexb).collect();
    files.write("source.h264", &bytes)
}

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

#[track_caller]
fn assert_between(what: &str, found: f64, least: f64, most: f64) {
    assert!((least..=most).contains(&found), "{what}: {found}, not from {least} to {most}");
}

/// The receiver is killed after 2 s and restarted at once: it has everything from the next keyframe on.
fn a_receiver_that_is_killed_and_started_again<const SEALED: bool>() {
    let (files, port) = (Files::new(), free_port());
    let [first, second] = ["first.mp4", "second.mp4"].map(|name| files.path(name));
    let mut receiver = record::<SEALED>(port, &first);
    let mut sender = send_to::<SEALED>(port, &source(&files, 9));
    receiver.until_it_says("connected");
    sleep(secs(2.5));
    receiver.kill();
    let mut receiver = record::<SEALED>(port, &second);
    sender.ends_with(0);
    receiver.stop();
    let [first, second] = [first, second].map(|path| Recorded::mp4(&path));
    // A recording is written in fragments of one second.
    assert_between("the first recording", first.times.len() as f64, 25.0, 60.0);
    // The sender must notice, and the next keyframe follow.
    assert_between("the second recording", second.times.len() as f64, 225.0 - 62.0 - 62.0, 225.0 - 50.0);
    assert_between("its span", second.span(), (second.times.len() - 1) as f64 / 25.0 - 0.1, 6.5);
    assert_between("its longest gap", second.longest_gap(), 0.0, 0.1);
}

/// The sender is killed after 2 s, and restarted a second later with the stream from its start.
fn a_sender_that_is_killed_and_started_again<const SEALED: bool>() {
    let (files, port) = (Files::new(), free_port());
    let sink = files.path("out.mp4");
    let mut receiver = record::<SEALED>(port, &sink);
    let source = source(&files, 3);
    let mut sender = send_to::<SEALED>(port, &source);
    receiver.until_it_says("connected");
    sleep(secs(2.0));
    sender.kill();
    sleep(secs(1.0));
    send_to::<SEALED>(port, &source).ends_with(0);
    sleep(secs(0.5));
    let said = receiver.stop();
    let recorded = Recorded::mp4(&sink);
    assert_between(&said, recorded.times.len() as f64, 75.0 + 35.0, 75.0 + 60.0);
    // The restarted stream is complete, and follows a gap of the time without a sender.
    let life = &recorded.times[recorded.times.len() - 75..];
    assert_between("the second life", life[74] - life[0], 74.0 * 0.04 - 0.1, 74.0 * 0.04 + 0.1);
    // A silent peer is probed after a quarter of its timeout; until then, other callers are told that the receiver is
    // busy.
    assert_between("the hole", recorded.longest_gap(), 1.0 - 0.2, 7.5);
}

/// The encoder is killed; a second later another one starts, with another sender.
fn an_encoder_that_is_killed_and_started_again<const SEALED: bool>() {
    let (files, port) = (Files::new(), free_port());
    let sink = files.path("out.mp4");
    let mut receiver = record::<SEALED>(port, &sink);
    let mut encoder = encoder();
    let mut send = command(&["send", "-", &format!("timeous://127.0.0.1:{port}?{}", options::<SEALED>())]);
    send.stdin(encoder.output());
    let mut sender = Running::start(send);
    receiver.until_it_says("connected");
    sleep(secs(3.0));
    encoder.kill();
    sender.ends_with(0);
    sleep(secs(1.0));
    let mut sender = send_to::<SEALED>(port, "-");
    let feeder = Feeder::start(sender.write(), field_pictures(PLAIN), 25.0, 75, None);
    sender.ends_with(0);
    feeder.end();
    sleep(secs(0.5));
    let said = receiver.stop();
    let recorded = Recorded::mp4(&sink);
    assert_between(&said, recorded.times.len() as f64, 75.0 + 50.0, 75.0 + 100.0);
    assert_between("the hole", recorded.longest_gap(), 1.0 - 0.2, 1.0 + SLACK);
}

/// Real-time encoder that writes to a pipe.
fn encoder() -> Running {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-v", "error", "-re", "-f", "lavfi", "-i", "testsrc2=size=64x48:rate=25"]);
    ffmpeg.args(["-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-pix_fmt", "yuv420p"]);
    ffmpeg.args(["-g", "25", "-f", "h264", "-"]).stdin(Stdio::null()).stdout(Stdio::piped());
    Running::start(ffmpeg)
}

/// Pipe through a relay to a recording; the path is down for some seconds after the first three, and up for some at the
/// end.
fn dark<const SEALED: bool>(name: &str, seconds: f64, end: f64) {
    let (files, port, near) = (Files::new(), free_port(), free_port());
    let sink = files.path(name);
    let mut receiver = record::<SEALED>(port, &sink);
    let relay = Relay::start(near, port);
    let mut sender = send_to::<SEALED>(near, "-");
    receiver.until_it_says("connected");
    let count = (25.0 * (3.0 + seconds + end)) as usize;
    let feeder = Feeder::start(sender.write(), field_pictures(PLAIN), 25.0, count, None);
    sleep(secs(3.0));
    relay.set_dark(true);
    sleep(secs(seconds));
    relay.set_dark(false);
    let fed = feeder.end();
    assert_eq!(fed.len(), count);
    let said = sender.ends_with(0);
    sleep(secs(0.5));
    let heard = receiver.stop();
    let hole = count as f64 - shown(&sink) as f64;
    eprintln!("{name}, dark for {seconds} s: {hole} of {count} frames missing\n{said}{heard}");
    // Beyond the outage: until both ends have noticed its end, and to the next keyframe.
    assert_between("the hole, in frames", hole, 25.0 * seconds - 10.0, 25.0 * (seconds + MOST_BEYOND));
    if name.ends_with(".mp4") {
        let recorded = Recorded::mp4(&sink);
        assert_between("the hole, in seconds", recorded.longest_gap(), hole / 25.0 - SLACK, hole / 25.0 + SLACK);
        assert_between("the whole", recorded.span(), count as f64 / 25.0 - SLACK, count as f64 / 25.0 + SLACK);
    }
}

/// Seconds of pictures that an outage may cost beyond its length: callers wait up to 5 s between calls.
const MOST_BEYOND: f64 = 6.5;

/// Number of pictures in a recording, all of which must be decodable.
#[track_caller]
fn shown(sink: &str) -> usize {
    if sink.ends_with(".mp4") {
        return Recorded::mp4(sink).times.len();
    }
    assert_decodes(sink, &["-f", "h264"]);
    first_slices(&std::fs::read(sink).unwrap()).len()
}

fn a_second_in_the_dark<const SEALED: bool>() {
    dark::<SEALED>("second.mp4", 1.0, 5.0);
}

fn a_second_in_the_dark_as_a_byte_stream<const SEALED: bool>() {
    dark::<SEALED>("second.h264", 1.0, 5.0);
}

fn fifteen_seconds_in_the_dark<const SEALED: bool>() {
    dark::<SEALED>("fifteen.mp4", 15.0, 8.0);
}

/// The sender's address changes five times.
fn a_sender_whose_address_changes<const SEALED: bool>() {
    let (files, port, near) = (Files::new(), free_port(), free_port());
    let sink = files.path("out.mp4");
    let mut receiver = record::<SEALED>(port, &sink);
    let relay = Relay::start(near, port);
    let mut sender = send_to::<SEALED>(near, "-");
    receiver.until_it_says("connected");
    let feeder = Feeder::start(sender.write(), field_pictures(PLAIN), 25.0, 200, None);
    for _ in 0..5 {
        sleep(secs(1.4));
        relay.rebind();
    }
    feeder.end();
    sender.ends_with(0);
    sleep(secs(0.5));
    let said = receiver.stop();
    let recorded = Recorded::mp4(&sink);
    assert_between(&said, recorded.times.len() as f64, 190.0, 200.0);
    assert_between("the longest gap", recorded.longest_gap(), 0.0, 0.5);
}

fn outlives<const SEALED: bool>(name: &str) {
    if !is_installed("ffmpeg") || !is_installed("ffprobe") {
        return skip(name, "ffmpeg and ffprobe");
    }
    side_by_side(&[
        ("a_receiver_that_is_killed_and_started_again", a_receiver_that_is_killed_and_started_again::<SEALED>),
        ("a_sender_that_is_killed_and_started_again", a_sender_that_is_killed_and_started_again::<SEALED>),
        ("an_encoder_that_is_killed_and_started_again", an_encoder_that_is_killed_and_started_again::<SEALED>),
        ("a_second_in_the_dark", a_second_in_the_dark::<SEALED>),
        ("a_second_in_the_dark_as_a_byte_stream", a_second_in_the_dark_as_a_byte_stream::<SEALED>),
        ("fifteen_seconds_in_the_dark", fifteen_seconds_in_the_dark::<SEALED>),
        ("a_sender_whose_address_changes", a_sender_whose_address_changes::<SEALED>),
    ]);
}

#[test]
fn a_recording_outlives_the_ends_and_the_path() {
    outlives::<false>("a_recording_outlives_the_ends_and_the_path");
}

#[test]
fn an_encrypted_recording_outlives_the_ends_and_the_path() {
    outlives::<true>("an_encrypted_recording_outlives_the_ends_and_the_path");
}

#[test]
#[ignore = "takes minutes: run with --ignored"]
fn half_a_minute_in_the_dark() {
    dark::<false>("thirty.mp4", 30.0, 15.0);
}

#[test]
#[ignore = "takes minutes: run with --ignored"]
fn ten_minutes_in_the_dark() {
    dark::<true>("ten.mp4", 600.0, 15.0);
}
