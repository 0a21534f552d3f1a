//! Child processes: started with a log, waited for, interrupted, and never left behind.

use std::fs::{self, File};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};
use timeous::clock;
use timeous::core::Duration;

use crate::error::DemoError;

/// Polling interval.
const LOOK: Duration = Duration::from_millis(10);

/// A child process. It is killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    command: String,
}

impl Process {
    /// Starts `program` with these arguments; its output goes to `log`.
    pub(crate) fn start(name: &str, program: &Path, words: &[String], log: &Path) -> Result<Self, DemoError> {
        let out = File::create(log).map_err(DemoError::file(log))?;
        let err = out.try_clone().map_err(DemoError::file(log))?;
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null()).stdout(out).stderr(err);
        Self::spawn(name, command, words, log)
    }

    /// Starts `program` with pipes for standard input and output; its standard error goes to `log`.
    pub(crate) fn start_piped(
        name: &str,
        program: &Path,
        words: &[String],
        log: &Path,
    ) -> Result<(Self, ChildStdin, ChildStdout), DemoError> {
        let err = File::create(log).map_err(DemoError::file(log))?;
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(err);
        let mut process = Self::spawn(name, command, words, log)?;
        let input = process.child.stdin.take().expect("it was asked for");
        let output = process.child.stdout.take().expect("it was asked for");
        Ok((process, input, output))
    }

    fn spawn(name: &str, mut command: Command, words: &[String], log: &Path) -> Result<Self, DemoError> {
        let child = command.spawn().map_err(DemoError::file(Path::new(command.get_program())))?;
        Ok(Self { name: name.to_owned(), child, log: log.to_owned(), command: words.join(" ") })
    }

    /// Exit status, once it has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>, DemoError> {
        self.child.try_wait().map_err(DemoError::file(&self.log))
    }

    /// Waits until `ready` returns a value.
    ///
    /// # Errors
    /// [`DemoError::Program`] if the child ends before that, or after `limit`.
    pub(crate) fn wait_until<T>(
        &mut self,
        limit: Duration,
        stop: &AtomicBool,
        mut ready: impl FnMut(&Self) -> Result<Option<T>, DemoError>,
    ) -> Result<T, DemoError> {
        let end = clock::now() + limit;
        loop {
            if let Some(value) = ready(self)? {
                return Ok(value);
            }
            if let Some(status) = self.ended()? {
                return Err(self.failed(&format!("ended before it was ready ({status})")));
            }
            if clock::now() > end {
                return Err(self.failed("is not ready after a long time"));
            }
            pause(stop)?;
        }
    }

    /// Waits for its end, which must be successful.
    ///
    /// # Errors
    /// [`DemoError::Program`] if it fails, or does not end within `limit`.
    pub(crate) fn wait(&mut self, limit: Duration, stop: &AtomicBool) -> Result<(), DemoError> {
        let end = clock::now() + limit;
        loop {
            match self.ended()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(self.failed(&format!("failed ({status})"))),
                None if clock::now() > end => return Err(self.failed("does not end")),
                None => pause(stop)?,
            }
        }
    }

    /// Asks it to end. Not by SIGINT, which background jobs of a shell without a terminal ignore.
    pub(crate) fn interrupt(&self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may be gone already. Until it is waited for, its process ID is not reused.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Its output so far.
    pub(crate) fn output_so_far(&self) -> Result<String, DemoError> {
        fs::read_to_string(&self.log).map_err(DemoError::file(&self.log))
    }

    /// Its command line.
    pub(crate) fn command(&self) -> &str {
        &self.command
    }

    fn failed(&self, what: &str) -> DemoError {
        let output_so_far = self.output_so_far().unwrap_or_default();
        let lines: Vec<&str> = output_so_far.lines().collect();
        let end = lines[lines.len().saturating_sub(5)..].join("\n");
        DemoError::Program { program: self.name.clone(), what: what.to_owned(), log: self.log.clone(), end }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Neither call affects a child that was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for a moment.
///
/// # Errors
/// [`DemoError::Interrupted`] once `stop` is set.
#[expect(clippy::disallowed_methods, reason = "other programs are waited for, in real time")]
fn pause(stop: &AtomicBool) -> Result<(), DemoError> {
    if stop.load(Ordering::Relaxed) {
        return Err(DemoError::Interrupted);
    }
    thread::sleep(LOOK.into());
    Ok(())
}

/// Returns a flag that is set when this program is asked to end.
pub(crate) fn set_by_signals() -> Result<Arc<AtomicBool>, DemoError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(DemoError::Ports)?;
    }
    Ok(stop)
}

