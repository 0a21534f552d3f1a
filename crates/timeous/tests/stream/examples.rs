//! Tests that the examples work as documented.

use std::path::PathBuf;
use std::process::Command;

/// Output of an example. Examples are built with the tests.
fn output(name: &str) -> String {
    let here = std::env::current_exe().unwrap();
    let examples: PathBuf = here.ancestors().nth(2).unwrap().join("examples");
    let ran = Command::new(examples.join(name)).output();
    let ran = ran.unwrap_or_else(|error| panic!("{name}: {error}; build it: cargo build -p timeous --examples"));
    let (said, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{name}: {} {said}{errors}", ran.status);
    assert_eq!(errors, "", "{name}");
    said.into_owned()
}

/// The number before `what` in a text.
fn number(text: &str, what: &str) -> u32 {
    let before = text.split(what).next().unwrap_or_else(|| panic!("{what}: {text}")).trim_end();
    let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap();
    digits.parse().unwrap_or_else(|error| panic!("{what}: {error}: {text}"))
}

#[test]
fn blocking() {
    let said = output("blocking");
    assert!(number(&said, "of 25 readings received") > 0, "{said}");
    assert_eq!(said.lines().filter(|line| line.ends_with("degrees")).count() as u32, number(&said, "of 25 readings"));
}

#[cfg(feature = "tokio")]
#[test]
fn tokio() {
    let said = output("tokio");
    assert!(number(&said, "of 25 readings received") > 0, "{said}");
}

#[test]
fn late_choice() {
    let said = output("late_choice");
    assert_eq!(number(&said, "positions computed"), 90 * 40);
    let (rewritten, left) = (number(&said, "of them written over"), number(&said, "packets left"));
    assert!(rewritten > 500 && rewritten + left >= 90 * 40, "{said}");
    assert!(number(&said, "positions seen") > 100, "{said}");
}

#[test]
fn own_choice() {
    let said = output("own_choice");
    assert_eq!(number(&said, "readings taken"), 200 * 12);
    let (replaced, acknowledged) = (number(&said, "replaced by newer ones"), number(&said, "acknowledged"));
    assert!(replaced > 500 && acknowledged > 100 && replaced + acknowledged <= 200 * 12, "{said}");
    assert!(number(&said, "readings received") >= acknowledged, "{said}");
}

#[test]
fn fan_out() {
    let said = output("fan_out");
    assert!(number(&said, "packets received by 100 subscribers") > 15_000, "{said}");
    assert_eq!((number(&said, "bytes written"), number(&said, "bytes copied")), (200_000, 0));
}
