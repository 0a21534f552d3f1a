//! Errors of the kernel's TCP as a client: the machine's refusals, and the caller's mistakes.

use std::io;
use std::path::PathBuf;

/// Reason why the kernel's TCP is not, or cannot be, a client of the Congestion Manager.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// This program was built without the feature.
    #[error(
        "this program was built without kernel TCP and counted datagrams: build it with the feature `bpf` (needs clang and libbpf-dev)"
    )]
    NotBuilt,
    /// The process may not load programs into the kernel.
    #[error("not permitted: {what}; run as root, or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN")]
    NoRights {
        /// Attempted operation.
        what: &'static str,
    },
    /// The kernel lacks a feature that the program needs.
    #[error(
        "this kernel cannot run a TCP congestion control of ours: {why}; it needs Linux 6.12 or later with BPF, BTF and struct_ops"
    )]
    Unsupported {
        /// The kernel's error.
        why: String,
    },
    /// The kernel lacks a feature that counting datagrams needs.
    #[error("this kernel cannot count datagrams of a cgroup: {why}; it needs BPF, and cgroups of version 2")]
    CannotCount {
        /// The kernel's error.
        why: String,
    },
    /// A congestion control of this name is loaded already.
    #[error(
        "a congestion control named {name:?} is loaded already: see `timeous cm kernel-tcp --status`, or take it away by `--remove`"
    )]
    AlreadyLoaded {
        /// Its name.
        name: String,
    },
    /// The program is not loaded.
    #[error("the kernel's TCP is not a client of the Congestion Manager: nothing is pinned at {}", at.display())]
    NotLoaded {
        /// Directory in which it was expected.
        at: PathBuf,
    },
    /// The pinned program is of another version.
    #[error("what is pinned at {} was loaded by another version of Timeous: take it away by `--remove` and load it again", at.display())]
    OtherVersion {
        /// Directory where it is pinned.
        at: PathBuf,
    },
    /// Invalid name for a congestion control.
    #[error("{name:?} cannot name a congestion control: give 1 to 15 letters, digits or '_'")]
    Name {
        /// The name.
        name: String,
    },
    /// No route to a destination, or none that can be changed.
    #[error("{destination:?} has no route that could be changed: {said}")]
    Route {
        /// Requested destination.
        destination: String,
        /// Output of `ip`.
        said: String,
    },
    /// The settings to undo belong to another network namespace.
    #[error(
        "what was changed was changed in another network namespace ({there}): undo it there, for example by `ip netns exec`"
    )]
    OtherNamespace {
        /// Its number, as `lsns` shows it.
        there: u64,
    },
    /// Another error of the system.
    #[error("cannot {what}: {source}")]
    System {
        /// Attempted operation.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl KernelError {
    /// Returns a function that converts an I/O error of the operation `what`.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NoRights { what },
            _ => Self::System { what, source },
        }
    }

    /// Returns whether the machine lacks the capability, whatever the caller requests: the only reason to skip tests.
    pub fn is_incapable(&self) -> bool {
        matches!(self, Self::NotBuilt | Self::NoRights { .. } | Self::Unsupported { .. } | Self::CannotCount { .. })
    }
}
