//! Child processes that end with their owner, processes of the same program among them, and processor time.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;
use timeous_core::Duration;

use crate::error::RunError;
use crate::machine::machine;

/// Child process, killed when dropped.
#[derive(Debug)]
pub struct ChildProcess(Child);

impl From<Child> for ChildProcess {
    fn from(child: Child) -> Self {
        Self(child)
    }
}

impl ChildProcess {
    /// Returns its process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Returns whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // Neither call affects a child that was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a command that runs this program with a hidden subcommand.
///
/// # Errors
/// This program is not found.
pub fn own_command(subcommand: &str) -> Result<Command, RunError> {
    let mut command = Command::new(std::env::current_exe().map_err(RunError::system("find this program"))?);
    command.arg(subcommand);
    Ok(command)
}

/// Returns the path of the tool `timeous`, which is built beside this program.
///
/// # Errors
/// It was not built.
pub fn tool() -> Result<PathBuf, RunError> {
    let own = std::env::current_exe().map_err(RunError::system("find this program"))?;
    let tool = own.with_file_name(format!("timeous{}", std::env::consts::EXE_SUFFIX));
    match tool.is_file() {
        true => Ok(tool),
        false => Err(machine(format_args!("there is no {}: build it with `cargo build --release`", tool.display()))),
    }
}

/// Process of this program, run by a hidden subcommand. It is told to go on and tells its results by lines; it ends when
/// its standard input does.
#[derive(Debug)]
pub struct Member {
    child: ChildProcess,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Member {
    /// Starts a process.
    ///
    /// # Errors
    /// The system refuses.
    pub fn start(subcommand: &str, arguments: &[String]) -> Result<Self, RunError> {
        let mut command = own_command(subcommand)?;
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(RunError::system("start a process of this program"))?;
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("its output is piped"));
        Ok(Self { child: child.into(), input, output: BufReader::new(output) })
    }

    /// Returns its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its next line.
    ///
    /// # Errors
    /// It has ended.
    pub fn hear(&mut self) -> Result<String, RunError> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(RunError::system("hear a process of this program"))?;
        if line.is_empty() {
            return Err(RunError::Machine("a process ended too early: it says why above".to_owned()));
        }
        Ok(line.trim_end().to_owned())
    }

    /// Lets it take its next step.
    ///
    /// # Errors
    /// It has ended.
    pub fn go(&mut self) -> Result<(), RunError> {
        let input = self.input.as_mut().expect("it is open until the end");
        input.write_all(b"go\n").map_err(RunError::system("tell a process of this program"))
    }

    /// Ends it in order, and returns its last line.
    ///
    /// # Errors
    /// It has no last line.
    pub fn end(mut self) -> Result<String, RunError> {
        drop(self.input.take());
        let line = self.hear();
        self.child.0.wait().map_err(RunError::system("wait for a process of this program"))?;
        line
    }
}

/// Clock of processor time.
#[derive(Clone, Copy, Debug)]
pub struct Clock(ClockId);

impl Clock {
    /// Clock of this process, over all threads.
    pub const PROCESS: Self = Self(ClockId::CLOCK_PROCESS_CPUTIME_ID);
    /// Clock of the calling thread.
    pub const THREAD: Self = Self(ClockId::CLOCK_THREAD_CPUTIME_ID);

    /// Returns the clock of another process.
    ///
    /// # Errors
    /// There is no such process.
    pub fn of(process: u32) -> Result<Self, RunError> {
        let clock = clock_getcpuclockid(Pid::from_raw(process as i32));
        clock.map(Self).map_err(|error| RunError::system("find the clock of a process")(error.into()))
    }

    /// Returns the processor time so far.
    pub fn read(self) -> Duration {
        let time = self.0.now().expect("the clock of a process that lives can be read");
        Duration::from_secs(time.tv_sec() as u64) + Duration::from_nanos(time.tv_nsec() as u64)
    }
}
