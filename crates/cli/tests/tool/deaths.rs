//! Killed processes, dead links and interrupts: each is reported, and data received before is kept.

use std::net::UdpSocket;
use std::path::Path;
use std::process::Stdio;

use rustix::process::Signal;
use timeous::Hints;
use timeous::core::Duration;
use timeous_media::Control;

use crate::support::{
    CLIP, Files, Running, assert_decodes, assert_is_beginning_of, clip, command, emulate, free_port, is_free, size,
    sleep, timeous, until,
};

/// Bytes of the stream after which there is something to keep.
const SOME: u64 = 200_000;

/// Running stream of the clip between two processes; the sender calls the port `near`.
struct Stream {
    files: Files,
    sender: Running,
    receiver: Running,
}

impl Stream {
    fn start(near: u16, far: u16) -> Self {
        Self::with(near, far, "")
    }

    /// Starts a stream with further keys of the URI.
    fn with(near: u16, far: u16, keys: &str) -> Self {
        let files = Files::new();
        let sink = files.path("out.h264");
        let uri = |to: String| format!("timeous://{to}?latency=3s&timeout=2s&reconnect=off{keys}");
        let mut receiver = timeous(&["recv", &uri(format!(":{far}")), &sink]);
        receiver.until_it_says("listening at");
        let sender = timeous(&["send", CLIP, &uri(format!("127.0.0.1:{near}"))]);
        let mut stream = Self { files, sender, receiver };
        until("the stream is under way", || {
            size(&sink) > SOME || !stream.sender.is_alive() || !stream.receiver.is_alive()
        });
        stream
    }

    fn direct() -> Self {
        let port = free_port();
        Self::start(port, port)
    }

    /// Checks that all data received is in the file, and can be decoded.
    #[track_caller]
    fn assert_kept(&self, test: &str) {
        let sink = self.files.path("out.h264");
        assert!(size(&sink) > SOME);
        assert!(assert_is_beginning_of(Path::new(&sink), &std::fs::read(CLIP).unwrap()) > 0);
        assert_decodes(&sink, test);
    }
}

#[test]
fn nobody_answers() {
    let files = Files::new();
    let source = files.write("clip.h264", &clip(2));
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = silent.local_addr().unwrap();
    let uri = format!("timeous://{to}?timeout=1s&reconnect=off");
    let said = timeous(&["send", &source, &uri]).ends_with(5);
    assert!(said.contains(&format!("no answer from {to} within 1s")), "{said}");
    let said = timeous(&["recv", &uri, &files.path("out.h264")]).ends_with(5);
    assert!(said.contains("no answer"), "{said}");
}

#[test]
fn nobody_listens() {
    let files = Files::new();
    let source = files.write("clip.h264", &clip(2));
    let to = format!("127.0.0.1:{}", free_port());
    let said = timeous(&["send", &source, &format!("timeous://{to}?timeout=60s&reconnect=off")]).ends_with(5);
    assert!(said.contains(&format!("nobody listens at {to}")), "{said}");
    // With reconnection, the sender says that it tries again, and connects once somebody listens.
    let sink = files.path("out.h264");
    let mut sender = timeous(&["send", &source, &format!("timeous://{to}?latency=3s")]);
    until("it says that nobody listens", || sender.errors().contains("trying again") || !sender.is_alive());
    let mut receiver = timeous(&["recv", &format!("timeous://{to}?mode=listener&latency=3s&reconnect=off"), &sink]);
    sender.ends_with(0);
    receiver.ends_with(0);
    assert!(size(&sink) > 0);
}

#[test]
fn a_receiver_that_is_killed_is_missed_by_its_sender() {
    let mut stream = Stream::direct();
    stream.receiver.signal(Signal::KILL);
    stream.receiver.end();
    let said = stream.sender.ends_with(5);
    assert!(said.contains("does not answer"), "{said}");
    stream.assert_kept("a_receiver_that_is_killed_is_missed_by_its_sender");
}

#[test]
fn a_sender_that_is_killed_is_missed_by_its_receiver() {
    let mut stream = Stream::direct();
    stream.sender.signal(Signal::KILL);
    stream.sender.end();
    let said = stream.receiver.ends_with(5);
    assert!(said.contains("does not answer"), "{said}");
    stream.assert_kept("a_sender_that_is_killed_is_missed_by_its_receiver");
}

