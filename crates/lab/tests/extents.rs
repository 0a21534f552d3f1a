//! Tests of the extent that leaves out most cells: no claim, table or note is about one that was not run. The snapshots show the others.

mod virtual_experiments;

use std::process::Command;

use serde_json::Value;
use virtual_experiments::for_each_virtual_experiment;

/// Makes a test of each experiment that is named.
macro_rules! extents {
    ($($test:ident: $name:literal,)*) => {
        $(
            #[test]
            fn $test() {
                says_nothing_of_cells_that_were_not_run($name);
            }
        )*
    };
}

for_each_virtual_experiment!(extents);

fn says_nothing_of_cells_that_were_not_run(name: &str) {
    let arguments = [name, "--seeds", "1", "--extent", "least", "--json"];
    let output = Command::new(env!("CARGO_BIN_EXE_timeous-lab")).args(arguments).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let claims = found["claims"].as_array().unwrap();
    assert!(!claims.is_empty());
    // JSON has no NaN: a value that is none is null.
    let unmeasured = claims.iter().filter(|claim| !claim["value"].is_number() || has_no_number(&claim["measured"]));
    assert_eq!(unmeasured.map(|claim| &claim["what"]).collect::<Vec<_>>(), Vec::<&Value>::new());
    for part in ["tables", "notes"] {
        assert!(!has_no_number(&found[part]), "{part}: {}", found[part]);
    }
}

fn has_no_number(part: &Value) -> bool {
    match part {
        Value::String(text) => text.split(|c: char| !c.is_alphabetic()).any(|word| matches!(word, "NaN" | "inf")),
        Value::Array(parts) => parts.iter().any(has_no_number),
        Value::Object(parts) => parts.values().any(has_no_number),
        _ => false,
    }
}
