//! The daemon, as a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use timeous_daemon::{Config, Daemon};

use crate::experiment::LabError;

/// The command that is the daemon. It is no experiment, and people need not know of it.
pub(crate) const COMMAND: &str = "daemon-member";

/// What it is told: where its socket is to be.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct DaemonArgs {
    path: PathBuf,
}

/// Is the daemon until nobody holds its standard input any more.
///
/// # Errors
/// What the machine lacks.
pub(crate) fn serve(args: &DaemonArgs) -> Result<(), LabError> {
    let refused = |error: timeous_daemon::DaemonError| LabError::Machine(error.to_string());
    let daemon = Daemon::bind(Config::at(&args.path)).map_err(refused)?;
    let stopper = daemon.stopper();
    println!("ready");
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        stopper.stop();
    });
    daemon.run().map_err(refused)
}

/// A daemon that ends when this is dropped.
pub(super) struct Served {
    child: Child,
    input: Option<ChildStdin>,
}

impl Served {
    /// Starts one, whose socket is at `path`.
    pub(super) fn start(path: &Path) -> Result<Self, LabError> {
        let failed = LabError::system;
        let program = std::env::current_exe().map_err(failed("find this program"))?;
        let mut command = Command::new(program);
        command.arg(COMMAND).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed("start a daemon"))?;
        let output = child.stdout.take().expect("it was asked for");
        let served = Self { input: child.stdin.take(), child };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).map_err(failed("hear of a daemon"))?;
        if line.trim() == "ready" { Ok(served) } else { Err(LabError::Machine("the daemon does not start".to_owned())) }
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
