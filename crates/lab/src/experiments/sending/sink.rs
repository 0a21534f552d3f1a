//! A network card that does nothing: packets end in it, whole bundles too, as on the paper's card emulator.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use timeous_net::emulator::Namespace;

use crate::experiment::LabError;

/// The device: an intermediate functional block to which nobody redirects drops what it is given. It offers checksums,
/// scatter/gather and segmentation, as the paper's card "pretends to perform" them.
const DEVICE: &str = "sink0";
const ADDRESS: &str = "10.9.9.1";
/// Where to send: anything behind the device.
const THERE: &str = "10.9.9.2:9";
/// Room for the largest payload with all headers, Timeous's too.
const MTU: &str = "1500";

/// A network namespace with such a card.
#[derive(Debug)]
pub(crate) struct Sink {
    namespace: Namespace,
}

impl Sink {
    /// Makes it, for this process.
    ///
    /// # Errors
    /// Rights, the `ip` tool, or the device are missing.
    pub(crate) fn make() -> Result<Self, LabError> {
        let name = format!("timeous-sink-{}", std::process::id());
        let sink = Self::enter(&name)?;
        let commands: [&[&str]; 4] = [
            &["link", "add", DEVICE, "type", "ifb"],
            // Before it is up: no queueing discipline, which would have a lock.
            &["link", "set", DEVICE, "txqueuelen", "0", "mtu", MTU],
            &["link", "set", DEVICE, "up"],
            &["address", "add", &format!("{ADDRESS}/24"), "dev", DEVICE],
        ];
        commands.iter().try_for_each(|command| ip(&name, command))?;
        Ok(sink)
    }

    /// The one that another process made under this name.
    ///
    /// # Errors
    /// Rights, or the `ip` tool, are missing.
    pub(crate) fn enter(name: &str) -> Result<Self, LabError> {
        let namespace = Namespace::open_or_make(name).map_err(|error| LabError::Machine(error.to_string()))?;
        Ok(Self { namespace })
    }

    /// Its name, for other processes.
    pub(crate) fn name(&self) -> &str {
        self.namespace.name()
    }

    /// Does something before the card. A socket made there stays there.
    pub(crate) fn before<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        self.namespace.within(work).map_err(|error| LabError::Machine(error.to_string()))
    }
}

/// From where, with a port of the system's choice, and where to.
pub(crate) fn ends() -> (SocketAddr, SocketAddr) {
    let local = format!("{ADDRESS}:0");
    (local.parse().expect("an address and a port"), THERE.parse().expect("an address and a port"))
}

fn ip(namespace: &str, words: &[&str]) -> Result<(), LabError> {
    let output = Command::new("ip").args(["-n", namespace]).args(words).stdin(Stdio::null()).output();
    let output = output.map_err(LabError::system("run ip"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(LabError::Machine(format!(
        "`ip {}` failed: {}; the experiment needs a device of the kind ifb (modprobe ifb)",
        words.join(" "),
        said.trim()
    )))
}
