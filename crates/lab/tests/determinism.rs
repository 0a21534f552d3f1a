//! Tests of determinism: one seed gives one result, byte for byte, whatever else the machine does.
//!
//! These tests run the quick experiments several times. The slow ones are covered by their snapshots, whose tests run
//! in parallel on all cores.

use std::process::{Child, Command, Stdio};

/// A process that computes for nothing until it is dropped, or has used up a minute of a core.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -t 60; while :; do :; done"]).stdin(Stdio::null());
        Self(shell.spawn().expect("there is a shell"))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn findings(name: &str, seed: &str) -> String {
    let arguments = [name, "--seed", seed, "--seeds", "1", "--json"];
    let output = Command::new(env!("CARGO_BIN_EXE_timeous-lab")).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

/// One process for each core and one more, so that whatever runs beside them is pushed about.
fn beside_busy_processes(name: &str, seed: &str) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let _busy: Vec<Busy> = (0..=cores).map(|_| Busy::start()).collect();
    findings(name, seed)
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let first = findings("lai-age", "1");
    assert_eq!(first, findings("lai-age", "1"));
    assert_eq!(first, beside_busy_processes("lai-age", "1"));
    assert_ne!(first, findings("lai-age", "2"), "the seed is of no consequence");
}

#[test]
fn what_is_counted_is_the_same_on_a_busy_machine() {
    for name in ["lai-overhead", "lai-notify"] {
        assert_eq!(findings(name, "1"), beside_busy_processes(name, "1"), "{name}");
    }
}
