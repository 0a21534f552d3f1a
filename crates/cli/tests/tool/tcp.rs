//! Streams over TCP: between Timeous ends, and to a stock receiver of RTP over TCP.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Files, Running, assert_is_beginning_of, clip, free_port, is_installed, skip, timeous, until};

const FRAMES: usize = 60;

#[test]
fn a_clip_arrives_whole_whoever_calls() {
    let files = Files::new();
    let bytes = clip(FRAMES);
    let source = files.write("clip.h264", &bytes);
    for (name, transport) in [("tcp", "tcp"), ("auto", "auto")] {
        for sender_calls in [true, false] {
            let port = free_port();
            let sink = files.path(&format!("{name}-{sender_calls}.h264"));
            let caller = format!("timeous://127.0.0.1:{port}?transport={transport}&latency=3s&reconnect=off");
            let listener = format!("timeous://:{port}?transport={transport}&latency=3s&reconnect=off");
            let (to, from) = if sender_calls { (&caller, &listener) } else { (&listener, &caller) };
            let (send, receive) = (["send", &source, to], ["recv", from, &sink]);
            let (listens, calls) = if sender_calls { (receive, send) } else { (send, receive) };
            let mut first = timeous(&listens);
            first.until_it_says(" at ");
            let second = timeous(&calls);
            let (mut sender, mut receiver) = if sender_calls { (second, first) } else { (first, second) };
            sender.ends_with(0);
            receiver.ends_with(0);
            assert!(assert_is_beginning_of(Path::new(&sink), &bytes) >= FRAMES, "{name} {sender_calls}");
        }
    }
}

#[test]
fn a_port_scan_and_garbage_end_no_receiver() {
    let files = Files::new();
    let (bytes, port) = (clip(FRAMES), free_port());
    let (source, sink) = (files.write("clip.h264", &bytes), files.path("received.h264"));
    let at = |host: &str| format!("timeous://{host}:{port}?transport=tcp&latency=3s&reconnect=off");
    let mut receiver = timeous(&["recv", &at(""), &sink]);
    receiver.until_it_says(" at ");
    // One goes at once, one stays and says nothing, and one sends garbage.
    drop(TcpStream::connect(("127.0.0.1", port)).unwrap());
    let _silent = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\nHost: camera\r\n\r\n").unwrap();
    drop(stranger);
    receiver.until_it_says("waiting for the next");
    timeous(&["send", &source, &at("127.0.0.1")]).ends_with(0);
    receiver.ends_with(0);
    assert!(assert_is_beginning_of(Path::new(&sink), &bytes) >= FRAMES);
}

/// It had the only place for ever, and who came behind it was told that another caller is served.
#[test]
fn a_stranger_that_stays_is_let_go_after_the_timeout() {
    let files = Files::new();
    let (bytes, port) = (clip(FRAMES), free_port());
    let (source, sink) = (files.write("clip.h264", &bytes), files.path("received.h264"));
    let at = |host: &str, more: &str| format!("timeous://{host}:{port}?transport=tcp&latency=3s&timeout=2s{more}");
    let mut receiver = timeous(&["recv", &at("", "&reconnect=off"), &sink]);
    receiver.until_it_says(" at ");
    let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\nHost: camera\r\n\r\n").unwrap();
    receiver.until_it_says("waiting for the next");
    timeous(&["send", &source, &at("127.0.0.1", "")]).ends_with(0);
    receiver.ends_with(0);
    assert!(assert_is_beginning_of(Path::new(&sink), &bytes) >= FRAMES);
    drop(stranger);
}

#[test]
fn gstreamer_reads_rtp_over_tcp() {
    if !is_installed("gst-launch-1.0") {
        return skip("gstreamer_reads_rtp_over_tcp", "gst-launch-1.0");
    }
    let files = Files::new();
    let bytes = clip(FRAMES);
    let source = files.write("clip.h264", &bytes);
    let (sink, port) = (files.path("received.h264"), free_port());
    let mut receive = Command::new("gst-launch-1.0");
    receive.args(["-q", "tcpserversrc", "host=127.0.0.1", &format!("port={port}"), "!"]);
    receive.arg("application/x-rtp-stream,media=video,clock-rate=90000,encoding-name=H264,payload=96");
    receive.args([
        "!",
        "rtpstreamdepay",
        "!",
        "rtph264depay",
        "!",
        "video/x-h264,stream-format=byte-stream,alignment=au",
    ]);
    receive.args(["!", "filesink", &format!("location={sink}")]);
    receive.stdin(Stdio::null()).stdout(Stdio::null());
    let mut receiver = Running::start(receive);
    until("the file is made", || Path::new(&sink).exists() || !receiver.is_alive());
    let to = format!("timeous://127.0.0.1:{port}?transport=tcp&framing=rfc4571&latency=3s&reconnect=off");
    timeous(&["send", &source, &to]).ends_with(0);
    receiver.ends_with(0);
    assert_eq!(assert_is_beginning_of(Path::new(&sink), &bytes), FRAMES);
}
