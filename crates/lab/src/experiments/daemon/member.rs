//! Daemon of this program, in a process of its own.

use std::io::Read;
use std::path::{Path, PathBuf};

use timeous_daemon::{Config, Daemon};
use timeous_testbed::machine::machine;
use timeous_testbed::process::Member;

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

/// Daemon process that ends in order when this is dropped.
pub(crate) struct DaemonProcess(Option<Member>);

impl DaemonProcess {
    /// Starts a daemon whose socket is at `path`.
    pub(crate) fn start(path: &Path) -> Result<Self, RunError> {
        let mut member = Member::start(COMMAND, &[path.to_string_lossy().into_owned()])?;
        member.hear()?;
        Ok(Self(Some(member)))
    }

    /// Returns its process id.
    pub(crate) fn id(&self) -> u32 {
        self.0.as_ref().expect("it runs until this is dropped").id()
    }
}

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        let _: Option<Result<String, RunError>> = self.0.take().map(Member::end);
    }
}
