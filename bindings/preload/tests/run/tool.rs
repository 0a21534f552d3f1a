//! The tool `timeous run`: exit status, signals, messages, and programs that it refuses.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Running, done, free_ports, made, program, run, skip, sleep, tool};

/// Standard error of a command that must end with this exit code.
#[track_caller]
fn fails(command: &mut Command, code: i32) -> String {
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{told}");
    told
}

#[test]
fn the_program_takes_the_tools_place() {
    fails(&mut run(&["sh", "-c", "exit 7"]), 7);
    let output = done(&mut run(&["sh", "-c", "echo $0 $1", "a b", "--help"]));
    assert_eq!(output.stdout, b"a b --help\n");
    let mut sleeper = Running::start(run(&["sleep", "60"]).stderr(Stdio::piped()));
    while !fs::read_to_string(format!("/proc/{}/comm", sleeper.0.id())).unwrap().starts_with("sleep") {
        sleep(10);
    }
    kill_process(Pid::from_child(&sleeper.0), Signal::TERM).unwrap();
    assert_eq!(sleeper.0.wait().unwrap().signal(), Some(15), "it got the signal itself");
}

#[test]
fn programs_that_load_no_library_are_refused_and_missing_ones_named() {
    assert!(fails(&mut run(&["no-such-program"]), 4).contains("no-such-program"));
    assert!(fails(&mut run(&["--latency", "soon", "true"]), 2).contains("--latency"));
    match program("calls", &["-static", "-lpthread"]) {
        Some(calls) => {
            assert!(fails(&mut run(&[calls.to_str().unwrap(), "exit", "9"]), 2).contains("linked statically"));
        }
        None => skip("programs_that_load_no_library", "cc"),
    }
}

#[test]
fn a_missing_library_is_said_and_another_place_can_be_named() {
    let alone = made().join("timeous-alone");
    fs::create_dir_all(&alone).unwrap();
    let copy = alone.join("timeous");
    // Not copied: a file that is written while another test starts a program cannot be run.
    let _ = fs::remove_file(&copy);
    fs::hard_link(tool(), &copy).unwrap();
    assert!(fails(Command::new(&copy).args(["run", "true"]), 4).contains("make install"));
    let library = tool().parent().unwrap().join("../lib/timeous/libtimeous_run.so");
    done(Command::new(&copy).args(["run", "true"]).env("TIMEOUS_RUN_LIBRARY", &library));
    assert!(
        fails(Command::new(&copy).args(["run", "true"]).env("TIMEOUS_RUN_LIBRARY", "/nowhere"), 4).contains("/nowhere")
    );
}

#[test]
fn without_reports_a_line_says_what_to_do() {
    let Some(calls) = program("calls", &["-lpthread"]) else { return skip("without_reports", "cc") };
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = receiver.local_addr().unwrap().port().to_string();
    // With datagrams that may wait for three seconds the program lives longer than the receiver is asked.
    let shell = format!("{} full {port}; {} full {port}", calls.display(), calls.display());
    let told = done(&mut run(&["--loopback", "--latency", "3s", "sh", "-c", &shell])).stderr;
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains("sends no reports") && told.contains("--rate"), "{told}");
    let told = done(&mut run(&["--loopback", "--latency", "3s", "--rate", "1M", "sh", "-c", &shell])).stderr;
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains("keeps the rate of --rate, 1000 kbit/s"), "{told}");
}

/// A sender without reports, beside one with reports to the same host: the daemon's manager knows the path.
#[test]
fn without_reports_a_program_follows_what_others_learn_through_the_daemon() {
    let Some(calls) = program("calls", &["-lpthread"]) else { return skip("others_learn", "cc") };
    let calls = calls.to_str().unwrap();
    let socket = made().join(format!("run-{}.sock", std::process::id()));
    let mut daemon = Command::new(tool());
    daemon.args(["daemon", "--no-store", "--socket"]).arg(&socket).stderr(Stdio::null());
    let _daemon = Running::start(&mut daemon);
    while !socket.exists() {
        sleep(10);
    }
    let feedback = format!("--feedback-port={}", free_ports());
    let controlled = |case: &str, port: u16, more: &[&str]| {
        let mut command = run(&["--loopback", &feedback, "--latency", "3s", calls, case, &port.to_string()]);
        command.args(more).env("TIMEOUS_SOCKET", &socket).stdout(Stdio::piped());
        command
    };
    let port = free_ports();
    let mut receiver = Running::start(&mut controlled("receive", port, &["1000000"]));
    let lines = receiver.lines();
    assert_eq!(lines.recv().as_deref(), Ok("ready"));
    let _known = Running::start(&mut controlled("steady", port, &[]));
    // Until it has reports.
    sleep(1_000);
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let told = done(&mut controlled("full", silent.local_addr().unwrap().port(), &[])).stderr;
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains("follows what other flows learn of the path"), "{told}");
}
