//! Virtual machine with Linux's DCCP, and the emulated link to it.
//!
//! This side is 10.77.0.1 in the namespace `left`; the emulator's router joins it to `right`, which forwards to the
//! machine's TAP device; the machine is 10.78.0.2.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;

use tempfile::TempDir;
use timeous_core::Instant;
use timeous_net::emulator::{Emulator, EmulatorError, Namespace, Router, RouterConfig, Stop, Stopper};
use timeous_net::{LinkConfig, capture};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/kernel-dccp.sh");
/// Address of this side.
pub(crate) const OURS: &str = "10.77.0.1";
/// Address of the machine.
pub(crate) const THEIRS: &str = "10.78.0.2";
/// Exit code of the script if a requirement is missing.
const CANNOT: i32 = 77;
/// Timeout of the boot, which takes five seconds on an idle processor, and of the kernel's first download.
const BOOT: std::time::Duration = std::time::Duration::from_secs(400);

/// Reports that a test is skipped and why; fails instead if `TIMEOUS_REQUIRE_ALL=1`.
pub(crate) fn skip(test: &str, needs: &str) {
    assert_ne!(std::env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "{test} may not be skipped: it needs {needs}");
    eprintln!("SKIPPED {test}: needs {needs}");
}

/// Error: an expected output did not come.
#[derive(Debug)]
pub(crate) struct Nothing(pub(crate) String);

/// The machine and the namespaces around it. It ends when this is dropped, or with this process.
pub(crate) struct Machine {
    script: Child,
    /// Commands to the machine; closing it stops the machine.
    orders: Option<ChildStdin>,
    said: Receiver<String>,
    /// Output lines that nothing has consumed yet.
    kept: Vec<String>,
    pub(crate) left: Namespace,
    right: Namespace,
    directory: TempDir,
}

impl Machine {
    /// Boots the machine, or prints why it cannot.
    pub(crate) fn boot(test: &str) -> Option<Self> {
        let namespace = |side| Namespace::open_or_make(&format!("timeous-kdccp-{}{side}", std::process::id()));
        let (left, right) = match (namespace('l'), namespace('r')) {
            (Ok(left), Ok(right)) => (left, right),
            (Err(error @ (EmulatorError::NoRights { .. } | EmulatorError::NoIpTool)), _) => {
                skip(test, &format!("root and iproute2 ({error})"));
                return None;
            }
            (Err(error), _) | (_, Err(error)) => panic!("{error}"),
        };
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new(SCRIPT);
        command.arg(right.name()).arg(directory.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(File::create(directory.path().join("script.log")).unwrap());
        let mut script = command.spawn().unwrap_or_else(|error| panic!("{SCRIPT}: {error}"));
        let orders = script.stdin.take();
        let lines = BufReader::new(script.stdout.take().unwrap()).lines();
        let (tell, said) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| tell.send(line)));
        let mut machine = Self { script, orders, said, kept: Vec::new(), left, right, directory };
        if machine.wait_within("peer", "ready", BOOT).is_err() {
            return machine.no_boot(test);
        }
        machine.right.set_sysctl("net/ipv4/ip_forward", "1").unwrap();
        // Makes Linux answer every packet that is out of sequence.
        machine.order("sysctl net/dccp/default/sync_ratelimit 0");
        machine.wait("peer", "set").unwrap();
        Some(machine)
    }

    fn no_boot(mut self, test: &str) -> Option<Self> {
        drop(self.orders.take());
        let status = self.script.wait().unwrap();
        let said = self.log("script.log");
        assert_eq!(status.code(), Some(CANNOT), "no boot ({status}): {said}\n{}", self.log("kernel.log"));
        skip(test, said.trim());
        None
    }

    /// Returns the path of a file in the machine's directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Keeps the directory after the test, and returns its path.
    pub(crate) fn keep(&mut self) -> &Path {
        self.directory.disable_cleanup(true);
        self.directory.path()
    }

    /// Sends a command to the peer in the machine.
    pub(crate) fn order(&mut self, order: &str) {
        writeln!(self.orders.as_mut().expect("taken only at the end"), "{order}").expect("the machine runs");
    }

    /// Waits for the line of `name` with `word`, and returns the rest of that line.
    pub(crate) fn wait(&mut self, name: &str, word: &str) -> Result<String, Nothing> {
        self.wait_within(name, word, std::time::Duration::from_secs(90))
    }

    fn wait_within(&mut self, name: &str, word: &str, limit: std::time::Duration) -> Result<String, Nothing> {
        let failed = format!("{name} failed");
        loop {
            if let Some(rest) = self.heard(name, word) {
                return Ok(rest);
            }
            if let Some(line) = self.kept.iter().find(|line| line.starts_with(&failed)) {
                return Err(Nothing(format!("{name} never says '{word}', but '{line}'")));
            }
            match self.said.recv_timeout(limit) {
                Ok(line) => self.kept.push(line.trim_end().to_owned()),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(Nothing(format!("{name} never says '{word}'; what was said: {:?}", self.kept)));
                }
            }
        }
    }

    /// Returns the rest of the line of `name` with `word`, if it was printed.
    pub(crate) fn heard(&mut self, name: &str, word: &str) -> Option<String> {
        self.kept.extend(self.said.try_iter().map(|line| line.trim_end().to_owned()));
        let wanted = format!("{name} {word}");
        let is = |line: &String| line == &wanted || line.starts_with(&format!("{wanted} "));
        let line = self.kept.remove(self.kept.iter().position(is)?);
        Some(line[wanted.len()..].trim().to_owned())
    }

    /// Connects both ends by an emulated link, with a capture.
    pub(crate) fn wire(&self, link: &LinkConfig, seed: u64, capture: &Path) -> Wire {
        let mut config = RouterConfig::new(self.left.name(), self.right.name());
        (config.forward, config.back, config.seed) = (link.clone(), link.clone(), seed);
        config.capture = Some(capture::Capture::create(capture).unwrap());
        let mut router = Router::open(config).unwrap();
        self.left.ip(&["route", "replace", "10.78.0.0/24", "via", "10.77.0.2"]).unwrap();
        // Long queues towards the router: only the link itself drops packets.
        for end in [&self.left, &self.right] {
            end.ip(&["link", "set", "dev", "timeous0", "txqueuelen", "20000"]).unwrap();
        }
        let stop = Stop::new().unwrap();
        let stopper = stop.stopper().unwrap();
        let run = move || {
            router.run_until(Instant::FAR_FUTURE, &stop)?;
            router.flush()
        };
        Wire { stopper, router: Some(std::thread::spawn(run)) }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(self.orders.take());
        // It has a lifetime of its own should it hang.
        let _ = self.script.wait();
    }
}

/// The emulated link, while it exists.
pub(crate) struct Wire {
    stopper: Stopper,
    router: Option<JoinHandle<Result<(), EmulatorError>>>,
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(router) = self.router.take() {
            let done = router.join();
            assert!(std::thread::panicking() || matches!(done, Ok(Ok(()))), "the emulator: {done:?}");
        }
    }
}
