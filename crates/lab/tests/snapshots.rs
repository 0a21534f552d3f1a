//! Snapshot tests: the output of every experiment in virtual time; a change of behaviour shows as a difference.
//!
//! A bound or an aim that does not hold fails the test, unless it is in the list of expected failures
//! (`expected_failures.csv`), and so does an entry of that list whose bound holds.
//!
//! After an intended change, `INSTA_UPDATE=always cargo test -p timeous-lab --test snapshots` updates them.

mod virtual_experiments;

use std::path::Path;
use std::process::{Command, Output};

use virtual_experiments::for_each_virtual_experiment;

/// Makes a test of each experiment that is named.
macro_rules! snapshots {
    ($($test:ident: $name:literal,)*) => {
        $(
            #[test]
            fn $test() {
                let output = lab(&arguments($name));
                let said = String::from_utf8_lossy(&output.stderr);
                let code = output.status.code();
                assert!(matches!(code, Some(0 | 1)), "{said}");
                insta::assert_snapshot!($name, String::from_utf8(output.stdout).unwrap());
                assert_eq!(code, Some(0), "{said}");
            }
        )*
        /// Experiments with a snapshot.
        const NAMES: &[&str] = &[$($name),*];
    };
}

for_each_virtual_experiment!(snapshots);

/// Arguments of an experiment: one seed for those that are slow without optimization.
fn arguments(name: &str) -> Vec<&str> {
    let mut arguments = vec![name, "--seed", "1", "--strict"];
    if ["bloat", "narrow"].contains(&name) {
        arguments.extend(["--extent", "small"]);
    }
    let long = [
        "arrivals",
        "cm-loss",
        "cm-ensemble",
        "cm-trust",
        "tfrc-fair",
        "tfrc-step",
        "bloat",
        "narrow",
        "short-queues",
        "short-beside",
        "encryption",
    ];
    if long.contains(&name) || ["dbat-", "tl-", "ldc-"].iter().any(|kind| name.starts_with(kind)) {
        arguments.extend(["--seeds", "1"]);
    }
    arguments
}

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_timeous-lab")).args(arguments).output().unwrap()
}

#[test]
fn every_experiment_in_virtual_time_has_a_snapshot() {
    let list = String::from_utf8(lab(&["list"]).stdout).unwrap();
    let named: Vec<&str> =
        list.lines().filter(|line| line.contains(" virtual")).map(|line| line.split(' ').next().unwrap()).collect();
    for name in &named {
        assert!(NAMES.contains(name), "{name} has no line in snapshots.rs");
        let path = format!("{}/tests/snapshots/snapshots__{name}.snap", env!("CARGO_MANIFEST_DIR"));
        assert!(Path::new(&path).is_file(), "{name} has not been looked at yet");
    }
    assert_eq!(named.len(), NAMES.len(), "a snapshot of something that is not there");
}
