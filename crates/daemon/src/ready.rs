//! Which clients of the manager have something to be told, from whichever thread brought it about.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use timeous_cm::ClientId;
use timeous_engine::{Notify, Waker};

#[derive(Debug)]
pub(crate) struct Ready {
    clients: Mutex<Vec<ClientId>>,
    /// Whether the daemon's thread looks here only if it is woken.
    asleep: AtomicBool,
    waker: Waker,
}

impl Ready {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { clients: Mutex::default(), asleep: AtomicBool::new(false), waker }
    }

    /// Those that have something to be told.
    pub(crate) fn take(&self) -> Vec<ClientId> {
        self.asleep.store(false, Ordering::SeqCst);
        mem::take(&mut *self.clients.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The daemon's thread wants to sleep; `false` if it may not.
    pub(crate) fn rest(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

impl Notify for Ready {
    fn ready(&self, client: ClientId) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).push(client);
        if self.asleep.swap(false, Ordering::SeqCst) {
            self.waker.wake();
        }
    }
}
