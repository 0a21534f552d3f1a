//! Tests that the experiments can fail: each is run as it is and with each of its sabotages, and the claims that are listed for
//! a sabotage have to fall. `-- --nocapture` shows the claims that fell.

use std::process::{Command, Output};

/// Makes a test of each experiment that is named.
macro_rules! sabotages {
    ($($test:ident: $name:literal,)*) => {
        $(
            #[test]
            fn $test() {
                let output = lab(&["sabotages", $name]);
                let [proved, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
                println!("{proved}");
                assert_eq!(output.status.code(), Some(0), "{proved}{said}");
                assert!(proved.contains("    fell: "), "{proved}");
            }
        )*
        /// Experiments with sabotages.
        const NAMES: &[&str] = &[$($name),*];
    };
}

sabotages! {
    lai_overhead: "lai-overhead",
    lai_notify: "lai-notify",
    lai_age: "lai-age",
    lai_iframes: "lai-iframes",
    cm_loss: "cm-loss",
    cm_layers: "cm-layers",
    cm_vat: "cm-vat",
    cm_trust: "cm-trust",
    cm_ensemble: "cm-ensemble",
    cm_sharing: "cm-sharing",
    tl_datagrams: "tl-datagrams",
    tl_timelines: "tl-timelines",
    tl_dependencies: "tl-dependencies",
    tl_fairness: "tl-fairness",
    tl_middleboxes: "tl-middleboxes",
    dbat_buffering: "dbat-buffering",
    dbat_throughput: "dbat-throughput",
    dbat_latency: "dbat-latency",
    dbat_loss: "dbat-loss",
    short_queues: "short-queues",
    short_beside: "short-beside",
    tfrc_fair: "tfrc-fair",
    tfrc_step: "tfrc-step",
    ldc_rate: "ldc-rate",
    ldc_layers: "ldc-layers",
    ldc_playout: "ldc-playout",
    tcp_formula: "tcp-formula",
    tcp_sharing: "tcp-sharing",
    tcp_cubic: "tcp-cubic",
    bloat: "bloat",
    encryption: "encryption",
}

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_timeous-lab")).args(arguments).output().unwrap()
}

#[test]
fn every_experiment_in_virtual_time_has_sabotages() {
    let list = String::from_utf8(lab(&["list"]).stdout).unwrap();
    let named: Vec<&str> =
        list.lines().filter(|line| line.contains(" virtual")).map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(named, NAMES);
    let list = String::from_utf8(lab(&["sabotages", "--list"]).stdout).unwrap();
    for name in named {
        assert!(list.contains(&format!("{name} --sabotage ")), "{name} has no sabotage");
    }
}

#[test]
fn a_sabotage_is_shown_and_an_unknown_one_is_usage() {
    let output = lab(&["cm-vat", "--seeds", "1", "--sabotage", "silent"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("Sabotage silent: the application sends nothing"), "{text}");
    for wrong in [&["cm-vat", "--sabotage", "nothing-of-the-kind"][..], &["sabotages", "cm-cpu"], &["sabotages", "x"]] {
        assert_eq!(lab(wrong).status.code(), Some(2), "{wrong:?}");
    }
}
