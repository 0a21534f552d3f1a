//! Third-party programs at both ends, killed at the end of a run.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use timeous_net::emulator::Namespace;

use super::peer::Program;
use crate::experiment::LabError;
use crate::machine::machine;

/// A running program.
#[derive(Debug)]
pub(crate) struct RunningProgram(Child);

impl RunningProgram {
    /// Starts a program in a namespace; its output goes to `log`.
    pub(crate) fn start(program: &Program, namespace: &Namespace, log: &Path) -> Result<Self, LabError> {
        let out = File::create(log).map_err(LabError::file(log))?;
        let err = out.try_clone().map_err(LabError::file(log))?;
        let mut command = Command::new(&program.path);
        command.args(&program.words).stdin(Stdio::null()).stdout(out).stderr(err);
        // A child is in the namespace of the thread that starts it.
        let child = namespace.within(move || command.spawn()).map_err(machine)?;
        child.map(Self).map_err(LabError::file(&program.path))
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // Neither call affects a child that was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