/// Does all of `work` at the same time. The first that fails ends the others by `stop`.
///
/// # Errors
/// That of the first that was not just ended.
pub(crate) fn all_at_once<W: Send, T: Send>(
    work: impl IntoIterator<Item = W>,
    stop: &AtomicBool,
    one: impl Fn(W) -> Result<T, DemoError> + Sync,
) -> Result<Vec<T>, DemoError> {
    let one = |work: W| one(work).inspect_err(|_| stop.store(true, Ordering::Relaxed));
    let outcomes: Vec<Result<T, DemoError>> = thread::scope(|scope| {
        let one = &one;
        let started: Vec<_> = work.into_iter().map(|work| scope.spawn(move || one(work))).collect();
        started.into_iter().map(|run| run.join().expect("a run does not panic")).collect()
    });
    let (done, mut errors): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    // An interrupted run does not explain the failure.
    errors.sort_by_key(|error| matches!(error, Err(DemoError::Interrupted)));
    errors.into_iter().chain(done).collect()
}

/// Finds distinct UDP ports of the loopback that are free now.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N], DemoError> {
    let open = || UdpSocket::bind(("127.0.0.1", 0)).and_then(|socket| Ok((socket.local_addr()?.port(), socket)));
    // All stay open until the last is found, so that none is found twice.
    let sockets: Vec<(u16, UdpSocket)> = (0..N).map(|_| open()).collect::<Result<_, _>>().map_err(DemoError::Ports)?;
    Ok(std::array::from_fn(|index| sockets[index].0))
}

/// Whether some program has this UDP port open, by the kernel's table: trying it would take it from the program.
pub(crate) fn is_open(port: u16) -> Result<bool, DemoError> {
    let table = fs::read_to_string("/proc/net/udp").map_err(DemoError::Ports)?;
    // A host without IPv6 has no second table.
    let table6 = fs::read_to_string("/proc/net/udp6").unwrap_or_default();
    Ok(has_port(&table, port) || has_port(&table6, port))
}

/// Whether a table such as /proc/net/udp has a socket at this local port.
fn has_port(table: &str, port: u16) -> bool {
    let end = format!(":{port:04X}");
    table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).any(|local| local.ends_with(&end))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> (tempfile::TempDir, Process) {
        let directory = tempfile::tempdir().unwrap();
        let words = ["-c", script].map(str::to_owned);
        let process = Process::start("sh", Path::new("/bin/sh"), &words, &directory.path().join("log")).unwrap();
        (directory, process)
    }

    #[test]
    fn a_child_is_waited_for_and_its_words_are_kept() {
        let stop = AtomicBool::new(false);
        let (_directory, mut child) = shell("echo ready; exec sleep 60");
        let output_so_far = child.wait_until(SOON, &stop, |child| {
            Ok(Some(child.output_so_far()?).filter(|output_so_far| !output_so_far.is_empty()))
        });
        assert_eq!(output_so_far.unwrap(), "ready\n");
        child.interrupt();
        let error = child.wait(SOON, &stop).unwrap_err().to_string();
        assert!(error.contains("signal: 15") && error.ends_with("ready"), "{error}");
    }

    #[test]
    fn a_child_that_ends_badly_is_an_error_with_its_last_words() {
        let stop = AtomicBool::new(false);
        let (_directory, mut child) = shell("echo no port >&2; exit 4");
        let error = child.wait_until(SOON, &stop, |_| Ok(None::<()>)).unwrap_err().to_string();
        assert!(error.contains("sh ended before it was ready") && error.contains("no port"), "{error}");
        let (_directory, mut child) = shell("exit 0");
        assert!(child.wait(SOON, &stop).is_ok());
    }

    #[test]
    fn whoever_stops_waits_no_longer_and_leaves_no_child() {
        let (_directory, mut child) = shell("exec sleep 60");
        let pid = child.child.id();
        assert!(matches!(child.wait(SOON, &AtomicBool::new(true)), Err(DemoError::Interrupted)));
        drop(child);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn ports_are_seen_while_they_are_open() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(is_open(socket.local_addr().unwrap().port()).unwrap());
        let mut ports = free_ports::<4>().unwrap().to_vec();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 4);
        let table = "  sl  local_address rem_address\n 1: 0100007F:0050 00000000:01BB 07\n";
        assert!(has_port(table, 80) && !has_port(table, 443), "the other end's port does not count");
    }
}
