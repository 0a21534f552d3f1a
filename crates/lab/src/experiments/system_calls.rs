//! Counter of the system calls of a child process and all its threads, by `PTRACE_SYSCALL`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::process::{Child, Command, Stdio};

use nix::errno::Errno;
use nix::libc::{self, c_long};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::experiment::RunError;

/// System calls between the second and the third [`mark`] of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct SystemCalls {
    /// Number of calls by name, failed ones included.
    pub(crate) calls: BTreeMap<&'static str, u64>,
    /// Bytes copied into the kernel: results of the calls that write or send.
    pub(crate) bytes_in: u64,
    /// Bytes copied out of the kernel: results of the calls that read or receive.
    pub(crate) bytes_out: u64,
}

/// Direction in which a system call copies as many bytes as it returns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copies {
    In,
    Out,
    /// None, or not the number that it returns.
    Unknown,
}

/// System calls with a name of their own in the counts; any other is `other`.
const NAMES: &[(c_long, &str, Copies)] = &[
    (libc::SYS_write, "write", Copies::In),
    (libc::SYS_writev, "writev", Copies::In),
    (libc::SYS_sendto, "sendto", Copies::In),
    (libc::SYS_sendmsg, "sendmsg", Copies::In),
    (libc::SYS_sendmmsg, "sendmmsg", Copies::Unknown),
    (libc::SYS_read, "read", Copies::Out),
    (libc::SYS_readv, "readv", Copies::Out),
    (libc::SYS_recvfrom, "recvfrom", Copies::Out),
    (libc::SYS_recvmsg, "recvmsg", Copies::Out),
    (libc::SYS_recvmmsg, "recvmmsg", Copies::Unknown),
    (libc::SYS_ppoll, "ppoll", Copies::Unknown),
    (libc::SYS_futex, "futex", Copies::Unknown),
    (libc::SYS_sched_yield, "sched_yield", Copies::Unknown),
    (libc::SYS_gettimeofday, "gettimeofday", Copies::Unknown),
    (libc::SYS_clock_gettime, "clock_gettime", Copies::Unknown),
    (libc::SYS_ioctl, "ioctl", Copies::Unknown),
];

/// Returns the number of a stopped thread's system call, and its result so far.
#[cfg(target_arch = "x86_64")]
fn system_call(thread: Pid) -> Result<(c_long, i64), Errno> {
    ptrace::getregs(thread).map(|of| (of.orig_rax as c_long, of.rax as i64))
}

#[cfg(target_arch = "aarch64")]
fn system_call(thread: Pid) -> Result<(c_long, i64), Errno> {
    ptrace::getregs(thread).map(|of| (of.regs[8] as c_long, of.regs[0] as i64))
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn system_call(_: Pid) -> Result<(c_long, i64), Errno> {
    Err(Errno::ENOSYS)
}

/// Asks the parent to trace this process; to be called by a counted process before it starts a thread.
///
/// # Errors
/// The parent may not trace, or the process is traced already.
pub(crate) fn be_traced() -> Result<(), RunError> {
    ptrace::traceme().map_err(failed)?;
    mark()
}

/// Marks the beginning of the counts, and at the second call their end.
///
/// # Errors
/// None that a process without filters of system calls would see.
pub(crate) fn mark() -> Result<(), RunError> {
    raise(Signal::SIGSTOP).map_err(failed)
}

/// Runs a process that calls [`be_traced`] and twice [`mark`]; returns the counts and its standard output.
///
/// # Errors
/// The process fails or does not mark, or this machine forbids to trace.
pub(crate) fn count(command: &mut Command) -> Result<(SystemCalls, String), RunError> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child: Child = child.map_err(RunError::system("start a process to count"))?;
    let process = Pid::from_raw(child.id() as i32);
    let mut tracer = Tracer { process, marks: 0, inside: BTreeSet::new(), counts: SystemCalls::default() };
    let traced = tracer.run();
    if traced.is_err() {
        // The error tells more than that of a process that is gone.
        let _ = child.kill();
    }
    traced?;
    let (mut output, mut text) = (child.stdout.take().expect("it is piped"), String::new());
    output.read_to_string(&mut text).map_err(RunError::system("hear a counted process"))?;
    Ok((tracer.counts, text))
}

fn failed(error: Errno) -> RunError {
    RunError::System { what: "trace a process", source: error.into() }
}

/// State of a traced process.
struct Tracer {
    process: Pid,
    /// Marks so far: options are set at the first, counts are made between the second and the third.
    marks: u32,
    /// Threads within a system call.
    inside: BTreeSet<Pid>,
    counts: SystemCalls,
}

impl Tracer {
    /// Follows all threads until the process ends.
    fn run(&mut self) -> Result<(), RunError> {
        // Children of this thread only: other threads wait for theirs.
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        loop {
            let status = waitpid(None, Some(flags)).map_err(failed)?;
            match status {
                WaitStatus::Exited(process, code) if process == self.process => {
                    let whole = code == 0 && self.marks == 3;
                    let error = || RunError::Machine("a counted process failed: it says why above".to_owned());
                    return whole.then_some(()).ok_or_else(error);
                }
                WaitStatus::Signaled(process, signal, _) if process == self.process => {
                    return Err(RunError::Machine(format!("a counted process was killed: {signal}")));
                }
                WaitStatus::PtraceSyscall(thread) => {
                    self.at_system_call(thread)?;
                    resume(thread, None)?;
                }
                WaitStatus::Stopped(thread, Signal::SIGSTOP) => {
                    if thread == self.process {
                        self.at_mark()?;
                    }
                    // A new thread begins with this signal, too.
                    resume(thread, None)?;
                }
                WaitStatus::Stopped(thread, signal) => resume(thread, Some(signal))?,
                WaitStatus::PtraceEvent(thread, _, _) => resume(thread, None)?,
                _ => {}
            }
        }
    }

    fn at_mark(&mut self) -> Result<(), RunError> {
        self.marks += 1;
        if self.marks == 1 {
            let options = Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_EXITKILL;
            ptrace::setoptions(self.process, options).map_err(failed)?;
        }
        Ok(())
    }

    fn at_system_call(&mut self, thread: Pid) -> Result<(), RunError> {
        let enters = self.inside.insert(thread);
        if !enters {
            self.inside.remove(&thread);
        }
        if self.marks != 2 {
            return Ok(());
        }
        let (number, result) = system_call(thread).map_err(failed)?;
        let known = NAMES.iter().find(|entry| entry.0 == number);
        let (name, copies) = known.map_or(("other", Copies::Unknown), |entry| (entry.1, entry.2));
        match copies {
            _ if enters => *self.counts.calls.entry(name).or_default() += 1,
            Copies::In => self.counts.bytes_in += result.max(0) as u64,
            Copies::Out => self.counts.bytes_out += result.max(0) as u64,
            Copies::Unknown => {}
        }
        Ok(())
    }
}

/// Lets a thread go on to its next system call; it may have ended meanwhile.
fn resume(thread: Pid, signal: Option<Signal>) -> Result<(), RunError> {
    match ptrace::syscall(thread, signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}
