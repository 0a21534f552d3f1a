//! `--adapt` with real encoders, GStreamer's x264 and ffmpeg's, over a link whose rate falls.

use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Files, assert_decodes, emulate, free_port, is_free, is_installed, skip, timeous, until};

fn has_encoder() -> bool {
    let find = "import gi; gi.require_version('Gst', '1.0'); gi.require_version('GstVideo', '1.0')\n\
                from gi.repository import Gst, GstVideo; Gst.init(None); assert Gst.ElementFactory.find('x264enc')";
    let found = Command::new("/usr/bin/python3").args(["-c", find]).output();
    found.is_ok_and(|found| found.status.success())
}

#[test]
fn the_bitrate_of_a_live_encoder_follows_the_path() {
    if !has_encoder() {
        return skip("the_bitrate_of_a_live_encoder_follows_the_path", "GStreamer's x264enc for Python");
    }
    let files = Files::new();
    let (near, far) = (free_port(), free_port());
    let [stats, sink, frames] = ["stats.json", "out.h264", "frames.csv"].map(|name| files.path(name));
    let trace = files.write("link.txt", up_and_down([(6, 900), (6, 250)]).as_bytes());
    let link = ["--delay", "20ms", "--back-delay", "20ms", "--queue", "12k", "--trace", &trace];
    let mut link = emulate(near, far, &link);
    let mut receiver =
        timeous(&["recv", &format!("timeous://:{far}?latency=400ms&reconnect=off"), &sink, "--frames", &frames]);
    until("the receiver listens", || !is_free(far) || !receiver.is_alive());
    let to = format!("timeous://127.0.0.1:{near}?latency=400ms&reconnect=off");
    let options = ["--adapt", "x264", "--bitrate", "600k", "--stats", &stats, "--stats-interval", "100ms"];
    let mut sender = timeous(&[&["send", "test", &to][..], &options].concat());
    let asked = || -> Vec<f64> {
        let text = std::fs::read_to_string(&stats).unwrap_or_default();
        let rows = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        rows.filter_map(|row| row["mbpsSourceRate"].as_f64()).collect()
    };
    // On a busy machine only the order is certain: the bitrate starts, goes up, and falls below the link's rate.
    let fell = || asked().iter().skip_while(|rate| **rate <= 0.6).any(|rate| *rate <= 0.25);
    until("the bitrate has gone up, and down to the link's", || fell() || !sender.is_alive());
    sender.signal(Signal::INT);
    sender.ends_with(0);
    receiver.ends_with(0);
    link.signal(Signal::INT);
    link.ends_with(0);
    assert!(fell(), "{:?}", asked());
    let shown = std::fs::read_to_string(&frames).unwrap();
    assert!(shown.lines().filter(|line| line.contains("Decodable")).count() > 50, "{shown}");
}

/// Link trace that alternates between two rates, in kbit/s, for these seconds each: on a busy machine an encoder may
/// need several periods to find the rate.
fn up_and_down([(lasts, kbps), (then, least)]: [(u64, u64); 2]) -> String {
    let steps = (0..20).map(|n| (n * (lasts + then), n * (lasts + then) + lasts));
    steps.map(|(up, down)| format!("{up} {kbps}\n{down} {least}\n")).collect()
}

