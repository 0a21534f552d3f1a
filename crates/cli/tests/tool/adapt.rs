//! A real encoder that follows: GStreamer's x264 over a link whose rate falls.

use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Files, emulate, free_port, is_free, skip, timeous, until};

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
    let trace = files.write("link.txt", b"0 900\n6 250\n");
    let link = ["--delay", "20ms", "--back-delay", "20ms", "--queue", "12k", "--trace", &trace];
    let mut link = emulate(near, far, &link);
    let mut receiver = timeous(&["recv", &format!("timeous://:{far}?latency=400ms"), &sink, "--frames", &frames]);
    until("the receiver listens", || !is_free(far) || !receiver.is_alive());
    let to = format!("timeous://127.0.0.1:{near}?latency=400ms");
    let options = ["--adapt", "x264", "--bitrate", "600k", "--stats", &stats, "--stats-interval", "100ms"];
    let mut sender = timeous(&[&["send", "test", &to][..], &options].concat());
    let asked = || -> Vec<f64> {
        let text = std::fs::read_to_string(&stats).unwrap_or_default();
        let rows = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        rows.filter_map(|row| row["mbpsSourceRate"].as_f64()).collect()
    };
    // What a test may say of a machine that may be busy is an order: it begins, finds more, and comes below the link.
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

#[test]
fn an_encoder_that_fails_is_said_to() {
    timeous(&["send", "test", "timeous://127.0.0.1:9", "--adapt", "exit 7"]).ends_with(4);
    let said = timeous(&["send", "test", "timeous://127.0.0.1:9?policy=age", "--adapt", "x264"]).ends_with(2);
    assert!(said.contains("policy=dbat"), "{said}");
    let said = timeous(&["send", "test", "udp://127.0.0.1:9", "--adapt", "x264"]).ends_with(2);
    assert!(said.contains("timeous://"), "{said}");
}
