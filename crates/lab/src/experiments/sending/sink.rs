//! Network device that drops all packets, whole GSO bundles too, as on the paper's card emulator.

use std::net::SocketAddr;

use timeous_net::emulator::Namespace;
use timeous_testbed::machine::machine;

use crate::experiment::RunError;

/// Device name: an intermediate functional block (ifb) without redirection drops all packets. It
/// offers checksums, scatter/gather and segmentation, as the paper's card "pretends to perform"
/// them.
const DEVICE: &str = "sink0";
const ADDRESS: &str = "10.9.9.1";
/// Destination of all packets: any address behind the device.
const THERE: &str = "10.9.9.2:9";
/// MTU for the largest payload with all headers, including Timeous's.
const MTU: &str = "1500";

/// Network namespace with such a device.
#[derive(Debug)]
pub(crate) struct Sink {
    namespace: Namespace,
}

impl Sink {
    /// Creates it for this process.
    ///
    /// # Errors
    /// Missing rights, `ip` tool, or device.
    pub(crate) fn make() -> Result<Self, RunError> {
        let name = format!("timeous-sink-{}", std::process::id());
        let sink = Self::enter(&name)?;
        let commands: [&[&str]; 4] = [
            &["link", "add", DEVICE, "type", "ifb"],
            // Set before the device is up: then it has no queueing discipline, which would take a
            // lock.
            &["link", "set", DEVICE, "txqueuelen", "0", "mtu", MTU],
            &["link", "set", DEVICE, "up"],
            &["address", "add", &format!("{ADDRESS}/24"), "dev", DEVICE],
        ];
        let needs =
            |error| machine(format_args!("{error}; the experiment needs a device of the kind ifb (modprobe ifb)"));
        commands.iter().try_for_each(|command| sink.namespace.ip(command)).map_err(needs)?;
        Ok(sink)
    }

    /// Enters the namespace that another process created under this name.
    ///
    /// # Errors
    /// Missing rights, or `ip` tool.
    pub(crate) fn enter(name: &str) -> Result<Self, RunError> {
        let namespace = Namespace::open_or_make(name).map_err(machine)?;
        Ok(Self { namespace })
    }

    /// Returns its name, for other processes.
    pub(crate) fn name(&self) -> &str {
        self.namespace.name()
    }

    /// Runs `work` in the namespace. A socket opened there stays there.
    pub(crate) fn before<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, RunError> {
        self.namespace.within(work).map_err(machine)
    }
}

/// Returns source address, with a port of the system's choice, and destination.
pub(crate) fn ends() -> (SocketAddr, SocketAddr) {
    let local = format!("{ADDRESS}:0");
    (local.parse().expect("an address and a port"), THERE.parse().expect("an address and a port"))
}
