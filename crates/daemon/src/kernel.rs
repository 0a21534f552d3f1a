//! Exchange with the kernel's TCP, where it is a client of the Congestion Manager: its connections share windows with
//! the host's own flows.

use std::path::PathBuf;

use timeous_core::{Duration, Instant};
use timeous_engine::Congestion;
use timeous_kernel::{Companion, KernelError};

/// Interval of checks whether the kernel's TCP has become a client.
const ABSENT: Duration = Duration::from_secs(2);
/// Interval of exchanges while no path is shared.
const APART: Duration = Duration::from_millis(200);
/// Interval of exchanges while a path is shared.
const TOGETHER: Duration = Duration::from_millis(10);

/// State of the exchange.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// Directory where its macroflows are pinned; `None`: not used.
    pinned: Option<PathBuf>,
    companion: Option<Companion>,
    next: Instant,
}

impl Kernel {
    pub(crate) fn new(now: Instant, pinned: Option<PathBuf>) -> Self {
        Self { pinned, companion: None, next: now }
    }

    /// Returns when [`exchange`](Self::exchange) is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.pinned.as_ref().map(|_| self.next)
    }

    /// Exchanges flow counts and windows between the kernel and the manager, if that is due.
    pub(crate) fn exchange(&mut self, now: Instant, congestion: &Congestion) {
        let Some(pinned) = self.pinned.as_ref().filter(|_| self.next <= now) else { return };
        if self.companion.is_none() {
            match Companion::open(pinned) {
                Ok(companion) => {
                    tracing::info!(pinned = %pinned.display(), "the kernel's TCP shares windows");
                    self.companion = Some(companion);
                }
                // It will never be available.
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
