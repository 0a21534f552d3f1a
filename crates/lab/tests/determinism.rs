//! One seed gives one result, byte for byte, whatever else the machine does.

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

fn lab(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_timeous-lab")).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

/// The experiments that have a virtual form.
fn in_virtual_time() -> Vec<String> {
    let list = lab(&["list"]);
    let names = list.lines().filter(|line| line.contains(" virtual")).map(|line| line.split(' ').next().unwrap());
    names.map(str::to_owned).collect()
}

fn findings(name: &str, seed: &str) -> String {
    lab(&[name, "--seed", seed, "--seeds", "1", "--json"])
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_a_busy_machine_too() {
    let names = in_virtual_time();
    assert!(!names.is_empty());
    for name in names {
        let quiet = findings(&name, "1");
        let busy = [Busy::start(), Busy::start()];
        let loaded = findings(&name, "1");
        drop(busy);
        assert_eq!(quiet, loaded, "{name} is not the same beside a busy process");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_again_and_another_seed_others() {
    let first = findings("lai-age", "1");
    assert_eq!(first, findings("lai-age", "1"));
    assert_ne!(first, findings("lai-age", "2"), "the seed is of no consequence");
}
