//! What the application holds of DBAT while the transport's side runs it: the stream's rate goes in, advice comes out.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use timeous_core::Rate;

use super::advice::Advice;
use super::thresholds::Thresholds;
use super::tuner::{Settings, Tuner};

/// One stream's [`Tuner`], shared by its source and by the [`Dbat`](super::Dbat) at its queue. Clones are the same one.
///
/// It waits for nobody and wakes nobody: a driver looks at [`poll_advice`](Self::poll_advice) when it comes by, a source
/// that follows says its new rate by [`set_rate`](Self::set_rate).
#[derive(Clone, Debug)]
pub struct Adviser {
    tuner: Arc<Mutex<Tuner>>,
}

impl Adviser {
    /// For one stream.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { tuner: Arc::new(Mutex::new(Tuner::new(settings))) }
    }

    /// See [`Tuner::set_rate`].
    pub fn set_rate(&self, rate: Rate) {
        self.lock().set_rate(rate);
    }

    /// See [`Tuner::poll_advice`].
    #[must_use]
    pub fn poll_advice(&self) -> Option<Advice> {
        self.lock().poll_advice()
    }

    /// See [`Tuner::average`].
    #[must_use]
    pub fn average(&self) -> u64 {
        self.lock().average()
    }

    /// See [`Tuner::thresholds`].
    #[must_use]
    pub fn thresholds(&self) -> Option<Thresholds> {
        self.lock().thresholds()
    }

    /// Nothing is left half done in there, whatever befell one who had it.
    pub(super) fn lock(&self) -> MutexGuard<'_, Tuner> {
        self.tuner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Adviser {
    fn default() -> Self {
        Self::new(Settings::default())
    }
}
