//! Tests of the C examples: compiled as by a reader, and run against a receiver that acknowledges.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Stdio};

use timeous::core::Duration;

use crate::build::{Way, command, program};
use crate::installed::run;
use crate::peer::{Path, Peer};

/// Runs an example; the numbers that it says.
#[track_caller]
fn example(name: &str, way: Way, port: &str, amount: u64) -> BTreeMap<String, u64> {
    let program = program(&format!("examples/{name}.c"), way);
    let words = run(command(&program).args(["127.0.0.1", port, &amount.to_string()]));
    let words: Vec<&str> = words.split_whitespace().collect();
    words.chunks(2).map(|pair| (pair[0].to_owned(), pair[1].parse().unwrap())).collect()
}

/// So few that a receiver which gets no turn for a while still has room for a window of them.
const PACKETS: u64 = 100;

/// A second: while a busy machine makes round trips long, the path carries one layer.
const TICKS: u64 = 100;

const CLEAR: Path = Path { rtt: Duration::from_millis(5), lost: 0 };
const LOSSY: Path = Path { rtt: Duration::from_millis(5), lost: 20 };

#[test]
fn request_and_callback() {
    needs_toolchain!();
    for way in [Way::C, Way::Cpp, Way::Static, Way::Sanitized] {
        let peer = Peer::start(CLEAR);
        let said = example("alf", way, &peer.port(), PACKETS);
        assert_eq!(said["sent"], PACKETS * 1_200);
        assert_eq!((said["acked"], peer.arrived()), (said["sent"], said["sent"]));
        assert!(said["srtt_us"] >= 5_000, "{said:?}");
        assert!(said["rate_kbps"] > 0, "{said:?}");
    }
}

#[test]
fn what_is_lost_is_told_and_the_sender_goes_on() {
    needs_toolchain!();
    let peer = Peer::start(LOSSY);
    let said = example("alf", Way::C, &peer.port(), 300);
    assert_eq!(said["sent"], 300 * 1_200);
    assert_eq!(peer.arrived(), 285 * 1_200);
    // The last packet is one of the lost ones, and told of by a timeout.
    assert_eq!(said["acked"], peer.arrived());
}

#[test]
fn rate_callback() {
    needs_toolchain!();
    for way in [Way::C, Way::Cpp, Way::Sanitized] {
        let peer = Peer::start(CLEAR);
        let said = example("rate", way, &peer.port(), TICKS);
        assert!(said["changes"] >= 1 && said["layers"] >= 2, "{said:?}");
        assert!(said["sent"] > TICKS * 500, "more than its first layer: {said:?}");
    }
}

#[test]
fn the_own_loop_of_the_library() {
    needs_toolchain!();
    for way in [Way::C, Way::Cpp, Way::Sanitized] {
        let peer = Peer::start(CLEAR);
        let said = example("loop", way, &peer.port(), PACKETS);
        assert_eq!((said["sent"], said["acked"]), (PACKETS * 1_000, PACKETS * 1_000));
    }
}

#[test]
fn the_own_loop_ends_without_an_answer_for_the_last_packet() {
    needs_toolchain!();
    let peer = Peer::start(LOSSY);
    let said = example("loop", Way::C, &peer.port(), PACKETS);
    assert_eq!((said["sent"], said["acked"]), (PACKETS * 1_000, peer.arrived()));
}

/// Ends a program that runs for ever.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_receiver_of_the_examples_acknowledges() {
    needs_toolchain!();
    // Free a moment ago: the receiver takes it by number.
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let mut receiver = command(&program("examples/receiver.c", Way::C));
    let mut receiver = Running(receiver.arg(&port).stdout(Stdio::piped()).spawn().unwrap());
    let mut ready = String::new();
    BufReader::new(receiver.0.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert_eq!(ready, "listening\n");
    let said = example("alf", Way::C, &port, PACKETS);
    assert_eq!((said["sent"], said["acked"]), (PACKETS * 1_200, PACKETS * 1_200));
}
