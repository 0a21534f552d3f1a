//! Tests that the hand-written header matches the library: functions and structures.

use std::collections::BTreeSet;
use std::fs;
use std::mem::{align_of, offset_of, size_of};
use std::path::Path;
use std::process::Command;

use cm::ffi::CmPath;
use cm::ffi::UtlCounts;
use cm::ffi::feedback::{CmQueryEntry, CmUpdateEntry};
use cm::ffi::sending::{CmNotifyEntry, CmRequestEntry};
use cm::ffi::state::CmOptions;

use crate::build::{Way, command, pkg_config, program};
use crate::installed::{file, run};

/// Headers and their pages.
pub(crate) const PARTS: [&str; 2] = ["cm", "utl"];

/// Functions that a header declares: its lines that begin with a type.
pub(crate) fn declared(part: &str) -> BTreeSet<String> {
    let header = fs::read_to_string(file(&format!("include/{part}.h"))).unwrap();
    let lines = header.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
    let names = lines.filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    needs_toolchain!();
    let symbols = run(Command::new("nm").args(["-D"]).arg(file("lib/libcm.so")));
    let kinds = |wanted: &str| -> BTreeSet<String> {
        let words = symbols.lines().map(|line| line.split_whitespace().rev().collect::<Vec<_>>());
        words.filter(|words| words[1] == wanted).map(|words| words[0].to_owned()).collect()
    };
    let (application, library): (BTreeSet<_>, BTreeSet<_>) =
        PARTS.iter().flat_map(|part| declared(part)).partition(|name| name.starts_with("cmapp_"));
    assert_eq!(kinds("T"), library);
    let weak: BTreeSet<_> = kinds("w").into_iter().filter(|name| name.starts_with("cm")).collect();
    assert_eq!(weak, application, "what the application defines, if it likes");
    assert!(library.len() >= 45, "the test reads the header: {library:?}");
}

/// C's idea of a structure and Rust's, as `name size alignment offset…`.
macro_rules! layout {
    ($c:literal, $rust:ty: $($field:ident),+) => {
        (
            format!(
                "printf(\"{0} %zu %zu{1}\\n\", sizeof(struct {0}), ALIGN(struct {0}){2});",
                $c,
                " %zu".repeat([$(stringify!($field)),+].len()),
                [$(stringify!($field)),+].map(|field| format!(", offsetof(struct {}, {field})", $c)).concat(),
            ),
            [
                $c.to_owned(),
                size_of::<$rust>().to_string(),
                align_of::<$rust>().to_string(),
                $(offset_of!($rust, $field).to_string()),+
            ]
            .join(" "),
        )
    };
}

#[test]
fn structures_are_the_same_on_both_sides() {
    needs_toolchain!();
    let layouts = [
        layout!("cm_path", CmPath: rate_bps, srtt_ns, rttvar_ns, min_rtt_ns, window, outstanding, loss_ppm, reserved),
        layout!("cm_options", CmOptions: mtu, weight, dscp, reserved),
        layout!("cm_request_entry", CmRequestEntry: flow, count, error),
        layout!("cm_notify_entry", CmNotifyEntry: flow, nsent, error),
        layout!("cm_update_entry", CmUpdateEntry: flow, nsent, nrecd, rtt_ns, sent_ns, lossmode, error),
        layout!("cm_query_entry", CmQueryEntry: flow, path, error),
        ("printf(\"CM_ACK_MAX %d\\n\", CM_ACK_MAX);".to_owned(), format!("CM_ACK_MAX {}", timeous::cm::Ack::MAX_LEN)),
        layout!("utl_counts", UtlCounts: acked, lost, dropped, pending, replaced),
    ];
    let prints: String = layouts.iter().map(|(print, _)| format!("\t{print}\n")).collect();
    let source = format!(
        "#include <cm.h>\n#include <utl.h>\n#include <stdio.h>\n#define ALIGN(type) (offsetof(struct {{ char c; type t; }}, t))\n\
         int main(void)\n{{\n{prints}\treturn 0;\n}}\n"
    );
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("layout.c");
    fs::write(&path, source).unwrap();
    let said = run(&mut command(&program(path.to_str().unwrap(), Way::C)));
    assert_eq!(said.lines().collect::<Vec<_>>(), layouts.iter().map(|(_, rust)| rust).collect::<Vec<_>>());
}

/// Each header alone, first and twice, in old C and new C++.
#[test]
fn the_headers_stand_alone() {
    needs_toolchain!();
    stands_alone("#include <cm.h>\n#include <cm.h>\nextern cm_flowid flow;\n", "alone.c");
    stands_alone("#include <utl.h>\n#include <utl.h>\nextern struct utl_counts counts;\n", "alone-utl.c");
}

#[track_caller]
fn stands_alone(source: &str, name: &str) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, source).unwrap();
    for (compiler, standard, language) in
        [("cc", "-std=c99", "c"), ("cc", "-std=c17", "c"), ("c++", "-std=c++98", "c++"), ("c++", "-std=c++20", "c++")]
    {
        // C++98 knows no `long long`, which the system's own headers need.
        run(Command::new(compiler)
            .args([
                standard,
                "-Wall",
                "-Wextra",
                "-Werror",
                "-pedantic",
                "-Wno-long-long",
                "-fsyntax-only",
                "-x",
                language,
            ])
            .args(pkg_config(&["--cflags"]))
            .arg(&path));
    }
}
