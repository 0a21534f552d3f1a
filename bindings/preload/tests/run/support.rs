//! Test support: the installed tool, programs, free ports, and waiting.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

/// Reports a skipped test and the reason; fails instead if `TIMEOUS_REQUIRE_ALL=1`.
pub(crate) fn skip(test: &str, needs: &str) {
    assert_ne!(env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "{test} may not be skipped: it needs {needs}");
    eprintln!("SKIPPED {test}: needs {needs}");
}

/// Whether a program is installed.
pub(crate) fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

#[expect(clippy::disallowed_methods, reason = "another process is waited for, and it has nothing to wait on")]
pub(crate) fn sleep(millis: u64) {
    thread::sleep(std::time::Duration::from_millis(millis));
}

/// Directory of files that the tests make.
pub(crate) fn made() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// The tool, as `make install` has installed it together with the library.
pub(crate) fn tool() -> &'static Path {
    static TOOL: OnceLock<PathBuf> = OnceLock::new();
    TOOL.get_or_init(|| {
        let destdir = made().join("run-installed");
        if destdir.exists() {
            fs::remove_dir_all(&destdir).unwrap();
        }
        let mut make = Command::new("make");
        make.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
        make.args(["install-tool", "install-run", "PREFIX=/opt/timeous"]);
        make.args([format!("DESTDIR={}", destdir.display()), format!("CARGO={}", env!("CARGO"))]);
        make.arg(if cfg!(debug_assertions) { "PROFILE=dev" } else { "PROFILE=release" });
        // Variables that cargo sets for this crate: some build scripts would run again because of them. Those of the build stay.
        let is_of_the_build =
            |key: &str| key.starts_with("CARGO_PROFILE_") || ["CARGO_HOME", "CARGO_INCREMENTAL"].contains(&key);
        let is_of_this_crate = |key: &str| key == "OUT_DIR" || key.starts_with("CARGO_") && !is_of_the_build(key);
        env::vars().filter(|(key, _)| is_of_this_crate(key)).for_each(|(key, _)| {
            make.env_remove(key);
        });
        done(make.env("CARGO_TARGET_DIR", made().parent().unwrap()));
        destdir.join("opt/timeous/bin/timeous")
    })
}

/// Command `timeous run` with these words.
pub(crate) fn run(words: &[&str]) -> Command {
    let mut command = Command::new(tool());
    command.arg("run").args(words).stdin(Stdio::null()).env_remove("TIMEOUS_SOCKET").env_remove("XDG_RUNTIME_DIR");
    command
}

/// Runs a command to its end, which must be a success.
#[track_caller]
pub(crate) fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    output
}

/// Compiles a C program of the tests, with the checks of buffers that distributions use; `None` without a compiler.
pub(crate) fn program(name: &str, flags: &[&str]) -> Option<PathBuf> {
    static BUILT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    if !is_installed("cc") {
        return None;
    }
    // Tests that run at the same time must not build it while another runs it.
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    let program = made().join(format!("{name}{}", flags.concat()));
    if !built.contains(&program) {
        let options = ["-O1", "-D_FORTIFY_SOURCE=2", "-Wall", "-Werror", "-o"];
        done(Command::new("cc").args(options).arg(&program).arg(source).args(flags));
        built.insert(program.clone());
    }
    Some(program)
}

/// First of ten UDP ports that are free; each process starts elsewhere in the range.
pub(crate) fn free_ports() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let step = NEXT.fetch_add(10, Ordering::Relaxed);
        let port = 12_000 + (std::process::id() as u16).wrapping_mul(640).wrapping_add(step) % 18_000;
        if (port..port + 10).all(|port| UdpSocket::bind(("127.0.0.1", port)).is_ok()) {
            return port;
        }
    }
}

/// Child process, killed when dropped.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Lines that it prints, read to the end by a thread.
    pub(crate) fn lines(&mut self) -> std::sync::mpsc::Receiver<String> {
        let output = BufReader::new(self.0.stdout.take().expect("it is piped, and was not taken"));
        let (to, from) = std::sync::mpsc::channel();
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| to.send(line)));
        from
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // No effect if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
