//! Compiles C programs against the installed library, as a user would.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::installed::{PREFIX, destdir, run};

/// Language and linkage of a test program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// C99, with the shared library.
    C,
    /// The same source as C++.
    Cpp,
    /// C99, with the static library.
    Static,
    /// C99 with the address and undefined-behaviour sanitizers, and the shared library.
    Sanitized,
}

impl Way {
    fn compiler(self) -> Command {
        let (compiler, flags): (&str, &[&str]) = match self {
            Self::C | Self::Static => ("cc", &["-std=c99"]),
            Self::Cpp => ("c++", &["-std=c++11", "-x", "c++"]),
            Self::Sanitized => ("cc", &["-std=c99", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover"]),
        };
        let mut command = Command::new(compiler);
        command.args(flags).args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-D_DEFAULT_SOURCE"]);
        command
    }
}

/// Output of pkg-config for the installed package.
pub(crate) fn pkg_config(arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", destdir().join(&PREFIX[1..]).join("lib/pkgconfig"));
    command.env("PKG_CONFIG_SYSROOT_DIR", destdir()).args(arguments).args(["cm", "utl"]);
    run(&mut command).split_whitespace().map(str::to_owned).collect()
}

/// The program of `source` (a path below `bindings/c`), made one way; several tests may run the same one.
pub(crate) fn program(source: &str, way: Way) -> PathBuf {
    static MADE: Mutex<BTreeMap<(String, Way), PathBuf>> = Mutex::new(BTreeMap::new());
    // Another test may have failed to make its own.
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.entry((source.to_owned(), way)).or_insert_with(|| make(source, way)).clone()
}

fn make(source: &str, way: Way) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let stem = source.file_stem().unwrap().to_str().unwrap();
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{stem}-{way:?}"));
    let mut command = way.compiler();
    command.args(pkg_config(&["--cflags"])).arg("-o").arg(&out).arg(&source).args(["-x", "none", "-pthread"]);
    if way == Way::Static {
        let libs = pkg_config(&["--static", "--libs"]);
        command.args(libs.iter().map(|lib| if lib == "-lcm" { "-l:libcm.a" } else { lib }));
    } else {
        command.args(pkg_config(&["--libs"]));
    }
    run(&mut command);
    out
}

/// A program that was made, ready to run with the installed library.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", destdir().join(&PREFIX[1..]).join("lib"));
    // No daemon of this host's has a part in it.
    command.env("TIMEOUS_SOCKET", Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-daemon.sock"));
    command
}
