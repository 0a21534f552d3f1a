//! Daemon and clients, each in a process of its own, and their observable state. Dropping ends all
//! processes.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde::de::DeserializeOwned;
use tempfile::TempDir;
use timeous::clock;
use timeous::core::Duration;
use timeous_daemon::view::View;
use timeous_ipc::{Client, Options};
use timeous_testbed::machine::{machine, sleep};
use timeous_testbed::process::{ChildProcess, Member, tool};

use super::messages::{COMMAND, FinalReport, ProgressReport, Work};
use crate::experiment::RunError;

/// Longest wait for any step.
const PATIENCE: Duration = Duration::from_secs(20);

/// Running `timeous daemon`.
pub(crate) struct DaemonHost {
    daemon: ChildProcess,
    directory: TempDir,
}

impl DaemonHost {
    /// Starts a daemon that shares no windows with the kernel's TCP.
    pub(crate) fn start() -> Result<Self, RunError> {
        Self::start_with(&["--no-kernel-tcp".to_owned()])
    }

    /// Starts a daemon with these options, too.
    pub(crate) fn start_with(options: &[String]) -> Result<Self, RunError> {
        let failed = || RunError::system("start the daemon");
        let directory = tempfile::tempdir().map_err(failed())?;
        // Other users must be able to reach the socket.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o711)).map_err(failed())?;
        let log = File::create(directory.path().join("log")).map_err(failed())?;
        let daemon = Command::new(tool()?)
            .args(["daemon", "--no-store", "--socket"])
            .arg(directory.path().join("socket"))
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(failed())?;
        let host = Self { daemon: daemon.into(), directory };
        host.until("the daemon serves", || Ok(host.client().is_ok()))?;
        Ok(host)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn client(&self) -> Result<Client, RunError> {
        let options = Options { path: self.socket(), name: "timeous-lab".to_owned(), timeout: PATIENCE };
        Client::connect(options).map_err(|error| {
            let log = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
            RunError::Machine(format!("the daemon: {error}\n{log}"))
        })
    }

    /// Returns the view of `timeous top --once --json`; the observer counts as a client.
    pub(crate) fn view(&self) -> Result<View, RunError> {
        let bad = |error: String| RunError::Machine(format!("what the daemon shows: {error}"));
        let bytes = self.client()?.snapshot().map_err(|error| bad(error.to_string()))?;
        serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))
    }

    pub(crate) fn resident(&self) -> Result<u64, RunError> {
        resident(&self.daemon.id().to_string())
    }

    pub(crate) fn descriptors(&self) -> Result<usize, RunError> {
        descriptors(&self.daemon.id().to_string())
    }

    pub(crate) fn cpu(&self) -> Result<Duration, RunError> {
        cpu(&self.daemon.id().to_string())
    }

    /// Waits until a condition holds, and returns how long that took.
    pub(crate) fn until(
        &self,
        what: &str,
        mut holds: impl FnMut() -> Result<bool, RunError>,
    ) -> Result<Duration, RunError> {
        let begin = clock::now();
        while !holds()? {
            if clock::now() > begin + PATIENCE {
                return Err(RunError::Machine(format!("waited in vain until {what}")));
            }
            sleep(Duration::from_millis(2));
        }
        Ok(clock::now() - begin)
    }
}

/// Client process.
pub(crate) struct ClientProcess(Member);

impl ClientProcess {
    /// Starts a client process.
    pub(crate) fn start(work: &Work) -> Result<Self, RunError> {
        Ok(Self(Member::start(COMMAND, &[serde_json::to_string(work).map_err(machine)?])?))
    }

    /// Waits until it is connected, and returns its memory in bytes.
    pub(crate) fn connected(&mut self) -> Result<u64, RunError> {
        Ok(report::<ProgressReport>(&self.0.hear()?)?.memory)
    }

    /// Lets it open its flows, and returns its memory in bytes.
    pub(crate) fn open(&mut self) -> Result<u64, RunError> {
        self.0.go()?;
        self.connected()
    }

    /// Lets it start sending.
    pub(crate) fn go(&mut self) -> Result<(), RunError> {
        self.0.go()
    }

    /// Starts a client and opens its flows.
    pub(crate) fn opened(work: &Work) -> Result<Self, RunError> {
        let mut member = Self::start(work)?;
        member.connected()?;
        member.open()?;
        Ok(member)
    }

    /// Ends it in order, and returns its results.
    pub(crate) fn end(self) -> Result<FinalReport, RunError> {
        report(&self.0.end()?)
    }
}

fn report<T: DeserializeOwned>(line: &str) -> Result<T, RunError> {
    serde_json::from_str(line).map_err(machine)
}

/// Returns the resident memory of a process in bytes; `pid` is its number or `self`.
pub(crate) fn resident(pid: &str) -> Result<u64, RunError> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(RunError::system("read /proc"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|word| word.parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| RunError::Machine("/proc does not tell the memory of a process".to_owned()))
}

/// Returns the number of open descriptors of a process.
pub(crate) fn descriptors(pid: &str) -> Result<usize, RunError> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd")).map_err(RunError::system("read /proc"))?.count())
}

/// Returns the processor time of all threads of a process.
pub(crate) fn cpu(pid: &str) -> Result<Duration, RunError> {
    let failed = || RunError::system("read /proc");
    let mut nanos = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).map_err(failed())? {
        let path = thread.map_err(failed())?.path().join("schedstat");
        // A thread may have ended since it was listed.
        let Ok(text) = fs::read_to_string(path) else { continue };
        nanos += text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory_descriptors_and_time() {
        assert!(resident("self").unwrap() > 0);
        assert!(descriptors("self").unwrap() > 2);
        cpu("self").unwrap();
        assert!(resident("0").is_err());
    }
}
