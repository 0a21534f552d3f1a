//! What is there without the feature `bpf`: the same names, and an error that says so.

use std::path::Path as FilePath;

use timeous_cm::Manager;
use timeous_core::{Duration, Instant};

use crate::error::KernelError;
use crate::view::{Flow, Macroflow};

/// The program in the kernel. There is none.
#[derive(Debug)]
pub struct Installed(std::convert::Infallible);

impl Installed {
    /// Loads the program.
    ///
    /// # Errors
    /// [`KernelError::NotBuilt`].
    pub fn load(_at: &FilePath, _name: &str) -> Result<Self, KernelError> {
        Err(KernelError::NotBuilt)
    }

    /// What an earlier process loaded.
    ///
    /// # Errors
    /// [`KernelError::NotBuilt`].
    pub fn open(_at: &FilePath) -> Result<Self, KernelError> {
        Err(KernelError::NotBuilt)
    }

    /// The macroflows.
    ///
    /// # Errors
    /// None can occur.
    pub fn macroflows(&self) -> Result<Vec<Macroflow>, KernelError> {
        match self.0 {}
    }

    /// The connections.
    ///
    /// # Errors
    /// None can occur.
    pub fn flows(&self) -> Result<Vec<Flow>, KernelError> {
        match self.0 {}
    }

    /// Forgets macroflows.
    ///
    /// # Errors
    /// None can occur.
    pub fn forget_idle(&self, _longer_than: Duration) -> Result<usize, KernelError> {
        match self.0 {}
    }

    /// Takes the program away.
    ///
    /// # Errors
    /// None can occur.
    pub fn remove(self, _fallback: &str) -> Result<(), KernelError> {
        match self.0 {}
    }
}

/// The daemon's part in the kernel's macroflows. There are none.
#[derive(Debug)]
pub struct Companion(std::convert::Infallible);

impl Companion {
    /// Finds the kernel's macroflows.
    ///
    /// # Errors
    /// [`KernelError::NotBuilt`].
    pub fn open(_at: &FilePath) -> Result<Self, KernelError> {
        Err(KernelError::NotBuilt)
    }

    /// Whether the kernel's TCP sends where the manager's flows do.
    pub fn is_shared(&self) -> bool {
        match self.0 {}
    }

    /// Tells the kernel of the manager's flows, and the manager of the window that is left for them.
    ///
    /// # Errors
    /// None can occur.
    pub fn exchange(&mut self, _now: Instant, _manager: &mut Manager) -> Result<(), KernelError> {
        match self.0 {}
    }
}
