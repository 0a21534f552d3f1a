//! Stand-in without the feature `bpf`: the same names, and an error that reports the missing feature.

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

    /// Opens the program loaded by an earlier process.
    ///
    /// # Errors
    /// [`KernelError::NotBuilt`].
    pub fn open(_at: &FilePath) -> Result<Self, KernelError> {
        Err(KernelError::NotBuilt)
    }

    /// Returns the macroflows.
    ///
    /// # Errors
    /// None can occur.
    pub fn macroflows(&self) -> Result<Vec<Macroflow>, KernelError> {
        match self.0 {}
    }

    /// Returns the connections.
    ///
    /// # Errors
    /// None can occur.
    pub fn flows(&self) -> Result<Vec<Flow>, KernelError> {
        match self.0 {}
    }

    /// Removes idle macroflows.
    ///
    /// # Errors
    /// None can occur.
    pub fn forget_idle(&self, _longer_than: Duration) -> Result<usize, KernelError> {
        match self.0 {}
    }

    /// Removes the program.
    ///
    /// # Errors
    /// None can occur.
    pub fn remove(self, _fallback: &str) -> Result<(), KernelError> {
        match self.0 {}
    }
}

/// The daemon's share in the kernel's macroflows. There are none.
#[derive(Debug)]
pub struct Companion(std::convert::Infallible);

impl Companion {
    /// Opens the kernel's macroflows.
    ///
    /// # Errors
    /// [`KernelError::NotBuilt`].
    pub fn open(_at: &FilePath) -> Result<Self, KernelError> {
        Err(KernelError::NotBuilt)
    }

    /// Returns whether the kernel's TCP shares a path with the manager's flows.
    pub fn is_shared(&self) -> bool {
        match self.0 {}
    }

    /// Reports the manager's flows to the kernel, and the remaining window to the manager.
    ///
    /// # Errors
    /// None can occur.
    pub fn exchange(&mut self, _now: Instant, _manager: &mut Manager) -> Result<(), KernelError> {
        match self.0 {}
    }
}

/// Counter of the datagrams that leave from a cgroup's sockets. There is none.
#[derive(Debug)]
pub struct DatagramCounter(std::convert::Infallible);

impl DatagramCounter {
    /// Attaches the program to a cgroup.
    ///
    /// # Errors
    /// [`KernelError::NotBuilt`].
    pub fn attach(_cgroup: &FilePath) -> Result<Self, KernelError> {
        Err(KernelError::NotBuilt)
    }

    /// Returns whether any flow's datagrams are counted.
    pub fn is_watching(&self) -> bool {
        match self.0 {}
    }

    /// Charges what has left without a report.
    ///
    /// # Errors
    /// None can occur.
    pub fn charge(&mut self, _now: Instant, _manager: &mut Manager) -> Result<u64, KernelError> {
        match self.0 {}
    }
}
