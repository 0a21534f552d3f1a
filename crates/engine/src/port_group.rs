//! UDP port that several workers share, and each one's share in it.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::waker::Waker;

/// A UDP port that several workers share, each by a socket of its own. The kernel knows the sockets by their order, so
/// that all stay open until the last one is unused.
#[derive(Debug)]
pub(crate) struct PortGroup {
    workers: Vec<Waker>,
    used: AtomicUsize,
}

impl PortGroup {
    pub(crate) fn new(workers: Vec<Waker>) -> Arc<Self> {
        let used = AtomicUsize::new(workers.len());
        Arc::new(Self { workers, used })
    }

    /// Number of workers.
    pub(crate) fn count(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.workers.len()).expect("an engine has a worker")
    }
}

/// One worker's share in a [`PortGroup`].
#[derive(Debug)]
pub(crate) struct GroupShare {
    group: Arc<PortGroup>,
    is_used: bool,
}

impl GroupShare {
    pub(crate) fn new(group: Arc<PortGroup>) -> Self {
        Self { group, is_used: true }
    }

    /// Notes whether this worker uses its socket; returns whether no worker uses one.
    pub(crate) fn is_over(&mut self, is_used: bool) -> bool {
        let was_used = std::mem::replace(&mut self.is_used, is_used);
        match (was_used, is_used) {
            (false, true) => {
                self.group.used.fetch_add(1, Ordering::SeqCst);
            }
            // The others close their sockets, too.
            (true, false) if self.group.used.fetch_sub(1, Ordering::SeqCst) == 1 => {
                self.group.workers.iter().for_each(Waker::wake);
            }
            _ => {}
        }
        self.group.used.load(Ordering::SeqCst) == 0
    }
}
