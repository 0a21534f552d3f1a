//! Tests of the manual pages: well formed and complete.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::header::{PARTS, declared};
use crate::installed::{file, is_skipped, run};

#[test]
fn the_manual_is_well_formed() {
    needs_toolchain!();
    if is_skipped(&["groff"]) {
        return;
    }
    for part in PARTS {
        let page = file(&format!("share/man/man3/{part}.3"));
        let output = Command::new("groff").args(["-man", "-Tutf8", "-ww", "-z"]).arg(page).output();
        let warnings = String::from_utf8(output.unwrap().stderr).unwrap();
        assert_eq!(warnings, "");
    }
}

#[test]
fn the_manual_has_every_function_under_its_name() {
    needs_toolchain!();
    PARTS.iter().for_each(|part| has_every_function(part));
}

#[track_caller]
fn has_every_function(part: &str) {
    let page = fs::read_to_string(file(&format!("share/man/man3/{part}.3"))).unwrap();
    let (names, rest) = page.split_once(".SH LIBRARY").unwrap();
    for function in declared(part) {
        assert!(
            names.contains(&format!(" {function},"))
                || names.contains(&format!("\n{function},"))
                || names.contains(&format!(" {function} ")),
            "{function} is not among the names"
        );
        assert!(rest.matches(&function).count() >= 2, "{function}: in the synopsis and explained");
        let link = file("share/man/man3").join(format!("{function}.3"));
        assert_eq!(fs::read_link(&link).unwrap(), Path::new(&format!("{part}.3")), "{function}");
    }
}

/// The examples in the pages compile as C.
#[test]
fn the_manuals_examples_compile() {
    needs_toolchain!();
    PARTS.iter().for_each(|part| compiles(part));
}

#[track_caller]
fn compiles(part: &str) {
    let page = fs::read_to_string(file(&format!("share/man/man3/{part}.3"))).unwrap();
    let example = page.split_once(".EX\n").unwrap().1.split_once(".EE").unwrap().0.replace("\\-", "-");
    let source = example.replace(
        "static void may_send",
        "size_t send_newest(int sock);\nvoid take_acknowledgements(int sock, cm_flowid flow);\nstatic void may_send",
    );
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("manual-{part}.c"));
    fs::write(&path, source).unwrap();
    run(Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"])
        .args(crate::build::pkg_config(&["--cflags"]))
        .arg(&path));
}
