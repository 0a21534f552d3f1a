//! Invalid input: each error has its message and exit code, and complete frames before it are sent.

use std::fs::File;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Stdio;

use crate::support::{Files, Running, assert_is_beginning_of, clip, command, frames, free_port, timeous};

/// Runs a command that must fail with this exit code and these messages.
#[track_caller]
fn fails(arguments: &[&str], code: i32, says: &[&str]) {
    let said = timeous(arguments).ends_with(code);
    for part in says {
        assert!(said.contains(part), "{arguments:?} should say '{part}': {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

const NOBODY: &str = "timeous://127.0.0.1:9?timeout=1s&reconnect=off";

#[test]
fn what_is_no_h264_is_refused_before_anybody_is_called() {
    let files = Files::new();
    let text = files.write("notes.txt", b"not a video at all\n");
    fails(&["send", &text, NOBODY], 3, &["not a raw H.264", "ffmpeg -i"]);
    let mp4 = files.write("film.mp4", b"\0\0\0\x20ftypisom\0\0\x02\0isomiso2avc1mp41");
    fails(&["send", &mp4, NOBODY], 3, &["film.mp4: the file is cut off"]);
    fails(&["send", "--live", &mp4, NOBODY], 2, &["--live: a file of MP4", "leave --live out"]);
    let short = files.write("short.ts", &[&[0x47][..], &[0; 186]].concat());
    fails(&["send", &short, NOBODY], 3, &["short.ts: the source is too short to tell", "187 bytes", "MPEG-TS"]);
    let unread: [(&str, &[u8], &str); 4] = [
        ("film.avi", b"RIFF\x10\0\0\0AVI LIST", "AVI, which is not read"),
        ("sound.wav", b"RIFF\x10\0\0\0WAVEfmt ", "-c:a aac -f mpegts"),
        ("film.flv", b"FLV\x01\x05\0\0\0\x09", "FLV, which"),
        ("film.mpg", b"\0\0\x01\xba\x44\0\x04\0", "an MPEG program stream"),
    ];
    for (name, bytes, says) in unread {
        fails(&["send", &files.write(name, bytes), NOBODY], 3, &[says]);
    }
    fails(
        &["send", &files.write("hevc.flv", b"FLV\x01\x01\0\0\0\x09\0\0\0\0\x09\0\0\x20\0\0\0\0\0\0\0\x90hvc1"), NOBODY],
        3,
        &["ffmpeg 6.1"],
    );
    let shared = "v=0\na=group:BUNDLE 0 1\nm=video 5004 RTP/AVP 96\na=rtpmap:96 VP8/90000\nm=audio 5004 RTP/AVP 0\n";
    fails(
        &["send", &files.write("bundle.sdp", shared.as_bytes()), NOBODY],
        3,
        &["share 0.0.0.0:5004 (BUNDLE)", "--pt"],
    );
    let sealed = files.write("webrtc.sdp", b"v=0\nm=video 9 UDP/TLS/RTP/SAVPF 96\n");
    fails(&["send", &sealed, NOBODY], 3, &["WebRTC are encrypted"]);
    fails(&["send", &files.write("flac.ogg", b"OggS\0\x02\0\0"), NOBODY], 3, &["the file is cut off"]);
    let zeros = files.write("zeros", &[0; 5_000]);
    fails(&["send", &zeros, NOBODY], 3, &["no H.264 picture"]);
    let hevc = files.write("film.hevc", &[0, 0, 0, 1, 0x40, 1, 12, 1, 0, 0, 0, 1, 0x26, 1, 0xaf]);
    fails(&["send", &hevc, NOBODY], 3, &["no H.265 picture"]);
}

#[test]
fn an_empty_file_is_refused() {
    let files = Files::new();
    let empty = files.write("empty.h264", b"");
    fails(&["send", &empty, NOBODY], 3, &["empty.h264: the source is empty"]);
    fails(&["send", "-", NOBODY], 3, &["the source is empty"]);
}

#[test]
fn a_file_that_breaks_off_is_sent_as_far_as_it_is_whole() {
    let whole = clip(40);
    let last = frames(&clip(41)).0.pop().unwrap().annexb();
    for (name, tail) in [("behind a start code", &last[..4]), ("in a slice header", &last[..6])] {
        let files = Files::new();
        let cut = [&whole[..], tail].concat();
        let (source, sink, port) = (files.write("cut.h264", &cut), files.path("out.h264"), free_port());
        let mut receiver = timeous(&["recv", &format!("timeous://:{port}?latency=3s&reconnect=off"), &sink]);
        receiver.until_it_says("listening at");
        let said =
            timeous(&["send", &source, &format!("timeous://127.0.0.1:{port}?latency=3s&reconnect=off")]).ends_with(3);
        assert!(said.contains("breaks off") && said.contains("40 frames were whole"), "cut {name}: {said}");
        receiver.ends_with(0);
        assert_eq!(assert_is_beginning_of(Path::new(&sink), &whole), 40, "cut {name}");
    }
}

#[test]
fn a_description_that_is_wrong_is_told_by_its_line() {
    let files = Files::new();
    let sdp = |text: &[u8]| files.write("in.sdp", text);
    let port = sdp(b"v=0\nm=video 70000 RTP/AVP 96\na=rtpmap:96 H264/90000\n");
    fails(&["send", &port, NOBODY], 3, &["in.sdp: line 2", "m=video 70000", "1 to 65535"]);
    let clock = sdp(b"v=0\nm=video 5004 RTP/AVP 96\na=rtpmap:96 H264/0\n");
    fails(&["send", &clock, NOBODY], 3, &["in.sdp: line 3", "a=rtpmap:96 H264/0", "H264/90000"]);
    fails(&["send", &sdp(b"v=0\nc=IN IP4 127.0.0.1\n"), NOBODY], 3, &["no line m=", "m=video 5004 RTP/AVP 96"]);
    fails(&["send", &sdp(&[0x47, 0xff, 0xfe, 0]), NOBODY], 3, &["no SDP", "does not end with .sdp"]);
}

#[test]
fn what_is_no_mp4_any_more_is_told_with_its_place() {
    let files = Files::new();
    let box_of = |kind: &[u8], length: u8| [&[0, 0, 0, length], kind, &vec![0; usize::from(length) - 8]].concat();
    let whole = [box_of(b"ftyp", 16), box_of(b"moov", 100)].concat();
    let source = |bytes: &[u8]| files.write("in.mp4", bytes);
    fails(&["send", &source(&whole[4..]), NOBODY], 3, &["no MP4", "'ftyp' is at byte 0"]);
    fails(&["send", &source(&[&whole[..16], &whole[20..]].concat()), NOBODY], 3, &["damaged", "at byte 16"]);
    fails(&["send", &source(&whole[..50]), NOBODY], 3, &["damaged", "at byte 24"]);
}

#[test]
fn a_payload_type_is_for_rtp() {
    let files = Files::new();
    let source = files.write("clip.h264", &clip(2));
    fails(&["send", &source, NOBODY, "--pt", "33"], 2, &["--pt 33", "leave it out"]);
    fails(&["send", "-", NOBODY, "--pt", "96"], 2, &["--pt 96", "leave it out"]);
    fails(&["send", "camera", NOBODY, "--pt", "96", "--adapt", "cat"], 2, &["--pt", "--adapt"]);
}

#[test]
fn files_and_hosts_that_are_not_there() {
    let files = Files::new();
    let source = files.write("clip.h264", &clip(2));
    fails(&["send", "no/such/file.h264", NOBODY], 4, &["no/such/file.h264", "No such file"]);
    fails(&["send", &files.path(""), NOBODY], 4, &["directory"]);
    fails(&["send", &source, "timeous://no-such-host.invalid:7000"], 4, &["unknown host 'no-such-host.invalid'"]);
    fails(&["send", &source, "udp://no-such-host.invalid:7000"], 4, &["unknown host", "no-such-host.invalid"]);
}

#[test]
fn a_port_that_is_taken() {
    let taken = UdpSocket::bind("[::]:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    fails(&["recv", &format!("timeous://:{port}"), "-"], 4, &[&port.to_string(), "another program"]);
    fails(&["recv", &format!("udp://:{port}"), "-"], 4, &[&port.to_string(), "another program"]);
    let to = format!("127.0.0.1:{port}");
    fails(&["emulate", "--listen", &to, "--to", "127.0.0.1:9"], 4, &[&port.to_string()]);
}

/// A file of the middle of a stream, such as by `dd`, was refused.
#[test]
fn raw_video_that_is_cut_at_the_beginning_begins_at_its_parameter_sets() {
    let whole = clip(20);
    let cut = [&whole[1_000..], &whole].concat();
    for is_pipe in [false, true] {
        let files = Files::new();
        let (source, sink, port) = (files.write("cut.h264", &cut), files.path("out.h264"), free_port());
        let mut receiver = timeous(&["recv", &format!("timeous://:{port}?latency=3s&reconnect=off"), &sink]);
        receiver.until_it_says("listening at");
        let to = format!("timeous://127.0.0.1:{port}?latency=3s&reconnect=off");
        let mut send = command(&["send", if is_pipe { "-" } else { &source }, &to]);
        if is_pipe {
            send.arg("--live").stdin(Stdio::from(File::open(&source).unwrap()));
        }
        let said = Running::start(send).ends_with(0);
        let skipped = format!("{} bytes before its first parameter sets are left out", whole.len() - 1_000);
        assert!(said.contains(&skipped), "{said}");
        receiver.ends_with(0);
        assert_eq!(assert_is_beginning_of(Path::new(&sink), &whole), 20, "{said}");
    }
}

/// A mistyped port was never told of.
#[test]
fn a_source_that_never_sends_is_told_of_with_what_to_check() {
    let files = Files::new();
    let [port, video, audio] = [(); 3].map(|()| free_port());
    let sdp = format!("v=0\nm=video {video} RTP/AVP 96\na=rtpmap:96 H265/90000\nm=audio {audio} RTP/AVP 0\n");
    let source = files.write("in.sdp", sdp.as_bytes());
    let mut of_one = timeous(&["send", &format!("udp://127.0.0.1:{port}"), NOBODY]);
    let mut of_two = timeous(&["send", &source, NOBODY]);
    of_one.until_it_says(&format!(
        "the source has sent nothing for 3 s: is it running, and does it send to 127.0.0.1:{port}"
    ));
    for (name, port) in [("video H265", video), ("audio PCMU", audio)] {
        of_two.until_it_says(&format!("{name} (port {port}) has sent nothing for 3 s: is it running"));
    }
}

#[test]
fn wrong_uris_say_what_to_write_instead() {
    let source = "assets/clip.h264";
    fails(&["send", source, "timeous://h:1?latencey=1s"], 2, &["'latencey'", "latency", "policy", "timeout", "dport"]);
    fails(&["send", source, "timeous://h:1?latency=soon"], 2, &["latency=soon", "120ms"]);
    fails(&["send", source, "timeous://h:1?policy=best"], 2, &["policy=best", "layers, deadline", "dbat, fifo"]);
    fails(&["send", source, "timeous://h:70000"], 2, &["70000", "65535"]);
    fails(&["send", source, "timeous://:1?mode=caller"], 2, &["needs a host"]);
    fails(&["send", source, "srt://h:1"], 2, &["timeous://"]);
    fails(&["recv", "timeous://:1?mtu=9", "-"], 2, &["mtu=9", "200"]);
    fails(&["recv", "timeous://:7000", "http://x"], 2, &["udp://host:port"]);
    fails(&["send", source, NOBODY, "--fps", "0"], 2, &["30000/1001"]);
    fails(&["send", source, NOBODY, "--stats-format", "xml"], 2, &["json", "csv"]);
    fails(&["send", source], 2, &["<URI>"]);
}

#[test]
fn sinks_and_logs_that_cannot_be_written() {
    let files = Files::new();
    let port = free_port();
    let uri = format!("timeous://:{port}");
    let nowhere = files.path("no/such/directory/x");
    fails(&["recv", &uri, &nowhere], 4, &["no/such/directory/x", "No such file"]);
    let source = files.write("clip.h264", &clip(2));
    let to = format!("udp://127.0.0.1:{port}");
    fails(&["send", &source, &to, "--journal", &nowhere], 4, &["no/such/directory/x"]);
    fails(&["send", &source, &to, "--stats", &nowhere], 4, &["no/such/directory/x"]);
    let link = ["emulate", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--capture", &nowhere];
    fails(&link, 4, &["capture"]);
}

#[test]
fn a_disk_that_is_full_ends_both_ends_with_a_word() {
    if !Path::new("/dev/full").exists() {
        return crate::support::skip("a_disk_that_is_full_ends_both_ends_with_a_word", "/dev/full");
    }
    let files = Files::new();
    let (source, port) = (files.write("clip.h264", &clip(200)), free_port());
    let mut receiver = timeous(&["recv", &format!("timeous://:{port}?latency=3s&reconnect=off"), "/dev/full"]);
    receiver.until_it_says("listening at");
    let mut sender =
        timeous(&["send", &source, &format!("timeous://127.0.0.1:{port}?latency=3s&timeout=5s&reconnect=off")]);
    let said = receiver.ends_with(4);
    assert!(said.contains("/dev/full") && said.contains("No space"), "{said}");
    let said = sender.ends_with(5);
    assert!(said.contains("ended"), "{said}");
}

#[test]
fn options_that_would_be_ignored_and_directories_are_refused() {
    let files = Files::new();
    let folder = files.path("a-folder");
    std::fs::create_dir(&folder).unwrap();
    fails(&["send", &folder, NOBODY], 4, &["a-folder is a directory"]);
    let clip = files.write("clip.h264", &clip(5));
    fails(&["send", &clip, NOBODY, "--stats-interval", "0s"], 2, &["from 10ms to 24h"]);
    fails(&["send", "udp://127.0.0.1:9", NOBODY, "--fps", "25"], 2, &["--fps", "leave it out"]);
    fails(&["send", &clip, "timeous://127.0.0.1:9?latency=1s&latency=2s"], 2, &["'latency' is there twice"]);
    fails(&["recv", "timeous://:6511", "out.h264", "--latency", "1s"], 2, &["--latency", "key of the URI"]);
    fails(&["recv", "timeous://:6511", "out.h264", "--pt", "96"], 2, &["--pt"]);
}

/// A full disk for logs must not stop a camera.
#[test]
fn statistics_and_journals_that_cannot_be_written_do_not_end_the_stream() {
    if !Path::new("/dev/full").exists() {
        return crate::support::skip("statistics_and_journals_that_cannot_be_written", "/dev/full");
    }
    let whole = clip(40);
    let files = Files::new();
    let (source, sink, port) = (files.write("clip.h264", &whole), files.path("out.h264"), free_port());
    let listening = format!("timeous://:{port}?latency=3s&reconnect=off");
    let mut receiver = timeous(&["recv", &listening, &sink, "--stats", "/dev/full", "--stats-interval", "200ms"]);
    receiver.until_it_says("listening at");
    let calling = format!("timeous://127.0.0.1:{port}?latency=3s&reconnect=off");
    let said = timeous(&["send", &source, &calling, "--stats", "/dev/full", "--journal", "/dev/full"]).ends_with(4);
    assert!(said.contains("No space") && said.contains("the stream goes on"), "{said}");
    let said = receiver.ends_with(4);
    assert!(said.contains("statistics") && said.contains("the stream goes on"), "{said}");
    assert_eq!(assert_is_beginning_of(Path::new(&sink), &whole), 40);
}
