//! Sinks of `timeous recv`: creation and protection of files, truncated recordings, RTP with SDP.

use std::fs::{self, OpenOptions};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{
    CLIP, Files, Running, assert_is_beginning_of, clip, command, decoder, free_port, is_free, is_installed, size, skip,
    timeous, until,
};

/// Runs a receiver that must fail at once with this exit code and these messages.
#[track_caller]
fn fails(arguments: &[&str], code: i32, says: &[&str]) {
    let uri = format!("timeous://:{}", free_port());
    let said = timeous(&[&["recv", &uri], arguments].concat()).ends_with(code);
    for part in says {
        assert!(said.contains(part), "{arguments:?} should say '{part}': {said}");
    }
}

/// Receiver that listens, and the URI for calling it.
fn receiver(arguments: &[&str], stdout: Stdio) -> (Running, String) {
    let port = free_port();
    let uri = format!("timeous://:{port}?latency=3s&reconnect=off");
    let mut receive = command(&[&["recv", &uri], arguments].concat());
    receive.stdout(stdout);
    let mut receiver = Running::start(receive);
    until("the receiver listens", || !is_free(port) || !receiver.is_alive());
    (receiver, format!("timeous://127.0.0.1:{port}?latency=3s&reconnect=off"))
}

/// Sends 40 frames to a receiver with these arguments, and waits for both; returns the receiver's messages.
#[track_caller]
fn transfer(files: &Files, arguments: &[&str]) -> String {
    let source = files.write("clip.h264", &clip(40));
    let (mut receiver, to) = receiver(arguments, Stdio::null());
    timeous(&["send", &source, &to]).ends_with(0);
    receiver.ends_with(0)
}

#[test]
fn a_mistake_is_told_before_anything_is_waited_for() {
    let files = Files::new();
    let there = files.write("there.mp4", b"precious");
    fails(&[&there], 4, &["there.mp4 exists", "--overwrite", "%n"]);
    assert_eq!(fs::read(&there).unwrap(), b"precious");
    fails(&[&files.path("no/such/out.mp4")], 4, &["no/such/out.mp4", "No such file", "there is no directory"]);
    fails(&[&files.path("no/such/%n.mp4"), "--overwrite"], 4, &["No such file"]);
    fails(&[&files.path("")], 4, &["directory"]);
    fails(&[&format!("{there}/out.h264")], 4, &["out.h264", "ot a directory"]);
    for name in ["out.MKV", "out.mov", "out.avi", "out.webm", "out.flv"] {
        fails(&[&files.path(name)], 2, &[name, ".mp4", "raw H.264"]);
    }
    fails(&[&files.path("out.mp4"), "--sdp", "x.sdp"], 2, &["--sdp", "udp://"]);
    fails(&["udp://127.0.0.1:9", "--sdp", &there], 4, &["there.mp4 exists"]);
    fails(&["udp://127.0.0.1:9", "--sdp", &files.path("no/such.sdp")], 4, &["No such file"]);
}

#[test]
fn a_file_is_made_and_overwritten_only_when_a_frame_comes() {
    let files = Files::new();
    let (old, new) = (files.write("old.h264", b"precious"), files.path("new.mp4"));
    for arguments in [&[old.as_str(), "--overwrite"][..], &[new.as_str()]] {
        let (receiver, _) = receiver(arguments, Stdio::null());
        receiver.signal(Signal::TERM);
    }
    assert_eq!(fs::read(&old).unwrap(), b"precious");
    assert!(!Path::new(&new).exists());
    transfer(&files, &[&old, "--overwrite"]);
    assert_eq!(assert_is_beginning_of(Path::new(&old), &clip(40)), 40);
}

#[test]
fn where_no_frame_came_nothing_is_made_and_a_line_says_so() {
    let files = Files::new();
    for (name, code) in [("out.h264", 0), ("out.mp4", 5)] {
        let (sink, port) = (files.path(name), free_port());
        let mut receiver = timeous(&["recv", &format!("udp://127.0.0.1:{port}"), &sink]);
        until("the receiver listens", || !is_free(port) || !receiver.is_alive());
        // Stream of one packet that is not RTP, followed by silence.
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"nothing", ("127.0.0.1", port)).unwrap();
        let said = receiver.ends_with(code);
        assert!(said.contains("nothing to keep"), "{said}");
        assert!(!Path::new(&sink).exists());
    }
}

#[test]
fn recordings_are_numbered() {
    let files = Files::new();
    let taken = files.write("call-1.h264", b"precious");
    let said = transfer(&files, &[&files.path("call-%n.h264")]);
    assert!(said.contains("call-2.h264"), "the name is told: {said}");
    transfer(&files, &[&files.path("call-%n.h264")]);
    assert_eq!(fs::read(taken).unwrap(), b"precious");
    for name in ["call-2.h264", "call-3.h264"] {
        assert_eq!(assert_is_beginning_of(Path::new(&files.path(name)), &clip(40)), 40);
    }
    assert!(!Path::new(&files.path("call-%n.h264")).exists());
}

