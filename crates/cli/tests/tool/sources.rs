//! Files of single streams, and of codecs that MPEG-TS cannot hold: ADTS and Ogg go as MPEG-TS, IVF, WebM and MP4 of VP8, VP9 and AV1 as RTP.

use std::fs;
use std::net::UdpSocket;
use std::process::{Command, Stdio};

use crate::statistics::tracks;
use crate::support::{Files, Running, free_port, is_installed, side_by_side, skip, timeous};

/// Writes two seconds of a test picture, or a tone.
fn encode(files: &Files, name: &str, options: &[&str]) -> String {
    let path = files.path(name);
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=160x120:rate=25", "-f", "lavfi", "-i"]);
    ffmpeg.args(["sine=frequency=440:sample_rate=48000", "-t", "2", "-pix_fmt", "yuv420p", "-g", "25"]).args(options);
    ffmpeg.args(["-strict", "-2", &path]).stdin(Stdio::null());
    Running::start(ffmpeg).ends_with(0);
    path
}

/// Number of packets of a stream by ffprobe.
fn count(path: &str, stream: &str) -> u64 {
    let mut probe = Command::new("ffprobe");
    probe.args(["-v", "error", "-select_streams", stream, "-count_packets", "-show_entries"]);
    let told = probe.args(["stream=nb_read_packets", "-of", "default=nk=1:nw=1", path]).output().unwrap();
    String::from_utf8(told.stdout).unwrap().lines().find_map(|line| line.trim().parse().ok()).unwrap_or(0)
}

/// Sends a file of sound; it arrives as MPEG-TS that decodes.
fn assert_arrives_as_ts(name: &str, options: &[&str]) {
    let files = Files::new();
    let (source, out, port) = (encode(&files, name, options), files.path("out.ts"), free_port());
    let mut receiver = timeous(&["recv", &format!("timeous://:{port}?latency=1s&reconnect=off"), &out]);
    receiver.until_it_says("listening");
    timeous(&["send", &source, &format!("timeous://127.0.0.1:{port}?latency=1s")]).ends_with(0);
    receiver.ends_with(0);
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-xerror", "-v", "error", "-i", &out, "-f", "null", "-"]).stdin(Stdio::null());
    assert_eq!(Running::start(ffmpeg).ends_with(0), "");
    assert_eq!(count(&out, "a:0"), count(&source, "a:0"), "{name}");
}

#[test]
fn files_of_sound_alone_arrive_as_a_transport_stream() {
    if !is_installed("ffmpeg") {
        return skip("files_of_sound_alone_arrive_as_a_transport_stream", "ffmpeg");
    }
    side_by_side(&[
        ("ADTS", || assert_arrives_as_ts("in.aac", &["-map", "1:a", "-c:a", "aac", "-f", "adts"])),
        ("Ogg", || assert_arrives_as_ts("in.ogg", &["-map", "1:a", "-c:a", "libopus", "-f", "ogg"])),
    ]);
}

/// Sends a file as RTP to a program of the test, which hears all of its streams; returns the payload types.
fn assert_arrives_as_rtp(name: &str, options: &[&str], wanted: &[(&str, &str)]) {
    let files = Files::new();
    let (source, port, received) = (encode(&files, name, options), free_port(), files.path("received"));
    let (first, sdp) = (free_port(), files.path("out.sdp"));
    let player = UdpSocket::bind(("127.0.0.1", first)).unwrap();
    player.set_nonblocking(true).unwrap();
    let (at, to) = (format!("timeous://:{port}?latency=1s&reconnect=off"), format!("udp://127.0.0.1:{first}"));
    let mut receiver = timeous(&["recv", "--stats", &received, "--sdp", &sdp, &at, &to]);
    receiver.until_it_says("listening");
    let said = timeous(&["send", &source, &format!("timeous://127.0.0.1:{port}?latency=1s")]).ends_with(0);
    assert!(said.contains("it is sent as RTP"), "{said}");
    receiver.ends_with(0);
    let streams = tracks(&received);
    for ((stream, (codec, select)), n) in streams.iter().zip(wanted).zip(0..) {
        let packets = count(&source, select);
        assert!(stream["codec"] == *codec && stream["id"] == n, "{name}: {streams:?}");
        assert_eq!(stream["framesDecodable"], packets, "{name}: {streams:?}");
        // A keyframe a second.
        assert_eq!(stream["iFramesDecodable"], if *select == "v:0" { 2 } else { 0 }, "{name}: {streams:?}");
    }
    assert_eq!(streams.len(), wanted.len(), "{name}: {streams:?}");
    let sdp = fs::read_to_string(sdp).unwrap();
    assert!(wanted.iter().all(|(codec, _)| sdp.contains(&format!(" {codec}/"))), "{sdp}");
    let mut packet = [0; 2_000];
    let len = player.recv(&mut packet).expect("the first stream went to this port");
    assert!(len > 12 && packet[1] & 0x7f == 96 && len < 1_200);
}

#[test]
fn video_that_a_transport_stream_cannot_hold_arrives_as_rtp() {
    if !is_installed("ffmpeg") {
        return skip("video_that_a_transport_stream_cannot_hold_arrives_as_rtp", "ffmpeg");
    }
    side_by_side(&[
        ("VP8 in IVF", || assert_arrives_as_rtp("in.ivf", &["-map", "0:v", "-c:v", "libvpx"], &[("VP8", "v:0")])),
        ("VP9 in WebM", || {
            let codecs = ["-c:v", "libvpx-vp9", "-cpu-used", "8", "-deadline", "realtime", "-c:a", "libopus"];
            assert_arrives_as_rtp("in.webm", &codecs, &[("VP9", "v:0"), ("opus", "a:0")]);
        }),
        ("AV1 in MP4", || {
            let codecs = ["-c:v", "libsvtav1", "-preset", "12", "-c:a", "aac"];
            assert_arrives_as_rtp("in.mp4", &codecs, &[("AV1", "v:0"), ("MPEG4-GENERIC", "a:0")]);
        }),
    ]);
}
