//! Clients of the manager with pending events, reported by any thread.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use timeous_cm::ClientId;
use timeous_engine::{Notify, Waker};

#[derive(Debug)]
pub(crate) struct Ready {
    clients: Mutex<Vec<ClientId>>,
    /// Whether the daemon's thread sleeps, and has to be woken.
    asleep: AtomicBool,
    waker: Waker,
}

impl Ready {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { clients: Mutex::default(), asleep: AtomicBool::new(false), waker }
    }

    /// Takes the clients with pending events.
    pub(crate) fn take(&self) -> Vec<ClientId> {
        self.asleep.store(false, Ordering::SeqCst);
        mem::take(&mut *self.clients.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Prepares to sleep; returns `false` if there are pending events.
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
