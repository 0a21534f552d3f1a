//! A named network namespace, created if needed, and then removed again.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::fs::{Mode, OFlags, open};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::error::EmulatorError;

/// Shell script that removes the namespace `$0` when its input ends, however the process at the other end of the pipe
/// dies.
const KEEPER: &str = "trap '' INT TERM HUP; read _; exec ip netns delete \"$0\"";

/// A named network namespace, as `ip netns` knows it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    /// Process that removes a namespace that we created.
    keeper: Option<Child>,
}

impl Namespace {
    /// Opens the namespace of this name. If it did not exist it is created, and removed when this value is dropped or
    /// this process dies; an existing one is left in place.
    pub fn open_or_make(name: &str) -> Result<Self, EmulatorError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.starts_with(['-', '.']) || !name.chars().all(allowed) {
            return Err(EmulatorError::NamespaceName { name: name.to_owned() });
        }
        let mut namespace = Self { name: name.to_owned(), keeper: None };
        if !namespace.path().exists() {
            ip(&["netns", "add", name])?;
            namespace.keeper = Some(keep(name)?);
        }
        Ok(namespace)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `work` inside the namespace, in a thread of its own. A socket opened there stays there.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, EmulatorError> {
        let entered = || {
            let fd = open(self.path(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
            move_into_link_name_space(rustix::fd::AsFd::as_fd(&fd), Some(LinkNameSpaceType::Network))?;
            Ok::<T, io::Error>(work())
        };
        let result = std::thread::scope(|scope| scope.spawn(entered).join());
        match result {
            Ok(result) => result.map_err(EmulatorError::system("enter a network namespace")),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Sets a sysctl in this namespace, such as `net/ipv4/tcp_congestion_control`.
    pub fn set_sysctl(&self, name: &str, value: &str) -> Result<(), EmulatorError> {
        let write = || std::fs::write(PathBuf::from("/proc/sys").join(name), value);
        self.within(write)?.map_err(EmulatorError::system("set a variable of the kernel"))
    }

    /// Reads a sysctl of this namespace.
    pub fn sysctl(&self, name: &str) -> Result<String, EmulatorError> {
        let read = || std::fs::read_to_string(PathBuf::from("/proc/sys").join(name));
        let value = self.within(read)?.map_err(EmulatorError::system("read a variable of the kernel"))?;
        Ok(value.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// Runs the `ip` tool on this namespace, as in `ip(&["route", "add", …])`.
    pub fn ip(&self, arguments: &[&str]) -> Result<(), EmulatorError> {
        ip(&[&["-n", &self.name], arguments].concat())
    }

    fn path(&self) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.name)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Some(keeper) = &mut self.keeper {
            drop(keeper.stdin.take());
            // If it cannot be waited for, it is gone and has done its work.
            let _ = keeper.wait();
        }
    }
}

fn keep(name: &str) -> Result<Child, EmulatorError> {
    let keeper = Command::new("sh")
        .args(["-c", KEEPER, name])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // In a process group of its own, so that Ctrl-C does not reach it.
        .process_group(0)
        .spawn();
    keeper.map_err(|source| {
        // No keeper would remove it; only the first error is reported.
        let _ = ip(&["netns", "delete", name]);
        EmulatorError::system::<io::Error>("start sh")(source)
    })
}

/// Runs `ip`.
pub(super) fn ip(arguments: &[&str]) -> Result<(), EmulatorError> {
    let output = Command::new("ip").args(arguments).stdin(Stdio::null()).output();
    let output = match output {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(EmulatorError::NoIpTool),
        output => output.map_err(EmulatorError::system("run ip"))?,
    };
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let command = arguments.join(" ");
    if said.contains("Operation not permitted") || said.contains("Permission denied") {
        return Err(EmulatorError::NoRights { what: format!("ip {command}") });
    }
    Err(EmulatorError::IpTool { command, said })
}
