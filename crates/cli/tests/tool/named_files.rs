//! Files named on the command line: logs destroy neither the source, the sink nor each other, and never hang.

use std::fs;
use std::net::UdpSocket;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use timeous::core::Duration;

use crate::support::{Files, clip, command, free_port, sleep, timeous};

/// Runs a command that must refuse its command line, and leave the file as it is.
#[track_caller]
fn refuses(arguments: &[&str], names: &[&str], kept: &str) {
    let before = fs::read(kept).ok();
    // Without the check the command would wait for its peer.
    let mut shell = Command::new("timeout");
    shell.arg("5").arg(command(&[]).get_program()).args(arguments);
    let output = shell.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    for name in names {
        assert!(said.contains(name), "{arguments:?} should say '{name}': {said}");
    }
    assert_eq!(fs::read(kept).ok(), before, "{arguments:?}");
}

/// `send clip --journal clip` destroyed its source, and `recv out --stats out` wrote one file twice.
#[test]
fn an_output_is_neither_the_source_nor_another_output() {
    let files = Files::new();
    let source = files.write("clip.h264", &clip(10));
    let (link, new) = (files.path("link"), files.path("new.h264"));
    std::os::unix::fs::symlink(&source, &link).unwrap();
    let (port, there) = (free_port(), format!("timeous://127.0.0.1:{}", free_port()));
    let (here, by_udp) = (format!("timeous://:{port}?reconnect=off"), format!("udp://127.0.0.1:{port}"));
    for to in [&there, &here, &by_udp] {
        refuses(&["send", &source, to, "--journal", &source], &["SOURCE", "--journal", &source], &source);
        refuses(&["send", &source, to, "--stats", &link], &["SOURCE", "--stats", &link], &source);
        refuses(&["send", &source, to, "--stats", &new, "--journal", &new], &["--stats", "--journal"], &new);
    }
    refuses(&["send", &format!("file://{source}"), &here, "--stats", &source], &["SOURCE", "--stats"], &source);
    let player = format!("http://:{port}");
    refuses(&["send", &source, &player, "--stats", &source], &["SOURCE", "--stats"], &source);
    for from in [&here, &by_udp] {
        refuses(&["recv", from, &source, "--overwrite", "--frames", &link], &["SINK", "--frames"], &source);
        refuses(&["recv", from, &new, "--stats", &new], &["SINK", "--stats"], &new);
        refuses(&["recv", from, "-", "--stats", &new, "--frames", &new], &["--stats", "--frames"], &new);
        let sdp = ["recv", from, "udp://127.0.0.1:9", "--sdp", &new, "--stats", &new];
        refuses(&sdp, &["--sdp", "--stats"], &new);
    }
    let link = ["emulate", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--duration", "1s"];
    refuses(&[&link[..], &["--capture", &new, "--stats", "csv", &new]].concat(), &["--capture", "--stats"], &new);
}

/// An older log is overwritten, and a device or a pipe may be named for several logs.
#[test]
fn logs_are_overwritten_and_may_share_a_device() {
    let (files, port) = (Files::new(), free_port());
    let source = files.write("clip.h264", &clip(10));
    let [frames, journal] = ["frames.csv", "journal.csv"].map(|name| files.write(name, &[b'x'; 100_000]));
    let uri = |host: &str| format!("timeous://{host}:{port}?latency=300ms&reconnect=off");
    let mut receiver = timeous(&["recv", &uri(""), "/dev/null", "--frames", &frames, "--stats", "/dev/null"]);
    receiver.until_it_says("listening at");
    let logs = ["--journal", &journal, "--stats", "/dev/stderr"];
    timeous(&[&["send", &source, &uri("127.0.0.1")], &logs[..]].concat()).ends_with(0);
    receiver.ends_with(0);
    for path in [frames, journal] {
        let log = fs::read_to_string(path).unwrap();
        assert!(log.starts_with("rtp_timestamp,") && !log.contains('x'), "{log}");
    }
}

/// Opening a FIFO without a reader hung, and no signal ended it.
#[test]
fn a_pipe_that_nothing_reads_is_told() {
    let files = Files::new();
    let (source, pipe) = (files.write("clip.h264", &clip(10)), files.path("pipe"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let here = || format!("timeous://:{}", free_port());
    for option in ["--journal", "--stats"] {
        let said = timeous(&["send", &source, &here(), option, &pipe]).ends_with(4);
        assert!(said.contains(&pipe) && said.contains("nothing reads this pipe"), "{said}");
    }
    for option in ["--frames", "--stats"] {
        let said = timeous(&["recv", &here(), "/dev/null", option, &pipe]).ends_with(4);
        assert!(said.contains(&pipe) && said.contains("nothing reads this pipe"), "{said}");
    }
    // The emulator began with a file that nothing would read, or told it at its end.
    let link = ["emulate", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--duration", "1min"];
    for option in [&["--capture", &pipe][..], &["--stats", "csv", &pipe]] {
        let said = timeous(&[&link[..], option].concat()).ends_with(4);
        assert!(said.contains(&pipe) && said.contains("nothing reads this pipe"), "{said}");
    }
    // A reader that is started a little later is waited for.
    let mut sender = timeous(&["send", &source, &here(), "--journal", &pipe]);
    let mut reader = Command::new("sh");
    reader.args(["-c", "sleep 0.1; exec cat \"$0\"", &pipe]).stdout(Stdio::piped());
    let reader = reader.spawn().unwrap();
    sleep(Duration::from_millis(1_500));
    assert!(sender.is_alive(), "{}", sender.errors());
    sender.signal(Signal::TERM);
    sender.ends_with(0);
    let read = reader.wait_with_output().unwrap().stdout;
    assert!(read.starts_with(b"rtp_timestamp,"), "{read:?}");
}

/// The emulator told at its end that its statistics could not be written, and lost them.
#[test]
fn a_file_that_cannot_be_written_is_told_before_the_emulation() {
    let files = Files::new();
    let missing = files.path("no/such.file");
    let link = ["emulate", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--duration", "1min"];
    for option in [&["--capture", &missing][..], &["--stats", "json", &missing]] {
        let said = timeous(&[&link[..], option].concat()).ends_with(4);
        assert!(said.contains(&missing) && !said.contains("->"), "{said}");
    }
}

/// RTP to a player stood still until something read its description.
#[test]
fn a_description_that_nothing_reads_holds_back_no_rtp() {
    let files = Files::new();
    let (source, pipe) = (files.write("clip.h264", &clip(50)), files.path("stream.sdp"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let player = UdpSocket::bind("127.0.0.1:0").unwrap();
    player.set_read_timeout(Some(Duration::from_secs(10).into())).unwrap();
    let (port, sink) = (free_port(), format!("udp://{}", player.local_addr().unwrap()));
    let uri = |host: &str| format!("timeous://{host}:{port}?latency=300ms&reconnect=off");
    let mut receiver = timeous(&["recv", &uri(""), &sink, "--sdp", &pipe]);
    receiver.until_it_says("listening at");
    timeous(&["send", &source, &uri("127.0.0.1")]).ends_with(0);
    let said = receiver.ends_with(0);
    assert!(said.contains(&pipe) && said.contains("nothing reads this pipe"), "{said}");
    player.recv(&mut [0; 2_000]).unwrap();
}
