//! What can be in the way of the kernel's TCP: the machine's refusals, and the caller's mistakes.

use std::io;
use std::path::PathBuf;

/// Why the kernel's TCP is not, or cannot be, a client of the Congestion Manager.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// This program was built without the feature.
    #[error("this program was built without kernel TCP: build it with the feature `bpf` (needs clang and libbpf-dev)")]
    NotBuilt,
    /// The process may not load programs into the kernel.
    #[error("not permitted: {what}; run as root, or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN")]
    NoRights {
        /// What was tried.
        what: &'static str,
    },
    /// The kernel does not know what the program needs of it.
    #[error(
        "this kernel cannot run a TCP congestion control of ours: {why}; it needs Linux 6.12 or later with BPF, BTF and struct_ops"
    )]
    Unsupported {
        /// What it said.
        why: String,
    },
    /// It is there already.
    #[error(
        "a congestion control named {name:?} is loaded already: see `timeous cm kernel-tcp --status`, or take it away by `--remove`"
    )]
    AlreadyLoaded {
        /// Its name.
        name: String,
    },
    /// It is not there.
    #[error("the kernel's TCP is not a client of the Congestion Manager: nothing is pinned at {}", at.display())]
    NotLoaded {
        /// Where it was looked for.
        at: PathBuf,
    },
    /// What is pinned was loaded by another version.
    #[error("what is pinned at {} was loaded by another version of Timeous: take it away by `--remove` and load it again", at.display())]
    OtherVersion {
        /// Where.
        at: PathBuf,
    },
    /// A name that no congestion control can have.
    #[error("{name:?} cannot name a congestion control: give 1 to 15 letters, digits or '_'")]
    Name {
        /// The name.
        name: String,
    },
    /// There is no way to a destination, or no route of that kind.
    #[error("{destination:?} has no route that could be changed: {said}")]
    Route {
        /// What was asked for.
        destination: String,
        /// What `ip` said.
        said: String,
    },
    /// The settings to be undone belong to another network namespace.
    #[error(
        "what was changed was changed in another network namespace ({there}): undo it there, for example by `ip netns exec`"
    )]
    OtherNamespace {
        /// Its number, as `lsns` shows it.
        there: u64,
    },
    /// The system refused something else.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}

impl KernelError {
    /// What the system refused, told by its reason.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NoRights { what },
            _ => Self::System { what, source },
        }
    }

    /// Whether the machine cannot do it at all, whatever the caller asks: tests are skipped for nothing else.
    pub fn is_incapable(&self) -> bool {
        matches!(self, Self::NotBuilt | Self::NoRights { .. } | Self::Unsupported { .. })
    }
}
