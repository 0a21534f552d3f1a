//! What every emulator does.

use timeous_core::Instant;

use super::error::EmulatorError;
use super::pump::{Ended, Snapshot};
use super::stop::Stop;
use crate::path::Direction;

/// A path that carries real packets, driven by the thread that calls it.
pub trait Emulator {
    /// The time, counted from when the emulator was made. Rate traces begin at its zero.
    fn now(&self) -> Instant;

    /// Carries packets until `until`, or until `stop` is asked for.
    fn run_until(&mut self, until: Instant, stop: &Stop) -> Result<Ended, EmulatorError>;

    /// The state of the link of one direction.
    fn snapshot(&self, direction: Direction) -> Snapshot;

    /// Packets that were not the link's to lose: see the emulator's own counters for why.
    fn strays(&self) -> u64;

    /// Writes out what is buffered of the capture, if there is one.
    fn flush(&mut self) -> Result<(), EmulatorError>;
}
