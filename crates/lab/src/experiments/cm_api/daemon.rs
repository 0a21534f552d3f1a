//! Daemon in a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use timeous_daemon::{Config, Daemon};
use timeous_testbed::machine::machine;

use crate::experiment::RunError;

/// Hidden command that runs the daemon; it is no experiment.
pub(crate) const COMMAND: &str = "daemon-member";

/// Arguments of the daemon's command: the path of its socket.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct DaemonArgs {
    path: PathBuf,
}

/// Runs the daemon until its standard input is closed.
///
/// # Errors
/// Missing features of the machine.
pub(crate) fn serve(args: &DaemonArgs) -> Result<(), RunError> {
    let daemon = Daemon::bind(Config::at(&args.path)).map_err(machine)?;
    let stopper = daemon.stopper();
    println!("ready");
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        stopper.stop();
    });
    daemon.run().map_err(machine)
}

/// Daemon process that ends when this is dropped.
pub(super) struct DaemonProcess {
    child: Child,
    input: Option<ChildStdin>,
}

impl DaemonProcess {
    /// Starts a daemon whose socket is at `path`.
    pub(super) fn start(path: &Path) -> Result<Self, RunError> {
        let failed = RunError::system;
        let program = std::env::current_exe().map_err(failed("find this program"))?;
        let mut command = Command::new(program);
        command.arg(COMMAND).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed("start a daemon"))?;
        let output = child.stdout.take().expect("it was asked for");
        let served = Self { input: child.stdin.take(), child };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).map_err(failed("hear of a daemon"))?;
        if line.trim() == "ready" { Ok(served) } else { Err(RunError::Machine("the daemon does not start".to_owned())) }
    }

    /// Returns its process id.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
