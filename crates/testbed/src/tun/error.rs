//! Errors of a host on a TUN device.

use std::io;

use timeous_core::Misuse;
use timeous_net::emulator::EmulatorError;
use timeous_tcp::ConnectError;

/// Errors of the environment and the caller.
#[derive(Debug, thiserror::Error)]
pub enum TunError {
    /// The device cannot be created, or fails; missing rights are named.
    #[error(transparent)]
    Device(#[from] EmulatorError),
    /// No further connection can be opened.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Polling failed.
    #[error("cannot wait for packets: {0}")]
    Wait(io::Error),
    /// The clock went backwards.
    #[error(transparent)]
    Misuse(#[from] Misuse),
}
