//! The kernel's TCP as a client of the Congestion Manager, for experiments on this machine's kernel.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpCongestion;
use rustix::net::{AddressFamily, SocketType, connect, socket};
use timeous::core::Duration;
use timeous_kernel::{Installed, KernelError, Macroflow, pinned};
use timeous_net::emulator::{EmulatorError, Namespace};

use crate::experiment::LabError;

/// Counter that makes names unique within this process.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Congestion control module, loaded under a name of its own and unloaded on drop.
#[derive(Debug)]
pub(super) struct Managed {
    name: String,
    installed: Option<Installed>,
}

impl Managed {
    /// Loads the module.
    ///
    /// # Errors
    /// [`LabError::Machine`] if this machine cannot load it, [`LabError::LeftOut`] if the program
    /// was built without it.
    pub(super) fn load() -> Result<Self, LabError> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("lab{}_{number}", std::process::id() % 1_000_000);
        let installed = Some(Installed::load(&pinned(&name), &name).map_err(refused)?);
        Ok(Self { name, installed })
    }

    /// Returns its name for `TCP_CONGESTION`.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the macroflows.
    pub(super) fn macroflows(&self) -> Result<Vec<Macroflow>, LabError> {
        self.installed().macroflows().map_err(refused)
    }

    /// Forgets all paths without connections.
    pub(super) fn forget(&self) -> Result<(), LabError> {
        self.installed().forget_idle(Duration::ZERO).map(drop).map_err(refused)
    }

    fn installed(&self) -> &Installed {
        self.installed.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        if let Some(installed) = self.installed.take()
            && let Err(error) = installed.remove("reno")
        {
            eprintln!("{} is still in the kernel: {error}", self.name);
        }
    }
}

#[allow(clippy::needless_pass_by_value)]
fn refused(error: KernelError) -> LabError {
    match error {
        KernelError::NotBuilt => LabError::LeftOut(error.to_string()),
        _ => LabError::Machine(error.to_string()),
    }
}

/// Converts an emulator error, whose text says what the machine lacks and how to fix it.
#[allow(clippy::needless_pass_by_value)]
pub(super) fn machine(error: EmulatorError) -> LabError {
    LabError::Machine(error.to_string())
}

/// Opens a TCP connection whose client uses the named congestion control; returns client and
/// server.
pub(super) fn pair(
    from: &Namespace,
    to: &Namespace,
    address: &str,
    congestion_control: &str,
) -> Result<(TcpStream, TcpStream), LabError> {
    let any: SocketAddr = format!("{address}:0").parse().expect("an address and a port");
    let failed = LabError::system;
    let listener = to.within(|| TcpListener::bind(any)).map_err(machine)?.map_err(failed("listen in a namespace"))?;
    let called = listener.local_addr().map_err(failed("look at a socket"))?;
    let call = || -> io::Result<TcpStream> {
        let fd = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        setsockopt(&fd, TcpCongestion, &congestion_control.into())?;
        connect(&fd, &called)?;
        Ok(TcpStream::from(fd))
    };
    let sending = from.within(call).map_err(machine)?.map_err(failed("connect to a namespace"))?;
    let (receiving, _) = listener.accept().map_err(failed("accept in a namespace"))?;
    Ok((sending, receiving))
}
