//! What can go wrong with an emulator: the caller's mistakes and the environment's refusals.

use std::io;
use std::net::SocketAddr;

use crate::capture::CaptureError;

/// Why an emulator cannot be made or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// The caller gave two addresses that cannot be related.
    #[error("{listen} and {target} are of different families: give both as IPv4 or both as IPv6")]
    Families {
        /// Where clients send to.
        listen: SocketAddr,
        /// Where it goes.
        target: SocketAddr,
    },
    /// The caller's name for a namespace cannot be one.
    #[error("{name:?} cannot name a network namespace: use letters, digits, '-', '_' and '.'")]
    NamespaceName {
        /// The name.
        name: String,
    },
    /// The caller gave both ends one namespace.
    #[error("both ends are in namespace {name:?}: give two")]
    OneNamespace {
        /// The name.
        name: String,
    },
    /// An address is in use, or not one of this machine's.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// `ip`, which makes namespaces and sets addresses, is not installed.
    #[error("the ip tool is missing: install iproute2")]
    NoIpTool,
    /// Namespaces and TUN devices need rights that this process lacks.
    #[error("not permitted: {what}; run as root, or with CAP_NET_ADMIN and CAP_SYS_ADMIN")]
    NoRights {
        /// What was tried.
        what: String,
    },
    /// `ip` refused a command.
    #[error("`ip {command}` failed: {said}")]
    IpTool {
        /// The command.
        command: String,
        /// What it said.
        said: String,
    },
    /// The system refused something else.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The capture cannot be written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
}

impl EmulatorError {
    /// For `map_err`: the system refused to `what`.
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
