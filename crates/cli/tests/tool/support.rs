//! Test support: child processes, free ports, the test clip, and ffmpeg.

use std::fs::File;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use timeous::clock;
use timeous::core::{Duration, Instant};
use timeous_media::{Ending, Frame, FrameReader};

/// tshark's filter for problems that DCCP packets must not have, also in the tests of `timeous-dccp`.
pub(crate) const DCCP_COMPLAINTS: &str = include_str!("../../../dccp/tests/complaints.tshark");

/// Timeout for events that must happen; only failing tests wait so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Reports a skipped test and the reason; fails instead if `TIMEOUS_REQUIRE_ALL=1`.
pub(crate) fn skip(test: &str, needs: &str) {
    assert_ne!(std::env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "{test} may not be skipped: it needs {needs}");
    eprintln!("SKIPPED {test}: needs {needs}");
}

pub(crate) fn nap() {
    #[expect(clippy::disallowed_methods, reason = "another process is waited for, and it has nothing to wait on")]
    std::thread::sleep(std::time::Duration::from_millis(20));
}

/// Sleeps until an instant.
#[expect(clippy::disallowed_methods, reason = "a source has a rate of its own")]
pub(crate) fn sleep_until(at: Instant) {
    std::thread::sleep(at.saturating_since(clock::now()).into());
}

pub(crate) fn sleep(time: Duration) {
    sleep_until(clock::now() + time);
}

/// Runs cases that mostly wait in parallel, each on a thread with its name.
#[track_caller]
pub(crate) fn side_by_side(cases: &[(&str, fn())]) {
    let start = |&(name, case): &(&str, fn())| std::thread::Builder::new().name(name.to_owned()).spawn(case).unwrap();
    let threads: Vec<_> = cases.iter().map(start).collect();
    let ended = cases.iter().zip(threads).map(|((name, _), thread)| (name, thread.join()));
    let failed: Vec<&&str> = ended.filter(|(_, result)| result.is_err()).map(|(name, _)| name).collect();
    assert!(failed.is_empty(), "{failed:?} failed, of {} cases", cases.len());
}

/// Waits until `done` returns true; panics after a timeout.
#[track_caller]
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = clock::now() + PATIENCE;
    while !done() {
        assert!(clock::now() < end, "{what}: not within {PATIENCE:?}");
        nap();
    }
}

/// Port that is free in UDP and TCP, below the range from which the system assigns ports; each process starts elsewhere in the range.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 12_000;
    const COUNT: u16 = 18_000;
    loop {
        let step = NEXT.fetch_add(2, Ordering::Relaxed);
        let port = FIRST + (std::process::id() as u16).wrapping_mul(64).wrapping_add(step) % COUNT;
        // RTP players use the next port, too.
        if [port, port + 1].iter().all(|&port| may_be_bound(port)) {
            return port;
        }
    }
}

fn may_be_bound(port: u16) -> bool {
    UdpSocket::bind(("0.0.0.0", port)).is_ok() && TcpListener::bind(("0.0.0.0", port)).is_ok()
}

/// Returns whether no socket has this UDP port. It is looked up, not bound: the process that is waited for may bind it now.
pub(crate) fn is_free(port: u16) -> bool {
    let end = format!(":{port:04X}");
    ["/proc/net/udp", "/proc/net/udp6"].iter().all(|table| {
        // A system without IPv6 has no table of it.
        let table = std::fs::read_to_string(table).unwrap_or_default();
        !table.lines().skip(1).any(|row| row.split_whitespace().nth(1).is_some_and(|local| local.ends_with(&end)))
    })
}

/// Child process, killed when dropped.
pub(crate) struct Running {
    child: Child,
    name: String,
    errors: PathBuf,
    _directory: TempDir,
}

