//! The kernel's TCP as a client of the Congestion Manager, for experiments on this machine's kernel.

use std::sync::atomic::{AtomicU32, Ordering};

use timeous::core::Duration;
use timeous_kernel::{Installed, KernelError, Macroflow, pinned};
use timeous_testbed::machine::machine;

use crate::experiment::RunError;

/// Counter that makes names unique within this process.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Congestion control module, loaded under a name of its own and unloaded on drop.
#[derive(Debug)]
pub(super) struct Managed {
    name: String,
    installed: Option<Installed>,
}

impl Managed {
    /// Loads the module.
    ///
    /// # Errors
    /// [`RunError::Machine`] if this machine cannot load it, [`RunError::LeftOut`] if the program
    /// was built without it.
    pub(super) fn load() -> Result<Self, RunError> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("lab{}_{number}", std::process::id() % 1_000_000);
        let installed = Some(Installed::load(&pinned(&name), &name).map_err(refused)?);
        Ok(Self { name, installed })
    }

    /// Returns its name for `TCP_CONGESTION`.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the macroflows.
    pub(super) fn macroflows(&self) -> Result<Vec<Macroflow>, RunError> {
        self.installed().macroflows().map_err(refused)
    }

    /// Forgets all paths without connections.
    pub(super) fn forget(&self) -> Result<(), RunError> {
        self.installed().forget_idle(Duration::ZERO).map(drop).map_err(refused)
    }

    fn installed(&self) -> &Installed {
        self.installed.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        if let Some(installed) = self.installed.take()
            && let Err(error) = installed.remove("reno")
        {
            eprintln!("{} is still in the kernel: {error}", self.name);
        }
    }
}

#[allow(clippy::needless_pass_by_value)]
fn refused(error: KernelError) -> RunError {
    match error {
        KernelError::NotBuilt => RunError::LeftOut(error.to_string()),
        _ => machine(error),
    }
}
