//! The kernel's TCP as a client of the Congestion Manager (Andersen et al. §3.2): a congestion control that the kernel
//! runs (BPF struct_ops), whose connections to one destination share a macroflow's window with each other and with the
//! daemon's own flows.
//!
//! The program itself is C, in `bpf/`; it is compiled and loaded where the feature `bpf` is on. Without it everything
//! here exists and says so.

#![forbid(unsafe_code)]

use std::path::{Path as FilePath, PathBuf};

mod error;
mod settings;
mod view;

#[cfg(feature = "bpf")]
mod companion;
#[cfg(feature = "bpf")]
mod program;
#[cfg(feature = "bpf")]
mod words;

#[cfg(not(feature = "bpf"))]
mod absent;

#[cfg(not(feature = "bpf"))]
pub use absent::{Companion, Installed};
#[cfg(feature = "bpf")]
pub use companion::Companion;
pub use error::KernelError;
#[cfg(feature = "bpf")]
pub use program::Installed;
pub use settings::{Settings, Wish};
pub use view::{Flow, Macroflow, Path};

/// The name of the congestion control: for `TCP_CONGESTION`, `congctl` of routes and the sysctl.
pub const NAME: &str = "timeous";

/// Where the loaded program is pinned, unless told otherwise.
pub const PINNED: &str = "/sys/fs/bpf/timeous";

/// Where a program of this name is pinned, unless told otherwise: [`PINNED`] for [`NAME`].
pub fn pinned(name: &str) -> PathBuf {
    FilePath::new(PINNED).with_file_name(name)
}

/// Where it is written down what of the system was changed for it, unless told otherwise.
pub fn changes(name: &str) -> PathBuf {
    PathBuf::from(format!("/run/timeous/kernel-tcp-{name}.json"))
}