/// Keys of streams over TCP, and what a receiver says if the sender is killed.
const OVER_TCP: [(&str, &str); 3] = [
    ("&transport=tcp", "ended before the stream did"),
    ("&transport=tcp&framing=rfc4571", "ended before the stream did"),
    ("&transport=tcp&passphrase=correct-horse-1", "reset by the peer"),
];

/// The kernel closes the connection of a killed process in order, which was the end of the stream, with exit code 0.
#[test]
fn a_sender_over_tcp_that_is_killed_has_not_ended_its_stream() {
    for (keys, why) in OVER_TCP {
        let port = free_port();
        let mut stream = Stream::with(port, port, keys);
        stream.sender.signal(Signal::KILL);
        stream.sender.end();
        let said = stream.receiver.ends_with(5);
        assert!(said.contains(why), "{keys}: {said}");
        stream.assert_kept("a_sender_over_tcp_that_is_killed_has_not_ended_its_stream");
    }
}

#[test]
fn a_sender_over_tcp_that_is_interrupted_ends_in_order() {
    for (keys, _) in OVER_TCP {
        let port = free_port();
        let mut stream = Stream::with(port, port, keys);
        stream.sender.signal(Signal::INT);
        stream.sender.ends_with(0);
        stream.receiver.ends_with(0);
    }
}

/// An application, or a sender of an older version, does not promise to tell of the end of its stream.
#[test]
fn a_sender_over_tcp_that_promises_no_end_ends_by_its_close() {
    let (files, port) = (Files::new(), free_port());
    let uri = |host: &str| format!("timeous://{host}:{port}?transport=tcp&reconnect=off");
    let mut receiver = timeous(&["recv", &uri(""), &files.path("out.h264")]);
    receiver.until_it_says("listening at");
    let (mut sender, _receiver) = timeous::open_both(&uri("127.0.0.1").parse().unwrap()).unwrap();
    let terms = Control::Terms { latency: Duration::from_millis(300), excess: None };
    sender.send(&terms.write(), Hints::default()).unwrap();
    sender.finish().unwrap();
    receiver.ends_with(0);
}

/// With `reconnect=off` the receiver waited on for ever, as if a stranger had called.
#[test]
fn a_caller_that_goes_before_it_has_sent_anything_ends_its_receiver() {
    for (signal, why) in [(Signal::KILL, "does not answer"), (Signal::TERM, "ended the stream")] {
        let (files, port) = (Files::new(), free_port());
        let uri = |host: &str| format!("timeous://{host}:{port}?timeout=2s&reconnect=off");
        let mut receiver = timeous(&["recv", &uri(""), &files.path("out.h264")]);
        receiver.until_it_says("listening at");
        let mut caller = command(&["send", "-", &uri("127.0.0.1")]);
        caller.stdin(Stdio::piped());
        let mut caller = Running::start(caller);
        receiver.until_it_says("connected");
        caller.signal(signal);
        caller.end();
        let said = receiver.ends_with(5);
        assert!(said.contains("the caller has sent nothing that could be received") && said.contains(why), "{said}");
    }
}

#[test]
fn a_link_that_falls_silent_ends_both_ends() {
    let (near, far) = (free_port(), free_port());
    let mut link = emulate(near, far, &["--delay", "10ms", "--back-delay", "10ms"]);
    let mut stream = Stream::start(near, far);
    link.signal(Signal::KILL);
    link.end();
    let said = stream.sender.ends_with(5);
    assert!(said.contains("does not answer"), "{said}");
    let said = stream.receiver.ends_with(5);
    assert!(said.contains("does not answer"), "{said}");
    stream.assert_kept("a_link_that_falls_silent_ends_both_ends");
}

#[test]
fn a_sender_that_is_interrupted_ends_in_order() {
    let mut stream = Stream::direct();
    stream.sender.signal(Signal::INT);
    stream.sender.ends_with(0);
    stream.receiver.ends_with(0);
    stream.assert_kept("a_sender_that_is_interrupted_ends_in_order");
}

