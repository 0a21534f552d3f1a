//! Many callers of one port: honest, silent, hostile and too many ones; receivers that join, lag and leave.

use std::net::UdpSocket;
use std::thread;

use rustix::process::Signal;
use timeous::core::Duration;
use timeous::{Hints, clock};

use crate::pictures::{annexb, field, field_pictures, first_slices};
use crate::recorded::Recorded;
use crate::support::{Files, Running, free_port, is_installed, skip, sleep, timeous};
use crate::watched::{as_sent, send_to};

const PLAIN: &str = "plain25.h264";
/// Longer than a busy machine stands still, with a flood of packets beside: every frame counts.
const LATENCY_MS: u64 = 3_000;

fn record(port: u16, sink: &str) -> Running {
    let uri = format!("timeous://127.0.0.1:{port}?mode=listener&latency={LATENCY_MS}ms");
    let mut receiver = timeous(&["recv", &uri, sink]);
    receiver.until_it_says("listening at");
    receiver
}

/// First datagram of a real caller.
fn request() -> Vec<u8> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut sender = send_to(socket.local_addr().unwrap().port(), LATENCY_MS, &field(PLAIN), &[]);
    let mut buffer = vec![0; 1 << 16];
    let len = socket.recv(&mut buffer).unwrap();
    sender.kill();
    buffer.truncate(len);
    buffer
}

/// Floods a port for `time` with half-open calls from many addresses, and with invalid packets.
fn flood(port: u16, time: Duration) {
    let (request, end) = (request(), clock::now() + time);
    let sockets: Vec<UdpSocket> = (0..200).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    while clock::now() < end {
        for (socket, noise) in sockets.iter().zip(0..) {
            // Send errors do not matter.
            let _ = socket.send_to(&request, ("127.0.0.1", port));
            let _ = socket.send_to(&[noise; 60], ("127.0.0.1", port));
        }
        sleep(Duration::from_millis(20));
    }
}

