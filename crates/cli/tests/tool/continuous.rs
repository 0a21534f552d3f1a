//! Times of recordings of MPEG-TS go on, whether the sender or its source begins anew.

use std::fs;
use std::process::Command;

use timeous::core::Duration;

use crate::recorded::assert_decodes;
use crate::support::{Files, free_port, is_installed, side_by_side, skip, sleep, timeous};
use crate::transport_stream::{H264_AAC, encode};

/// Steps of the decoding times of a stream that are not those of its frames, in seconds: the number of the frame behind each, and the
/// step.
fn steps(path: &str, stream: &str, frames: std::ops::RangeInclusive<f64>) -> (usize, Vec<(usize, f64)>) {
    let mut probe = Command::new("ffprobe");
    probe.args(["-v", "error", "-select_streams", stream, "-show_entries", "packet=dts_time", "-of", "csv=p=0", path]);
    let told = String::from_utf8(probe.output().unwrap().stdout).unwrap();
    let times: Vec<f64> = told.lines().filter_map(|line| line.trim_end_matches(',').parse().ok()).collect();
    let steps = times.windows(2).map(|pair| pair[1] - pair[0]).zip(1..).map(|(step, number)| (number, step));
    (times.len(), steps.filter(|(_, step)| !frames.contains(step)).collect())
}

/// Records streams of senders one after another, with a break of two seconds.
fn record(files: &Files, name: &str, sources: &[&str]) -> String {
    let (port, out) = (free_port(), files.path(name));
    let mut receiver = timeous(&["recv", &format!("timeous://:{port}?latency=1s"), &out]);
    receiver.until_it_says("listening");
    for (source, number) in sources.iter().zip(1..) {
        timeous(&["send", source, &format!("timeous://127.0.0.1:{port}?latency=1s")]).ends_with(0);
        receiver.until_ended(number);
        if number < sources.len() {
            sleep(Duration::from_secs(2));
        }
    }
    receiver.stop();
    assert_decodes(&out, &[]);
    out
}

/// Pictures of the source, a stream of four seconds.
const PICTURES: usize = 100;

fn assert_has_a_gap(name: &str) {
    let files = Files::new();
    let source = encode(&files, &H264_AAC).unwrap();
    let out = record(&files, name, &[&source, &source]);
    let (pictures, video) = steps(&out, "v:0", 0.03..=0.05);
    let (_, audio) = steps(&out, "a:0", 0.015..=0.03);
    assert_eq!(pictures, 2 * PICTURES, "{name}");
    for (what, steps) in [("pictures", video), ("sound", audio)] {
        let [(_, gap)] = steps[..] else { panic!("{name}: {what}: {steps:?}") };
        assert!((1.9..5.0).contains(&gap), "{name}: {what}: a gap of {gap} s");
    }
}

fn assert_goes_on(name: &str) {
    let files = Files::new();
    let bytes = fs::read(encode(&files, &H264_AAC).unwrap()).unwrap();
    let source = files.write("loop.ts", &[&bytes[..], &bytes].concat());
    let out = record(&files, name, &[&source]);
    // Where it begins again, sound and pictures do not end at once.
    let (pictures, video) = steps(&out, "v:0", 0.03..=0.3);
    let (sound, audio) = steps(&out, "a:0", 0.015..=0.3);
    assert_eq!((pictures, video, audio), (2 * PICTURES, vec![], vec![]), "{name}");
    let (sent, _) = steps(&source, "a:0", 0.0..=0.3);
    assert!(sound + 3 >= sent, "{name}: {sound} of {sent} frames of sound");
}

#[test]
fn a_recording_of_mpeg_ts_has_a_gap_where_the_sender_was_away() {
    if !is_installed("ffmpeg") {
        return skip("a_recording_of_mpeg_ts_has_a_gap_where_the_sender_was_away", "ffmpeg");
    }
    side_by_side(&[("MPEG-TS", || assert_has_a_gap("out.ts")), ("MP4", || assert_has_a_gap("out.mp4"))]);
}

#[test]
fn a_recording_of_mpeg_ts_goes_on_where_its_source_begins_again() {
    if !is_installed("ffmpeg") {
        return skip("a_recording_of_mpeg_ts_goes_on_where_its_source_begins_again", "ffmpeg");
    }
    side_by_side(&[("MPEG-TS", || assert_goes_on("out.ts")), ("MP4", || assert_goes_on("out.mp4"))]);
}
