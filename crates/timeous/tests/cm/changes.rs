//! Test of the lines that an application changes to use the Congestion Manager: below a hundred, as for vat (§3.6).

use similar::{ChangeTag, TextDiff};

macro_rules! example {
    ($name:literal) => {
        include_str!(concat!("../../examples/", $name, ".rs"))
    };
}

/// Lines that were taken out or put in.
fn changed(plain: &str, with_manager: &str) -> usize {
    let diff = TextDiff::from_lines(plain, with_manager);
    diff.iter_all_changes().filter(|change| change.tag() != ChangeTag::Equal).count()
}

#[test]
fn each_example_differs_from_its_plain_version_by_less_than_a_hundred_lines() {
    let pairs = [
        ("cm_file", example!("cm_file_plain"), example!("cm_file")),
        ("cm_layers_alf", example!("cm_layers_plain"), example!("cm_layers_alf")),
        ("cm_layers_rate", example!("cm_layers_plain"), example!("cm_layers_rate")),
        ("cm_audio", example!("cm_audio_plain"), example!("cm_audio")),
    ];
    for (name, plain, with_manager) in pairs {
        let changed = changed(plain, with_manager);
        println!("{name}: {changed} lines changed");
        assert!(changed < 100, "{name}: {changed} lines changed");
    }
}
