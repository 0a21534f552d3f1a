//! Calls on UDP sockets under `timeous run`: each does what it does without, and what is sent arrives.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use crate::support::{Running, done, free_ports, program, run, skip};

/// Longest wait for something that must come; only failing tests wait so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// The program of these tests; `None` without a compiler.
fn calls(test: &str) -> Option<PathBuf> {
    let program = program("calls", &["-lpthread"]);
    if program.is_none() {
        skip(test, "cc");
    }
    program
}

/// Runs a case between two programs, and returns what the receiver at each of the following ports prints, a datagram a line.
fn transfer(program: &Path, case: &str, wanted: &[usize]) -> Vec<Vec<String>> {
    let port = free_ports();
    let feedback = format!("--feedback-port={}", free_ports());
    // On a busy machine the receiver may be found late.
    let words = ["--loopback", "--latency=5s", &feedback, program.to_str().unwrap()];
    let receivers: Vec<(Running, Receiver<String>)> = (port..)
        .zip(wanted)
        .map(|(port, wanted)| {
            let mut command = run(&words);
            command.args(["receive", &port.to_string(), &wanted.to_string()]).stdout(Stdio::piped());
            let mut receiver = Running::start(&mut command);
            let lines = receiver.lines();
            assert_eq!(lines.recv_timeout(PATIENCE).as_deref(), Ok("ready"));
            (receiver, lines)
        })
        .collect();
    done(run(&words).args([case, &port.to_string()]));
    let all = |(at, (_, lines)): (usize, &(Running, Receiver<String>))| {
        let next =
            |number| lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{case}: number {number} of port {at}"));
        (0..wanted[at]).map(next).collect()
    };
    receivers.iter().enumerate().map(all).collect()
}

fn numbers(lines: &[String]) -> Vec<u32> {
    lines.iter().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn all_forms_of_sending_and_receiving_keep_datagrams_whole_and_in_order() {
    let Some(program) = calls("all_forms") else { return };
    let lines = transfer(&program, "forms", &[42]).remove(0);
    assert_eq!(numbers(&lines), (0..42).collect::<Vec<_>>());
    // Control messages go with their datagrams, and others have none.
    let with_ttl: Vec<usize> = (0..42).filter(|&place| lines[place].ends_with("ttl")).collect();
    assert_eq!(with_ttl, (0..42).filter(|place| place % 7 == 4 && place % 6 == 4).collect::<Vec<_>>());
}

/// The receiver reports whatever call it receives by: else some datagrams would count as lost.
#[test]
fn all_forms_of_receiving_are_reported() {
    let Some(program) = calls("all_forms_of_receiving") else { return };
    let port = free_ports().to_string();
    let feedback = format!("--feedback-port={}", free_ports());
    let words = ["--loopback", "--stats", &feedback, program.to_str().unwrap()];
    let mut receiver = Running::start(run(&words).args(["receive", &port, "1000"]).stdout(Stdio::piped()));
    let lines = receiver.lines();
    assert_eq!(lines.recv_timeout(PATIENCE).as_deref(), Ok("ready"));
    let slow = |_| String::from_utf8(done(run(&words).args(["slow", &port])).stderr).unwrap();
    // On a busy machine the receiver may be found too late; it takes three times as many datagrams.
    let told = (0..3).map(slow).find(|told| !told.contains("arrived unknown"));
    let told = told.expect("the receiver is found in one of three tries");
    let number = |name: &str| -> u32 {
        let after = told.split(name).nth(1).unwrap_or_else(|| panic!("{name} in {told}"));
        after.split(',').next().unwrap().trim().parse().unwrap()
    };
    // Some of the first twenty come before the subscription.
    let (sent, arrived) = (number("sent"), number("arrived"));
    assert!(sent == 256 && arrived >= 240, "{told}");
}

#[test]
fn what_is_queued_leaves_when_the_program_ends_or_becomes_another() {
    let Some(program) = calls("what_is_queued") else { return };
    for case in ["exit", "exec"] {
        let lines = transfer(&program, case, &[30]).remove(0);
        assert_eq!(numbers(&lines), (0..30).collect::<Vec<_>>(), "{case}");
    }
}

#[test]
fn what_is_queued_leaves_after_its_socket_was_closed_and_its_number_was_reused() {
    let Some(program) = calls("closed") else { return };
    let lines = transfer(&program, "close", &[40]).remove(0);
    assert_eq!(numbers(&lines), (0..40).collect::<Vec<_>>());
}

#[test]
fn parent_and_child_send_each_on_its_own() {
    let Some(program) = calls("fork") else { return };
    let lines = transfer(&program, "fork", &[108]).remove(0);
    let all = numbers(&lines);
    let parent: Vec<_> = all.iter().copied().filter(|&number| number < 58).collect();
    let child: Vec<_> = all.iter().copied().filter(|&number| number >= 58).collect();
    assert_eq!((parent, child), ((0..58).collect(), (58..108).collect()), "nothing is sent twice");
}

#[test]
fn threads_share_a_socket() {
    let Some(program) = calls("threads") else { return };
    let mut all = numbers(&transfer(&program, "threads", &[100]).remove(0));
    let of_first: Vec<_> = all.iter().copied().filter(|&number| number < 25).collect();
    assert!(of_first.is_sorted());
    all.sort_unstable();
    assert_eq!(all, (0..100).collect::<Vec<_>>());
}

#[test]
fn a_socket_can_be_connected_while_datagrams_wait() {
    let Some(program) = calls("connect") else { return };
    let lines = transfer(&program, "connect", &[40, 20]);
    assert_eq!(numbers(&lines[0]), (0..20).chain(40..60).collect::<Vec<_>>());
    assert_eq!(numbers(&lines[1]), (20..40).collect::<Vec<_>>());
}

#[test]
fn signal_handlers_may_write_and_send() {
    let Some(program) = calls("signals") else { return };
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = receiver.local_addr().unwrap().port().to_string();
    let rate = ["--loopback", "--rate", "10M", program.to_str().unwrap(), "signals", &port];
    done(&mut run(&rate));
}

#[test]
fn a_full_queue_is_told_and_what_grows_too_old_makes_room() {
    let Some(program) = calls("full") else { return };
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = receiver.local_addr().unwrap().port().to_string();
    let words = ["--loopback", "--stats", "--latency", "100ms", program.to_str().unwrap(), "full", &port];
    let output = done(&mut run(&words));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "full EAGAIN\nfull EAGAIN\n1000\n");
    let told = String::from_utf8_lossy(&output.stderr);
    let expired = told.split("expired ").nth(1).and_then(|rest| rest.split(',').next()).map(str::parse::<u32>);
    assert!(matches!(expired, Some(Ok(1..))), "{told}");
}

#[test]
fn calls_that_fail_fail_as_without() {
    let Some(program) = calls("refusals") else { return };
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = receiver.local_addr().unwrap().port().to_string();
    let plain = done(Command::new(&program).args(["refusals", &port])).stdout;
    let controlled = done(run(&["--loopback", program.to_str().unwrap()]).args(["refusals", &port])).stdout;
    assert_eq!(String::from_utf8_lossy(&controlled), String::from_utf8_lossy(&plain));
    assert!(!plain.is_empty());
}
