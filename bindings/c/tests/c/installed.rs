//! Installed tree for C, as by `make install`, which all other tests use.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;

use crate::header::PARTS;

/// Where the package believes to be; `DESTDIR` is before it.
pub(crate) const PREFIX: &str = "/opt/timeous";

/// The `DESTDIR` under which `make install-libcm` has put everything.
pub(crate) fn destdir() -> &'static Path {
    static DESTDIR: OnceLock<PathBuf> = OnceLock::new();
    DESTDIR.get_or_init(|| {
        let destdir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed");
        if destdir.exists() {
            fs::remove_dir_all(&destdir).unwrap();
        }
        make("install-libcm", &destdir);
        destdir
    })
}

/// Runs a make target with the tests' build directory and profile.
fn make(target: &str, destdir: &Path) {
    let mut make = Command::new("make");
    make.current_dir(workspace()).arg(target).args([
        format!("DESTDIR={}", destdir.display()),
        format!("PREFIX={PREFIX}"),
        format!("CARGO={}", env!("CARGO")),
        format!("PROFILE={}", profile()),
    ]);
    // Variables that cargo sets for this crate: some build scripts would run again because of them. Those of the build stay.
    let is_of_the_build =
        |key: &str| key.starts_with("CARGO_PROFILE_") || ["CARGO_HOME", "CARGO_INCREMENTAL"].contains(&key);
    let is_of_this_crate = |key: &str| key == "OUT_DIR" || key.starts_with("CARGO_") && !is_of_the_build(key);
    env::vars().filter(|(key, _)| is_of_this_crate(key)).for_each(|(key, _)| {
        make.env_remove(key);
    });
    run(make.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap()));
}

/// Whether the test that asks has to be skipped for want of a program; it fails instead if `TIMEOUS_REQUIRE_ALL=1`.
pub(crate) fn is_skipped(programs: &[&str]) -> bool {
    let is_there = |program: &&&str| Command::new(program).arg("--version").output().is_ok();
    let Some(missing) = programs.iter().find(|program| !is_there(program)) else { return false };
    let thread = thread::current();
    let test = thread.name().unwrap_or_default();
    assert_ne!(env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "{test} may not be skipped: it needs {missing}");
    eprintln!("SKIPPED {test}: needs {missing}");
    true
}

pub(crate) fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().parent().unwrap()
}

fn profile() -> &'static str {
    if cfg!(debug_assertions) { "dev" } else { "release" }
}

/// A file below the prefix, where it is on this machine.
pub(crate) fn file(name: &str) -> PathBuf {
    destdir().join(&PREFIX[1..]).join(name)
}

/// Runs a command to its end; what it wrote. Fails with all that it said if it does.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    out.into_owned()
}

#[test]
fn what_is_installed_is_complete_and_names_itself() {
    needs_toolchain!();
    make("install-tool", destdir());
    for name in ["bin/timeous", "lib/libcm.a"] {
        assert!(file(name).is_file(), "{name}");
    }
    for part in PARTS {
        for name in
            [format!("include/{part}.h"), format!("lib/pkgconfig/{part}.pc"), format!("share/man/man3/{part}.3")]
        {
            assert!(file(&name).is_file(), "{name}");
        }
    }
    let version = env!("CARGO_PKG_VERSION");
    let soname = format!("libcm.so.{}", version.split('.').next().unwrap());
    assert_eq!(fs::read_link(file("lib/libcm.so")).unwrap(), Path::new(&format!("libcm.so.{version}")));
    assert_eq!(fs::read_link(file("lib").join(&soname)).unwrap(), Path::new(&format!("libcm.so.{version}")));
    let dynamic = run(Command::new("readelf").arg("-d").arg(file("lib/libcm.so")));
    assert!(dynamic.contains(&format!("soname: [{soname}]")), "{dynamic}");
    assert!(dynamic.contains("NODELETE"), "its threads outlive dlclose(): {dynamic}");
    let tool = run(Command::new(file("bin/timeous")).arg("--version"));
    assert!(tool.contains(version), "{tool}");
}

#[test]
fn pkg_config_names_nothing_of_where_it_was_built() {
    needs_toolchain!();
    for part in PARTS {
        let pc = fs::read_to_string(file(&format!("lib/pkgconfig/{part}.pc"))).unwrap();
        assert!(!pc.contains('@') && !pc.contains(destdir().to_str().unwrap()), "{pc}");
        assert!(pc.contains(&format!("Version: {}\n", env!("CARGO_PKG_VERSION"))), "{pc}");
    }
}
