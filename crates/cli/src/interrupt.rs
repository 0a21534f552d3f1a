//! Signal handling: Ctrl-C and SIGTERM end a stream in order, and keep what was received.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

/// Flag set by the first signal; a second signal ends the process at once.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Registers the signal handlers.
    pub(crate) fn new() -> io::Result<Self> {
        let wanted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 130, wanted.clone())?;
            signal_hook::flag::register(signal, wanted.clone())?;
        }
        Ok(Self(wanted))
    }

    /// Whether a signal has come.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