#[test]
fn a_receiver_that_is_interrupted_ends_in_order() {
    let mut stream = Stream::direct();
    stream.receiver.signal(Signal::INT);
    stream.receiver.ends_with(0);
    let said = stream.sender.ends_with(5);
    assert!(said.contains("closed by the peer"), "the sender is told that nobody wants it any more: {said}");
    stream.assert_kept("a_receiver_that_is_interrupted_ends_in_order");
}

/// `timeout` of coreutils signals its child, and then the child's group.
#[test]
fn two_signals_at_once_count_as_one() {
    let mut stream = Stream::direct();
    stream.sender.signal(Signal::INT);
    stream.sender.signal(Signal::TERM);
    stream.sender.ends_with(0);
    stream.receiver.ends_with(0);
}

#[test]
fn a_second_signal_ends_a_sender_that_waits_for_its_receiver() {
    let (files, port) = (Files::new(), free_port());
    let uri = |host: &str| format!("timeous://{host}:{port}?latency=60s&timeout=120s&reconnect=off");
    let sink = files.path("out.h264");
    let mut receiver = timeous(&["recv", &uri(""), &sink]);
    receiver.until_it_says("listening at");
    let mut sender = timeous(&["send", CLIP, &uri("127.0.0.1")]);
    receiver.until_it_says("connected");
    // It answers nothing any more, and its sender would wait for as long as the latency.
    receiver.signal(Signal::STOP);
    assert_second_signal_ends(&mut sender);
    receiver.kill();
}

#[test]
fn a_second_signal_ends_a_receiver_that_waits_for_its_sink() {
    let port = free_port();
    let uri = |host: &str| format!("timeous://{host}:{port}?latency=300ms&reconnect=off");
    let mut receive = command(&["recv", &uri(""), "-"]);
    receive.stdout(Stdio::piped());
    let mut receiver = Running::start(receive);
    receiver.until_it_says("listening at");
    let _sender = timeous(&["send", CLIP, &uri("127.0.0.1")]);
    receiver.until_it_says("pictures:");
    // The pipe holds 64 kB, a fifth of a second of the clip, and nobody reads it.
    sleep(Duration::from_secs(2));
    assert_second_signal_ends(&mut receiver);
}

/// Interrupts a program that has something to wait for, twice.
#[track_caller]
fn assert_second_signal_ends(program: &mut Running) {
    program.signal(Signal::INT);
    sleep(Duration::from_millis(500));
    assert!(program.is_alive(), "the first signal ends it in order: {}", program.errors());
    program.signal(Signal::TERM);
    program.ends_with(130);
}

#[test]
fn a_reader_of_the_pipe_that_goes_away_is_told() {
    let port = free_port();
    let mut receive =
        crate::support::command(&["recv", &format!("timeous://:{port}?latency=3s&timeout=2s&reconnect=off"), "-"]);
    receive.stdout(std::process::Stdio::piped());
    let mut receiver = Running::start(receive);
    receiver.until_it_says("listening at");
    drop(receiver.output());
    let mut sender =
        timeous(&["send", CLIP, &format!("timeous://127.0.0.1:{port}?latency=3s&timeout=2s&reconnect=off")]);
    let said = receiver.ends_with(4);
    assert!(said.contains("standard output") && said.contains("Broken pipe"), "{said}");
    sender.ends_with(5);
}

#[test]
fn a_receiver_that_nobody_has_called_can_be_ended() {
    let files = Files::new();
    let port = free_port();
    let mut receiver = timeous(&["recv", &format!("timeous://:{port}"), &files.path("out.h264")]);
    until("it listens", || !crate::support::is_free(port) || !receiver.is_alive());
    // Not SIGINT: shells without a terminal make background jobs ignore it, and tests run there, too.
    receiver.signal(Signal::TERM);
    receiver.end();
}

/// `| head` ended the emulator with a panic, and 101.
#[test]
fn a_summary_that_nobody_reads_is_no_error() {
    let [listen, to] = [(); 2].map(|()| free_port());
    let [listen_at, to] = [listen, to].map(|port| format!("127.0.0.1:{port}"));
    let mut command = command(&["emulate", "--listen", &listen_at, "--to", &to]);
    command.stdout(Stdio::piped());
    let mut link = Running::start(command);
    until("the emulator listens", || !is_free(listen) || !link.is_alive());
    drop(link.read());
    link.stop();
}
