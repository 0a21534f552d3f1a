//! Tests of `utl.h`: both ends in C, and a sender in C with a plain TCP receiver.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::build::{Way, command, program};
use crate::installed::{is_skipped, run};

const WAYS: [Way; 4] = [Way::C, Way::Cpp, Way::Static, Way::Sanitized];

/// Free a moment ago.
fn port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

#[test]
fn what_is_sent_is_received_and_what_cannot_be_is_an_error() {
    needs_toolchain!();
    for way in WAYS {
        run(command(&program("tests/programs/datagrams.c", way)).arg(port()));
    }
}

/// Waits until a program listens at this TCP port, as the kernel's tables tell: who calls before is refused.
fn until_listening(port: &str) {
    /// TCP_LISTEN in the column `st` (proc(5)).
    const LISTEN: &str = "0A";
    let port = format!(":{:04X}", port.parse::<u16>().unwrap());
    let listens = |table: &str| {
        let table = std::fs::read_to_string(table).unwrap_or_default();
        table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|columns| {
            columns.get(1).is_some_and(|local| local.ends_with(&port)) && columns.get(3) == Some(&LISTEN)
        })
    };
    for _ in 0..3_000 {
        if ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().any(listens) {
            return;
        }
        #[expect(clippy::disallowed_methods, reason = "another process is waited for, and it has nothing to wait on")]
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("nobody listens at {port}");
}

/// Runs a receiver, and the example with it: the receiver's lines.
fn streamed(receiver: &mut Command, port: &str, way: Way) -> Vec<String> {
    let receiver = receiver.stdout(Stdio::piped()).spawn().unwrap();
    until_listening(port);
    let said = run(command(&program("examples/utl_send.c", way)).args(["127.0.0.1", port, "30"]));
    assert_eq!(said, "acked 60 lost 0 dropped 0\n");
    let output = receiver.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_examples_stream_to_each_other() {
    needs_toolchain!();
    for way in WAYS {
        let port = port();
        let lines = streamed(command(&program("examples/utl_recv.c", way)).arg(&port), &port, way);
        let sent = (0..30)
            .flat_map(|n| [format!("2 1000 frame {n}"), format!("4 {} control {n}", format!("control {n}").len())]);
        assert!(lines.iter().eq(&sent.collect::<Vec<_>>()), "{lines:?}");
    }
}

#[test]
fn a_receiver_with_a_plain_socket_reads_what_c_sends() {
    needs_toolchain!();
    if is_skipped(&["python3"]) {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/timeous/examples/receive_records.py");
    let port = port();
    let lines = streamed(Command::new("python3").arg(script).arg(&port), &port, Way::C);
    let words: Vec<String> = lines
        .iter()
        .map(|line| {
            let bytes =
                line.as_bytes().chunks(2).map(|hex| u8::from_str_radix(str::from_utf8(hex).unwrap(), 16).unwrap());
            String::from_utf8(bytes.take_while(|&byte| byte != 0).collect()).unwrap()
        })
        .collect();
    let sent: Vec<_> = (0..30).flat_map(|n| [format!("frame {n}"), format!("control {n}")]).collect();
    assert_eq!(words, sent);
}
