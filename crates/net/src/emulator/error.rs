//! Errors of emulators: mistakes of the caller, and refusals of the environment.

use std::io;
use std::net::SocketAddr;

use crate::capture::CaptureError;

/// Reason why an emulator cannot be created or continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// The two addresses are of different families.
    #[error("{listen} and {target} are of different families: give both as IPv4 or both as IPv6")]
    Families {
        /// Address that clients send to.
        listen: SocketAddr,
        /// Address of the target.
        target: SocketAddr,
    },
    /// Invalid name of a namespace.
    #[error("{name:?} cannot name a network namespace: use letters, digits, '-', '_' and '.'")]
    NamespaceName {
        /// The name.
        name: String,
    },
    /// Both ends are in the same namespace.
    #[error("both ends are in namespace {name:?}: give two")]
    OneNamespace {
        /// The name.
        name: String,
    },
    /// The address is in use, or does not belong to this machine.
    #[error("cannot listen on {address}: {source}; choose an address of this host, and a port that no program has")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The `ip` tool, which creates namespaces and sets addresses, is not installed.
    #[error("the ip tool is missing: install iproute2")]
    NoIpTool,
    /// This process lacks the privileges for namespaces and TUN devices.
    #[error("not permitted: {what}; run as root, or with CAP_NET_ADMIN and CAP_SYS_ADMIN")]
    NoRights {
        /// Action that failed.
        what: String,
    },
    /// The `ip` tool rejected a command.
    #[error("`ip {command}` failed: {said}")]
    IpTool {
        /// The command.
        command: String,
        /// Its error output.
        said: String,
    },
    /// The system rejected another action.
    #[error("cannot {what}: {source}")]
    System {
        /// Action that failed.
        what: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// The capture cannot be written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
}

impl EmulatorError {
    /// Creates an error for `map_err`: the system refused to `what`.
    pub(super) fn system<E: Into<io::Error>>(what: &'static str) -> impl Fn(E) -> Self {
        move |source| {
            let source: io::Error = source.into();
            match source.kind() {
                io::ErrorKind::PermissionDenied => Self::NoRights { what: what.to_owned() },
                _ => Self::System { what, source },
            }
        }
    }
}
