//! The kernel's TCP, where it is a client of the Congestion Manager: windows are shared between its connections and the
//! host's own flows.

use std::path::PathBuf;

use timeous_core::{Duration, Instant};
use timeous_engine::Congestion;
use timeous_kernel::{Companion, KernelError};

/// Between looks whether the kernel's TCP has become a client.
const ABSENT: Duration = Duration::from_secs(2);
/// Between exchanges while the two send to different places.
const APART: Duration = Duration::from_millis(200);
/// Between exchanges while they share a path.
const TOGETHER: Duration = Duration::from_millis(10);

/// What the daemon's thread keeps of the kernel.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// Where its macroflows are pinned; `None`: it is left alone.
    pinned: Option<PathBuf>,
    companion: Option<Companion>,
    next: Instant,
}

impl Kernel {
    pub(crate) fn new(now: Instant, pinned: Option<PathBuf>) -> Self {
        Self { pinned, companion: None, next: now }
    }

    /// When [`exchange`](Self::exchange) is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.pinned.as_ref().map(|_| self.next)
    }

    /// Tells the kernel of the host's flows and the manager of the kernel's, if that is due.
    pub(crate) fn exchange(&mut self, now: Instant, congestion: &Congestion) {
        let Some(pinned) = self.pinned.as_ref().filter(|_| self.next <= now) else { return };
        if self.companion.is_none() {
            match Companion::open(pinned) {
                Ok(companion) => {
                    tracing::info!(pinned = %pinned.display(), "the kernel's TCP shares windows");
                    self.companion = Some(companion);
                }
                // It will never be there.
                Err(error @ KernelError::NotBuilt) => {
                    tracing::debug!(%error, "the kernel's TCP is left alone");
                    self.pinned = None;
                    return;
                }
                Err(error) => tracing::trace!(%error, "the kernel's TCP is no client"),
            }
        }
        if let Some(companion) = &mut self.companion
            && let Err(error) = companion.exchange(now, &mut congestion.lock())
        {
            tracing::warn!(%error, "the kernel's TCP shares no windows any more");
            self.companion = None;
        }
        self.next = now
            + match &self.companion {
                None => ABSENT,
                Some(companion) if companion.is_shared() => TOGETHER,
                Some(_) => APART,
            };
    }
}