/// Encodings at 200, 400 and 800 kbit/s over a link of 1200 kbit/s that repeatedly falls to a third: the highest one is
/// reached, then none above the link's rate, then the highest again; all frames shown can be decoded.
fn encodings_follow(encoder: &str, test: &str) {
    let files = Files::new();
    let (near, far) = (free_port(), free_port());
    let [stats, sink, frames] = ["stats.json", "out.h264", "frames.csv"].map(|name| files.path(name));
    let trace = files.write("link.txt", up_and_down([(14, 1200), (8, 400)]).as_bytes());
    let link = ["--delay", "20ms", "--back-delay", "20ms", "--queue", "100ms", "--trace", &trace];
    let mut link = emulate(near, far, &link);
    let mut receiver =
        timeous(&["recv", &format!("timeous://:{far}?latency=400ms&reconnect=off"), &sink, "--frames", &frames]);
    until("the receiver listens", || !is_free(far) || !receiver.is_alive());
    let to = format!("timeous://127.0.0.1:{near}?latency=400ms&reconnect=off");
    let options = ["--adapt", encoder, "--encodings", "200k,400k,800k", "--stats", &stats, "--stats-interval", "100ms"];
    let mut sender = timeous(&[&["send", "test", &to][..], &options].concat());
    let taken = || -> Vec<f64> {
        let text = std::fs::read_to_string(&stats).unwrap_or_default();
        let rows = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut rates: Vec<f64> = rows.filter_map(|row| row["mbpsSourceRate"].as_f64()).collect();
        rates.dedup();
        rates
    };
    // Again only the order: up, below a third of the link's rate, and up. Each is waited for, over further changes of
    // the link.
    let came = |states: usize| {
        let mut rates = taken().into_iter();
        let is_there: [fn(f64) -> bool; 3] = [|rate| rate >= 0.8, |rate| rate <= 0.4, |rate| rate >= 0.8];
        is_there[..states].iter().all(|is_there| rates.any(is_there))
    };
    for (states, what) in [(1, "the highest is sent"), (2, "then less"), (3, "then the highest again")] {
        until(what, || came(states) || !sender.is_alive());
    }
    sender.signal(Signal::INT);
    sender.ends_with(0);
    receiver.ends_with(0);
    link.signal(Signal::INT);
    link.ends_with(0);
    let rates = taken();
    assert!(came(3), "{rates:?}");
    assert!(rates.iter().all(|rate| [0.2, 0.4, 0.8].contains(rate)), "{rates:?}");
    let steps = rates.windows(2).filter(|rates| rates[0] < rates[1]);
    assert!(steps.into_iter().all(|rates| rates[1] <= rates[0] * 2.0), "one more at a time: {rates:?}");
    let shown = std::fs::read_to_string(&frames).unwrap();
    assert!(shown.lines().filter(|line| line.contains("Decodable")).count() > 100, "{shown}");
    assert_decodes(&sink, test);
}

#[test]
fn of_several_encodings_the_stream_has_the_one_that_the_path_carries() {
    let test = "of_several_encodings_the_stream_has_the_one_that_the_path_carries";
    if !has_encoder() {
        return skip(test, "GStreamer's x264enc for Python");
    }
    encodings_follow("x264", test);
}

/// ffmpeg takes no commands while it runs.
#[test]
fn encodings_by_ffmpeg_follow_the_path() {
    let test = "encodings_by_ffmpeg_follow_the_path";
    if !is_installed("ffmpeg") {
        return skip(test, "ffmpeg");
    }
    let mut script =
        "set -- $TIMEOUS_OUTPUTS; ffmpeg -nostdin -v error -y -re -f lavfi -i testsrc2=size=320x180:rate=25".to_owned();
    for (n, rate) in ["200k", "400k", "800k"].into_iter().enumerate() {
        script += &format!(
            " -c:v libx264 -preset veryfast -tune zerolatency -g 25 -b:v {rate} -maxrate {rate} -bufsize 50k -f h264 ${}",
            n + 1
        );
    }
    encodings_follow(&script, test);
}

#[test]
fn an_encoder_that_fails_is_said_to() {
    timeous(&["send", "test", "timeous://127.0.0.1:9", "--adapt", "exit 7"]).ends_with(4);
    let said = timeous(&["send", "test", "timeous://127.0.0.1:9?policy=age", "--adapt", "x264"]).ends_with(2);
    assert!(said.contains("policy=dbat"), "{said}");
    let said = timeous(&["send", "test", "udp://127.0.0.1:9", "--adapt", "x264"]).ends_with(2);
    assert!(said.contains("timeous://"), "{said}");
}