impl Running {
    /// Starts a program; its standard error is kept.
    pub(crate) fn start(mut command: Command) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let errors = directory.path().join("stderr");
        let name = format!("{command:?}");
        command.stderr(File::create(&errors).unwrap());
        let child = command.spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
        Self { child, name, errors, _directory: directory }
    }

    /// Piped standard output, as the input of another process.
    pub(crate) fn output(&mut self) -> Stdio {
        self.child.stdout.take().expect("it is piped, and was not taken").into()
    }

    /// Piped standard output, for reading in the test.
    pub(crate) fn read(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("it is piped, and was not taken")
    }

    /// Piped standard input.
    pub(crate) fn write(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("it is piped, and was not taken")
    }

    /// Waits for a message on standard error.
    #[track_caller]
    pub(crate) fn until_it_says(&mut self, what: &str) {
        let end = clock::now() + PATIENCE;
        while !self.errors().contains(what) {
            let errors = self.errors();
            assert!(clock::now() < end, "{} does not say '{what}', but: {errors}", self.name);
            assert!(self.is_alive() || self.errors().contains(what), "{} ended: {errors}", self.name);
            nap();
        }
    }

    /// Waits until a receiver has told of the ends of so many streams, whose sinks are complete then.
    #[track_caller]
    pub(crate) fn until_ended(&mut self, streams: usize) {
        until("the streams have ended", || {
            assert!(self.is_alive(), "{} ended: {}", self.name, self.errors());
            self.errors().matches("the stream has ended").count() >= streams
        });
    }

    /// Ends it like a user would. Not by SIGINT: shells without a terminal make background jobs ignore it.
    #[track_caller]
    pub(crate) fn stop(&mut self) -> String {
        self.signal(Signal::TERM);
        self.ends_with(0)
    }

    /// Kills it with SIGKILL.
    #[track_caller]
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.end();
    }

    pub(crate) fn errors(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Whether it is still running.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn end(&mut self) -> ExitStatus {
        let end = clock::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(clock::now() < end, "{} has not ended within {PATIENCE:?}; it says: {}", self.name, self.errors());
            nap();
        }
    }

    /// Waits for its end with this exit code; returns its messages.
    #[track_caller]
    pub(crate) fn ends_with(&mut self, code: i32) -> String {
        let status = self.end();
        let errors = self.errors();
        assert_eq!(status.code(), Some(code), "{} ended with {status}: {errors}", self.name);
        errors
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // No effect if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Command `timeous` with these arguments, not started.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_timeous"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Runs `timeous` with these arguments.
pub(crate) fn timeous(arguments: &[&str]) -> Running {
    Running::start(command(arguments))
}

/// Emulated link between two local ports, with further options.
pub(crate) fn emulate(from: u16, to: u16, options: &[&str]) -> Running {
    let (listen, to) = (format!("127.0.0.1:{from}"), format!("127.0.0.1:{to}"));
    let arguments = [&["emulate", "--listen", &listen, "--to", &to], options].concat();
    let mut link = Running::start(command(&arguments));
    until("the emulator listens", || !is_free(from) || !link.is_alive());
    link
}

/// Temporary directory, with the names of files in it.
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("temporary paths are UTF-8").to_owned()
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

pub(crate) const CLIP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/clip.h264");

/// Frames of a byte stream, and its ending.
pub(crate) fn frames(bytes: &[u8]) -> (Vec<Frame>, Ending) {
    let mut reader = FrameReader::new(None);
    reader.push(bytes).unwrap();
    let ending = reader.finish().unwrap();
    (std::iter::from_fn(|| reader.next_frame()).collect(), ending)
}

/// First `count` frames of the clip (30 per second) as a byte stream.
pub(crate) fn clip(count: usize) -> Vec<u8> {
    let clip = std::fs::read(CLIP).unwrap();
    frames(&clip).0.iter().take(count).flat_map(Frame::annexb).collect()
}

/// Slices of a byte stream, without parameter sets and other NAL units.
fn slices(bytes: &[u8]) -> Vec<Vec<u8>> {
    let is_slice = |nal: &Vec<u8>| nal.first().is_some_and(|first| matches!(first & 0x1f, 1..=5));
    frames(bytes).0.into_iter().flat_map(|frame| frame.nals).filter(is_slice).collect()
}

/// Checks that `received` has the pictures of `sent` from the first on, without gaps; returns their number.
#[track_caller]
pub(crate) fn assert_is_beginning_of(received: &Path, sent: &[u8]) -> usize {
    let received = slices(&std::fs::read(received).unwrap());
    let sent = slices(sent);
    let same = received.iter().zip(&sent).take_while(|(received, sent)| received == sent).count();
    assert_eq!(same, received.len(), "of {} slices received, the first that differs is {same}", received.len());
    same
}

pub(crate) fn size(path: &str) -> u64 {
    std::fs::metadata(path).map_or(0, |found| found.len())
}

/// Whether a program is installed.
pub(crate) fn is_installed(program: &str) -> bool {
    Command::new(program).arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Test video encoded by x264, 25 frames per second; `None` without ffmpeg.
pub(crate) fn encode(size: &str, frames: usize, x264: &str) -> Option<Vec<u8>> {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", &format!("testsrc2=size={size}:rate=25")]);
    ffmpeg.args(["-frames:v", &frames.to_string(), "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"]);
    ffmpeg.args(["-threads", "1", "-x264-params", x264, "-f", "h264", "-"]);
    let made = ffmpeg.stdin(Stdio::null()).output().ok()?;
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Some(made.stdout)
}

/// `ffmpeg` as a decoder that prints only errors.
pub(crate) fn decoder(input: &[&str]) -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-xerror", "-v", "error"]).args(input);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Checks that ffmpeg decodes a file without errors, if ffmpeg is installed.
#[track_caller]
pub(crate) fn assert_decodes(path: &str, test: &str) {
    if !is_installed("ffmpeg") {
        return skip(test, "ffmpeg");
    }
    let said = Running::start(decoder(&["-f", "h264", "-i", path, "-f", "null", "-"])).ends_with(0);
    assert_eq!(said, "");
}
