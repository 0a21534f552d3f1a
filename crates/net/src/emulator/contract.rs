//! Interface of all emulators.

use timeous_core::Instant;

use super::error::EmulatorError;
use super::pump::{Ended, Snapshot};
use super::stop::Stop;
use crate::path::Direction;

/// A path that carries real packets, driven by the thread that calls it.
pub trait Emulator {
    /// Time since the emulator was created. Rate traces begin at zero.
    fn now(&self) -> Instant;

    /// Carries packets until `until`, or until `stop` is requested.
    fn run_until(&mut self, until: Instant, stop: &Stop) -> Result<Ended, EmulatorError>;

    /// State of the link of one direction.
    fn snapshot(&self, direction: Direction) -> Snapshot;

    /// Packets that the emulator could not carry, for reasons other than the link: see its own counters.
    fn strays(&self) -> u64;

    /// Flushes the capture, if there is one.
    fn flush(&mut self) -> Result<(), EmulatorError>;
}