/// Calls, and sends for `time` data that is neither RTP nor RTCP, or only begins like it.
fn garbage(port: u16, time: Duration) {
    let uri = format!("timeous://127.0.0.1:{port}?latency={LATENCY_MS}ms").parse().unwrap();
    let (mut sender, _receiver) = timeous::open_both(&uri).unwrap();
    let end = clock::now() + time;
    let mut byte = 1u8;
    while clock::now() < end {
        byte = byte.wrapping_mul(5).wrapping_add(1);
        for first in [byte, 0x80] {
            let bytes: Vec<u8> = (0..400).map(|at| if at == 0 { first } else { byte ^ at as u8 }).collect();
            // A full ring or the end of the stream are both fine.
            let _ = sender.send(&bytes, Hints::default());
        }
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn seven_honest_callers_beside_three_others_are_recorded_whole() {
    const TEST: &str = "seven_honest_callers_beside_three_others_are_recorded_whole";
    if !is_installed("ffmpeg") || !is_installed("ffprobe") {
        return skip(TEST, "ffmpeg and ffprobe");
    }
    let (files, port) = (Files::new(), free_port());
    let mut receiver = record(port, &files.path("out-%n.mp4"));
    let silent = send_to(port, LATENCY_MS, "-", &[]);
    let time = Duration::from_secs(5);
    let others = [thread::spawn(move || flood(port, time)), thread::spawn(move || garbage(port, time))];
    sleep(Duration::from_millis(300));
    let mut honest: Vec<Running> = (0..7).map(|_| send_to(port, LATENCY_MS, &field(PLAIN), &[])).collect();
    for sender in &mut honest {
        sender.ends_with(0);
    }
    for other in others {
        other.join().unwrap();
    }
    drop(silent);
    // The garbage, too, ends as a stream with nothing to keep, which once ended the recordings of all others.
    receiver.until_ended(honest.len() + 1);
    let said = receiver.stop();
    assert!(!said.contains("panicked"), "{said}");
    let made =
        (1..=10).map(|number| files.path(&format!("out-{number}.mp4"))).filter(|path| std::fs::exists(path).unwrap());
    let counts: Vec<usize> = made.map(|path| Recorded::mp4(&path).times.len()).collect();
    assert_eq!(counts, [75; 7], "{said}");
}

/// The whole receiver ended, and with it everybody's recording.
#[test]
fn a_caller_whose_stream_the_sink_does_not_take_ends_no_other() {
    let (files, port) = (Files::new(), free_port());
    let mut receiver = record(port, &files.path("out-%n.h264"));
    let mut honest = send_to(port, LATENCY_MS, &field(PLAIN), &[]);
    receiver.until_it_says("connected");
    // Raw H.265, which is sent as MPEG-TS: no sink of H.264 takes it.
    let unsuitable = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/small.h265");
    let mut other = send_to(port, LATENCY_MS, unsuitable, &[]);
    receiver.until_it_says("the sender's stream is MPEG-TS");
    honest.ends_with(0);
    other.kill();
    receiver.until_ended(1);
    let said = receiver.stop();
    assert!(said.contains("75 in time"), "{said}");
    let made = (1..=3).filter(|number| std::fs::exists(files.path(&format!("out-{number}.h264"))).unwrap());
    assert_eq!(made.collect::<Vec<_>>(), [1], "{said}");
}

#[test]
fn after_a_caller_whose_stream_the_sink_does_not_take_comes_the_next() {
    let (files, port) = (Files::new(), free_port());
    let sink = files.path("out.h264");
    let mut receiver = record(port, &sink);
    let unsuitable = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/small.h265");
    let mut other = send_to(port, LATENCY_MS, unsuitable, &[]);
    receiver.until_it_says("the sender's stream is MPEG-TS");
    other.kill();
    let mut honest = send_to(port, LATENCY_MS, &field(PLAIN), &[]);
    honest.ends_with(0);
    receiver.until_ended(1);
    let said = receiver.stop();
    assert_eq!(first_slices(&std::fs::read(&sink).unwrap()).len(), 75, "{said}");
}

#[test]
fn a_second_caller_is_told_at_once_that_another_is_served_and_waits_for_its_turn() {
    let (files, port) = (Files::new(), free_port());
    let sink = files.path("out.h264");
    let mut receiver = record(port, &sink);
    let pictures: Vec<_> = field_pictures(PLAIN).into_iter().cycle().take(125).collect();
    let source = files.write("source.h264", &pictures.iter().flat_map(annexb).collect::<Vec<u8>>());
    let mut first = send_to(port, LATENCY_MS, &source, &[]);
    receiver.until_it_says("connected");
    let mut second = send_to(port, LATENCY_MS, &field("sps-trailing.h264"), &[]);
    second.until_it_says("serving another caller");
    assert!(first.is_alive(), "it is told while the other is served");
    first.ends_with(0);
    let ended = clock::now();
    second.ends_with(0);
    let waited = clock::now() - ended;
    assert!(waited < Duration::from_secs(2 + 10), "a stream of two seconds is over after {waited:?}");
    receiver.until_ended(2);
    let said = receiver.stop();
    let stream = std::fs::read(&sink).unwrap();
    let seen: Vec<Vec<u8>> = first_slices(&stream).into_iter().map(|(_, slice)| slice.to_vec()).collect();
    let sent = [pictures, field_pictures("sps-trailing.h264")].concat();
    let sent: Vec<Vec<u8>> = as_sent(&sent).into_iter().map(|sent| sent.slice).collect();
    assert_eq!(seen.len(), sent.len(), "{said}");
    assert!(seen == sent, "the second is behind the first");
}

#[test]
fn receivers_that_join_late_or_stand_still_cost_the_others_nothing() {
    let (files, port) = (Files::new(), free_port());
    let pictures: Vec<_> = field_pictures(PLAIN).into_iter().cycle().take(200).collect();
    let source = files.write("source.h264", &pictures.iter().flat_map(annexb).collect::<Vec<u8>>());
    let mut sender =
        timeous(&["send", &source, &format!("timeous://127.0.0.1:{port}?mode=listener&latency={LATENCY_MS}ms")]);
    sender.until_it_says("waiting for receivers");
    let receive = |name: &str| {
        let uri = format!("timeous://127.0.0.1:{port}?latency={LATENCY_MS}ms&reconnect=off");
        timeous(&["recv", &uri, &files.path(name)])
    };
    let mut whole = receive("whole.h264");
    whole.until_it_says("connected");
    let mut still = receive("still.h264");
    still.until_it_says("connected");
    sleep(Duration::from_secs(2));
    still.signal(Signal::STOP);
    sleep(Duration::from_secs(1));
    let mut late = receive("late.h264");
    let began = clock::now();
    whole.ends_with(0);
    late.ends_with(0);
    assert!(clock::now() - began < Duration::from_secs(20), "they wait for the one that stands still");
    still.kill();
    sender.end();
    let slices = |name: &str| -> Vec<Vec<u8>> {
        let stream = std::fs::read(files.path(name)).unwrap();
        first_slices(&stream).into_iter().map(|(_, slice)| slice.to_vec()).collect()
    };
    let sent: Vec<Vec<u8>> = as_sent(&pictures).into_iter().map(|sent| sent.slice).collect();
    let said = sender.errors();
    assert_eq!(slices("whole.h264").len(), 200, "{said}");
    assert!(slices("whole.h264") == sent);
    // It joined after three seconds, and had to wait for the next keyframe.
    let late = slices("late.h264");
    assert!((75..=130).contains(&late.len()) && late.len() % 25 == 0, "{}: {said}", late.len());
    assert!(late == sent[200 - late.len()..], "it has all from a keyframe on");
}
