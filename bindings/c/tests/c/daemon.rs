//! Tests of C programs with a daemon that stops and restarts.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use timeous::core::Duration;
use timeous_daemon::{Config, Daemon, DaemonError, Stopper};

use crate::build::{Way, command, program};
use crate::installed::run;
use crate::peer::{self, Peer};

/// So often a daemon tries to begin, this far apart.
const TRIES: u32 = 100;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// A daemon until it is dropped.
struct Running {
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn at(path: &Path) -> Self {
        let (path, (ready, is_ready)) = (path.to_owned(), mpsc::channel());
        // A daemon stays on the thread that it was made on.
        let thread = thread::spawn(move || {
            // Other tests start programs: until one is executed it has the lock of the daemon that was here, too.
            let daemon = (0..TRIES).find_map(|_| match Daemon::bind(Config::at(path.clone())) {
                Err(DaemonError::InUse(_)) => {
                    thread::park_timeout(PAUSE);
                    None
                }
                bound => Some(bound.unwrap()),
            });
            let daemon = daemon.expect("nobody has it for long");
            ready.send(daemon.stopper()).unwrap();
            daemon.run().unwrap();
        });
        Self { stopper: is_ready.recv().unwrap(), thread: Some(thread) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn a_flow_outlives_the_daemon_under_its_number() {
    needs_toolchain!();
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("daemon.sock");
    let daemon = Running::at(&socket);
    let mut program = command(&program("tests/programs/restart.c", Way::C));
    let mut program = program.arg(&socket).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(program.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().as_deref(), Some("open"));
    drop(daemon);
    assert_eq!(said.next().as_deref(), Some("lost"));
    let _daemon = Running::at(&socket);
    assert_eq!(said.next().as_deref(), Some("back"));
    assert_eq!(said.next().as_deref(), Some("again"));
    assert!(program.wait().unwrap().success());
}

#[test]
fn the_examples_find_the_daemon_by_themselves() {
    needs_toolchain!();
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("daemon.sock");
    let _daemon = Running::at(&socket);
    let peer = Peer::start(peer::Path { rtt: Duration::from_millis(5), lost: 0 });
    for (example, amount) in [("alf", "200"), ("rate", "20"), ("loop", "200")] {
        let program = program(&format!("examples/{example}.c"), Way::C);
        let mut command = command(&program);
        let said = run(command.env("TIMEOUS_SOCKET", &socket).args(["127.0.0.1", &peer.port(), amount]));
        assert!(said.starts_with("sent "), "{said}");
    }
}