#[test]
fn special_files_are_written_to_and_never_truncated() {
    let files = Files::new();
    transfer(&files, &["/dev/null"]);
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    // Standard output is a file with contents, and the receiver appends to it.
    let log = files.write("log", b"precious");
    let source = files.write("clip.h264", &clip(40));
    for sink in ["/dev/stdout", "-"] {
        let output = OpenOptions::new().append(true).open(&log).unwrap();
        let before = size(&log);
        let (mut receiver, to) = receiver(&[sink], output.into());
        timeous(&["send", &source, &to]).ends_with(0);
        receiver.ends_with(0);
        assert!(size(&log) > before, "{sink}");
        assert!(fs::read(&log).unwrap().starts_with(b"precious"), "{sink}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_receiver_with_a_word() {
    let files = Files::new();
    let source = files.write("clip.h264", &clip(60));
    let (mut receiver, to) = receiver(&["-"], Stdio::piped());
    // The pipe has no reader any more.
    drop(receiver.output());
    let mut sender = timeous(&["send", &source, &to]);
    let said = receiver.ends_with(4);
    assert!(said.contains("standard output") && said.contains("Broken pipe"), "{said}");
    sender.end();
}

/// The whole stream vanished, and both ends succeeded.
#[test]
fn a_standard_output_that_is_closed_is_an_error() {
    for sink in ["-", "/dev/stdout", "/dev/fd/1"] {
        let listen = format!("\"$0\" recv 'timeous://:{}?reconnect=off' {sink}", free_port());
        let run = |redirection: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("timeout 2 {listen} {redirection}"), env!("CARGO_BIN_EXE_timeous")]);
            let output = shell.output().unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        let (code, said) = run(">&-");
        assert!(code == Some(4) && said.contains("standard output is closed"), "{sink}: {code:?} {said}");
        let (_, said) = run(">/dev/null");
        assert!(said.contains("listening at"), "{sink}: {said}");
    }
}

#[test]
fn statistics_tell_what_was_written() {
    let files = Files::new();
    let (stats, sink) = (files.path("stats.json"), files.path("out.h264"));
    transfer(&files, &[&sink, "--stats", &stats]);
    let last: Value = serde_json::from_str(fs::read_to_string(&stats).unwrap().lines().last().unwrap()).unwrap();
    assert_eq!(last["framesNotWritten"], 0);
    assert!(last["framesWritten"].as_u64().unwrap() >= 39, "{last}");
}

#[test]
fn a_receiver_that_is_killed_leaves_a_file_that_plays() {
    const TEST: &str = "a_receiver_that_is_killed_leaves_a_file_that_plays";
    let files = Files::new();
    let sink = files.path("out.mp4");
    let (receiver, to) = receiver(&[&sink], Stdio::null());
    let mut sender = timeous(&["send", CLIP, &to]);
    until("three fragments are there", || {
        let moofs = fs::read(&sink).map(|bytes| bytes.windows(4).filter(|four| four == b"moof").count());
        moofs.unwrap_or(0) >= 3 || !sender.is_alive()
    });
    receiver.signal(Signal::KILL);
    drop((receiver, sender));
    if !is_installed("ffmpeg") {
        return skip(TEST, "ffmpeg");
    }
    let said = Running::start(decoder(&["-i", &sink, "-f", "null", "-"])).ends_with(0);
    assert_eq!(said, "");
}

#[test]
fn a_player_learns_the_rtp_stream_from_its_sdp() {
    const TEST: &str = "a_player_learns_the_rtp_stream_from_its_sdp";
    let files = Files::new();
    let (sdp, port) = (files.write("stream.sdp", b"v=0\r\nold"), free_port());
    let sink = format!("udp://127.0.0.1:{port}");
    let (mut receiver, to) = receiver(&[&sink, "--sdp", &sdp], Stdio::null());
    let mut sender = timeous(&["send", CLIP, &to]);
    until("the description is written", || size(&sdp) > 20 || !sender.is_alive());
    let text = fs::read_to_string(&sdp).unwrap();
    let described = timeous_media::SessionDescription::parse(&text).unwrap();
    assert_eq!((described.port, described.parameter_sets.len()), (port, 2), "{text}");
    assert_eq!(fs::read_dir(Path::new(&sdp).parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    if !is_installed("ffmpeg") {
        return skip(TEST, "ffmpeg");
    }
    let input = ["-protocol_whitelist", "file,udp,rtp", "-i", &sdp, "-frames:v", "60", "-f", "null", "-"];
    // It starts within a group of pictures, which ffmpeg reports.
    let mut player = Running::start({
        let mut player = std::process::Command::new("ffmpeg");
        player.args(["-nostdin", "-v", "error"]).args(input).stdin(Stdio::null()).stdout(Stdio::null());
        player
    });
    player.ends_with(0);
    sender.signal(Signal::INT);
    sender.end();
    let said = receiver.ends_with(0);
    assert!(!said.contains("--sdp"), "{said}");
}

#[test]
fn without_an_sdp_a_line_tells_how_to_get_one() {
    let files = Files::new();
    let said = transfer(&files, &[&format!("udp://127.0.0.1:{}", free_port())]);
    assert!(said.contains("--sdp FILE"), "{said}");
}
