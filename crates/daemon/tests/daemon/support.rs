//! Test support: a daemon in a separate process, and its observable state.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use timeous_core::{Duration, Instant};
use timeous_daemon::view::View;
use timeous_engine::{Waker, clock};
use timeous_ipc::{Client, Event, Flow, Options, Refusal};

/// Maximum wait of a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A running daemon, which is killed when this is dropped.
pub(crate) struct Host {
    daemon: Child,
    dir: TempDir,
}

impl Host {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        // Lets other users reach the socket.
        fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
        let daemon = spawn("daemon", &socket(&dir), &[]);
        let host = Self { daemon, dir };
        host.until("the daemon is there", || Client::connect(host.options()).is_ok());
        host
    }

    pub(crate) fn path(&self) -> PathBuf {
        socket(&self.dir)
    }

    /// Stops the daemon cleanly.
    pub(crate) fn stop(&mut self) {
        drop(self.daemon.stdin.take());
        assert!(self.daemon.wait().unwrap().success());
    }

    /// Kills the daemon (`kill -9`).
    pub(crate) fn kill(&mut self) {
        self.daemon.kill().unwrap();
        self.daemon.wait().unwrap();
    }

    /// Starts another daemon at the same socket.
    pub(crate) fn start_again(&mut self) {
        self.daemon = spawn("daemon", &self.path(), &[]);
    }

    pub(crate) fn options(&self) -> Options {
        Options { path: self.path(), name: "test".to_owned(), timeout: PATIENCE }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.options()).unwrap()
    }

    /// Starts another process with this role.
    pub(crate) fn spawn(&self, role: &str, arguments: &[(&str, String)]) -> Child {
        spawn(role, &self.path(), arguments)
    }

    /// Returns the daemon's process ID.
    pub(crate) fn pid(&self) -> u32 {
        self.daemon.id()
    }

    /// Returns the number of the daemon's open descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.daemon.id())).unwrap().count()
    }

    /// Returns the daemon's resident memory in bytes.
    pub(crate) fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.daemon.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1_024
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.daemon.try_wait().unwrap().is_none()
    }

    #[track_caller]
    pub(crate) fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let end = clock::now() + PATIENCE;
        while !holds() {
            assert!(clock::now() < end, "in vain: {what}");
            pause(Duration::from_millis(2));
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

fn socket(dir: &TempDir) -> PathBuf {
    dir.path().join("daemon.sock")
}

/// Variable for the role of a process.
pub(crate) const ROLE: &str = "TIMEOUS_DAEMON_TEST_ROLE";
/// Variable for the daemon's socket.
pub(crate) const SOCKET: &str = "TIMEOUS_DAEMON_TEST_SOCKET";
/// Variable for the user that the process becomes.
pub(crate) const USER: &str = "TIMEOUS_DAEMON_TEST_USER";

fn spawn(role: &str, socket: &Path, arguments: &[(&str, String)]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "roles::the_other_process", "--nocapture"])
        .env(ROLE, role)
        .env(SOCKET, socket)
        .envs(arguments.iter().map(|(name, value)| (*name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

pub(crate) fn pause(time: Duration) {
    Waker::new().unwrap().wait(Some(time));
}

/// Returns the daemon's view for the user of `client`.
pub(crate) fn view(client: &mut Client) -> View {
    serde_json::from_slice(&client.snapshot().unwrap()).unwrap()
}

/// Waits for a client's next event.
#[track_caller]
pub(crate) fn next(client: &mut Client) -> Event {
    let end = clock::now() + PATIENCE;
    loop {
        if let Some(event) = client.poll_event() {
            return event;
        }
        assert!(clock::now() < end, "nothing is told");
        client.wait(Some(end));
    }
}

/// Waits for a grant.
#[track_caller]
pub(crate) fn granted(client: &mut Client, flow: Flow) {
    match next(client) {
        Event::Granted(which) if which == flow => {}
        other => panic!("{other:?} in place of a grant"),
    }
}

/// Sends a packet on a grant. A grant lasts 50 ms: where the machine was busy for longer, another one is asked for.
#[track_caller]
pub(crate) fn send_granted(client: &mut Client, flow: Flow, bytes: u64) {
    let end = late();
    loop {
        client.request(flow).unwrap();
        granted(client, flow);
        client.notify(flow, bytes).unwrap();
        // Once a call is answered, all that was submitted before it is processed.
        client.query(flow).unwrap();
        match client.poll_event() {
            None => return,
            Some(Event::Refused { why: Refusal::NotGranted, .. }) => assert!(clock::now() < end, "grants are too late"),
            Some(other) => panic!("{other:?}"),
        }
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Reports that a test is skipped and why; fails instead where skipping is not allowed.
pub(crate) fn skip(test: &str, reason: &str) {
    println!("SKIPPED {test}: {reason}");
    assert!(std::env::var_os("TIMEOUS_REQUIRE_ALL").is_none(), "{test} needs what is not there: {reason}");
}

/// Returns a deadline in the far future.
pub(crate) fn late() -> Instant {
    clock::now() + PATIENCE
}
