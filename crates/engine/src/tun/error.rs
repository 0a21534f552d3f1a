//! What can go wrong with a host on a TUN device.

use std::io;

use timeous_core::Misuse;
use timeous_net::emulator::EmulatorError;
use timeous_tcp::ConnectError;

/// The environment's faults, and the caller's.
#[derive(Debug, thiserror::Error)]
pub enum TunError {
    /// The device cannot be made, or fails; without rights it says so.
    #[error(transparent)]
    Device(#[from] EmulatorError),
    /// No further connection can be begun.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The system refuses to wait.
    #[error("cannot wait for packets: {0}")]
    Wait(io::Error),
    /// The clock went back.
    #[error(transparent)]
    Misuse(#[from] Misuse),
}
