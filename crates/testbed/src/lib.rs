//! Testbed for experiments on this machine: emulated networks, our TCP on a device, captures, the bound of any schedule,
//! statistics, tables, plots and pages.

pub mod bound;
pub mod error;
pub mod machine;
pub mod network;
pub mod process;
pub mod programs;
pub mod progress;
pub mod report;
pub mod rig;
pub mod stats;
pub mod tun;
mod values;

pub use error::RunError;
pub use progress::Progress;
pub use stats::{Sorted, Stats, jain, least, mean, most};
