//! Processes that end with their test, ports that are free, pieces of the clip, and ffmpeg.

use std::fs::File;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use timeous::clock;
use timeous::core::{Duration, Instant};
use timeous_media::{Ending, Frame, FrameReader};

/// What tshark may not find in packets of DCCP. Options 125 and 126 are ours, of those that RFC 4340 §19.3 reserves for
/// experiments: repeats and parity, which leave only where something was lost, as on a machine with too much to do.
pub(crate) const DCCP_COMPLAINTS: &str = "_ws.malformed || dccp.checksum.status != \"Good\" || !dccp \
    || _ws.expert.severity >= \"Warning\" || dccp.option_unknown || dccp.option.len.bad \
    || dccp.option_reserved && !(dccp.option_type == 125 || dccp.option_type == 126)";

/// Long enough for anything that is going to happen; only a test that fails waits so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Says that a test is skipped and why; fails instead if `TIMEOUS_REQUIRE_ALL=1`.
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

/// Runs cases that mostly wait side by side, each on a thread that has its name.
#[track_caller]
pub(crate) fn side_by_side(cases: &[(&str, fn())]) {
    let start = |&(name, case): &(&str, fn())| std::thread::Builder::new().name(name.to_owned()).spawn(case).unwrap();
    let threads: Vec<_> = cases.iter().map(start).collect();
    let ended = cases.iter().zip(threads).map(|((name, _), thread)| (name, thread.join()));
    let failed: Vec<&&str> = ended.filter(|(_, result)| result.is_err()).map(|(name, _)| name).collect();
    assert!(failed.is_empty(), "{failed:?} failed, of {} cases", cases.len());
}

/// Waits until `done`, or fails.
#[track_caller]
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = clock::now() + PATIENCE;
    while !done() {
        assert!(clock::now() < end, "{what}: not within {PATIENCE:?}");
        nap();
    }
}

/// A UDP port that nobody has. The range lies below the one from which the system chooses by itself, and each process
/// begins elsewhere in it.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 12_000;
    const COUNT: u16 = 18_000;
    loop {
        let step = NEXT.fetch_add(2, Ordering::Relaxed);
        let port = FIRST + (std::process::id() as u16).wrapping_mul(64).wrapping_add(step) % COUNT;
        // RTP players take the port above, too.
        if is_free(port) && is_free(port + 1) {
            return port;
        }
    }
}

pub(crate) fn is_free(port: u16) -> bool {
    UdpSocket::bind(("0.0.0.0", port)).is_ok()
}

/// A process that is killed when the test lets go of it.
pub(crate) struct Running {
    child: Child,
    name: String,
    errors: PathBuf,
    _directory: TempDir,
}

impl Running {
    /// Starts a program. What it says on standard error is kept.
    pub(crate) fn start(mut command: Command) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let errors = directory.path().join("stderr");
        let name = format!("{command:?}");
        command.stderr(File::create(&errors).unwrap());
        let child = command.spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
        Self { child, name, errors, _directory: directory }
    }

    /// Its standard output, if it was piped: as the input of another.
    pub(crate) fn output(&mut self) -> Stdio {
        self.child.stdout.take().expect("it is piped, and was not taken").into()
    }

    /// The same, to be read here.
    pub(crate) fn read(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("it is piped, and was not taken")
    }

    /// Its standard input, if it was piped.
    pub(crate) fn write(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("it is piped, and was not taken")
    }

    /// Waits until it says this on standard error.
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

    /// Ends it as its user does. Not by SIGINT: a shell without a terminal has its background jobs ignore that.
    #[track_caller]
    pub(crate) fn stop(&mut self) -> String {
        self.signal(Signal::TERM);
        self.ends_with(0)
    }

    /// Kills it: it can do nothing more.
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

    /// Whether it has not ended yet.
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

    /// Waits for its end, which is to be like this; what it said.
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
        // If it has ended already, there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `timeous` with these arguments, not started.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_timeous"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Runs `timeous` with these arguments.
pub(crate) fn timeous(arguments: &[&str]) -> Running {
    Running::start(command(arguments))
}

/// A link between two ports of this host, with these options besides.
pub(crate) fn emulate(from: u16, to: u16, options: &[&str]) -> Running {
    let (listen, to) = (format!("127.0.0.1:{from}"), format!("127.0.0.1:{to}"));
    let arguments = [&["emulate", "--listen", &listen, "--to", &to], options].concat();
    let mut link = Running::start(command(&arguments));
    until("the emulator listens", || !is_free(from) || !link.is_alive());
    link
}

/// A directory, and the names of files in it.
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

/// The frames of a byte stream, and how it ends.
pub(crate) fn frames(bytes: &[u8]) -> (Vec<Frame>, Ending) {
    let mut reader = FrameReader::new(None);
    reader.push(bytes).unwrap();
    let ending = reader.finish().unwrap();
    (std::iter::from_fn(|| reader.next_frame()).collect(), ending)
}

/// The first `count` frames of the clip (30 are a second) as a byte stream.
pub(crate) fn clip(count: usize) -> Vec<u8> {
    let clip = std::fs::read(CLIP).unwrap();
    frames(&clip).0.iter().take(count).flat_map(Frame::annexb).collect()
}

/// The coded pictures of a byte stream, without parameter sets and other words about them.
fn slices(bytes: &[u8]) -> Vec<Vec<u8>> {
    let is_slice = |nal: &Vec<u8>| nal.first().is_some_and(|first| matches!(first & 0x1f, 1..=5));
    frames(bytes).0.into_iter().flat_map(|frame| frame.nals).filter(is_slice).collect()
}

/// `received` holds the pictures of `sent` from the first one on, with none missing; how many.
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

/// Whether a program can be run.
pub(crate) fn is_installed(program: &str) -> bool {
    Command::new(program).arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// A moving picture as H.264 out of x264, 25 frames a second; none where ffmpeg is not there.
pub(crate) fn encode(size: &str, frames: usize, x264: &str) -> Option<Vec<u8>> {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", &format!("testsrc2=size={size}:rate=25")]);
    ffmpeg.args(["-frames:v", &frames.to_string(), "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"]);
    ffmpeg.args(["-threads", "1", "-x264-params", x264, "-f", "h264", "-"]);
    let made = ffmpeg.stdin(Stdio::null()).output().ok()?;
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Some(made.stdout)
}

/// `ffmpeg` that decodes what comes, and says nothing unless something is wrong with it.
pub(crate) fn decoder(input: &[&str]) -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-xerror", "-v", "error"]).args(input);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// A file is decoded by ffmpeg without a word, where ffmpeg is.
#[track_caller]
pub(crate) fn assert_decodes(path: &str, test: &str) {
    if !is_installed("ffmpeg") {
        return skip(test, "ffmpeg");
    }
    let said = Running::start(decoder(&["-f", "h264", "-i", path, "-f", "null", "-"])).ends_with(0);
    assert_eq!(said, "");
}
