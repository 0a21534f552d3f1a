//! Tests that the experiments can fail: each is run as it is and with each of its sabotages, and the claims that are listed for
//! a sabotage have to fall. `-- --nocapture` shows the claims that fell.

mod virtual_experiments;

use std::process::{Command, Output};

use virtual_experiments::for_each_virtual_experiment;

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

for_each_virtual_experiment!(sabotages);

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
    for wrong in [&["cm-vat", "--sabotage", "nothing-of-the-kind"][..], &["sabotages", "x"]] {
        assert_eq!(lab(wrong).status.code(), Some(2), "{wrong:?}");
    }
}
