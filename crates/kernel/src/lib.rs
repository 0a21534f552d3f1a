//! The kernel's TCP as a client of the Congestion Manager (Andersen et al. §3.2): a congestion control in BPF
//! (struct_ops), whose connections to one destination share a macroflow's window with each other and with the daemon's
//! flows. And datagrams of plain sockets, counted for the same manager.
//!
//! The BPF programs are written in C, in `bpf/`; they are compiled and loaded with the feature `bpf`. Without the feature,
//! functions of this crate return an error.

#![forbid(unsafe_code)]

use std::path::{Path as FilePath, PathBuf};

mod error;
mod settings;
mod view;

#[cfg(feature = "bpf")]
mod companion;
#[cfg(feature = "bpf")]
mod datagrams;
#[cfg(feature = "bpf")]
mod program;
#[cfg(feature = "bpf")]
mod words;

#[cfg(not(feature = "bpf"))]
mod absent;

#[cfg(not(feature = "bpf"))]
pub use absent::{Companion, DatagramCounter, Installed};
#[cfg(feature = "bpf")]
pub use companion::Companion;
#[cfg(feature = "bpf")]
pub use datagrams::DatagramCounter;
pub use error::KernelError;
#[cfg(feature = "bpf")]
pub use program::Installed;
pub use settings::{Settings, SocketSelection};
pub use view::{Flow, Macroflow, Path};

/// Name of the congestion control: for `TCP_CONGESTION`, `congctl` of routes and the sysctl.
pub const NAME: &str = "timeous";

/// Default path at which the loaded program is pinned.
pub const PINNED: &str = "/sys/fs/bpf/timeous";

/// Returns the default path at which a program is pinned: [`PINNED`] for [`NAME`].
pub fn pinned(name: &str) -> PathBuf {
    FilePath::new(PINNED).with_file_name(name)
}

/// Returns the default path of the file that records changes to system settings.
pub fn changes(name: &str) -> PathBuf {
    PathBuf::from(format!("/run/timeous/kernel-tcp-{name}.json"))
}
