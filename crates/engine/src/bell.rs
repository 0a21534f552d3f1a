//! Notification descriptor of a client. It is signalled only while somebody listens: signalling and clearing cost two
//! system calls.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use timeous_cm::ClientId;

use crate::congestion::Notify;
use crate::waker::Waker;

/// Notification descriptor of a client of the Congestion Manager.
///
/// Sleeping clients and clients that have polled everything register with the manager's lock held, after checking for
/// events. Notifiers held that lock after queueing events. So either the check finds the events, or the notifier sees
/// the listener: no wake-up is lost.
#[derive(Debug)]
pub(crate) struct Bell {
    waker: Waker,
    /// Number of threads asleep.
    sleepers: AtomicU32,
    /// The descriptor was handed out: it has to become readable without a sleeper.
    shown: AtomicBool,
    /// The descriptor was handed out, and was not signalled since the last poll that found nothing.
    armed: AtomicBool,
    /// The descriptor is readable, or just was. Set after signalling, so that a set flag can always be cleared.
    rung: AtomicBool,
}

impl Bell {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            waker: Waker::new()?,
            sleepers: AtomicU32::new(0),
            shown: AtomicBool::new(false),
            armed: AtomicBool::new(false),
            rung: AtomicBool::new(false),
        })
    }

    /// Registers a sleeper. Called with the lock held, when there is nothing to poll.
    pub(crate) fn doze(&self) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
    }

    /// Unregisters a sleeper.
    pub(crate) fn rise(&self) {
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Clears the notification: there is nothing more to poll. Called with the lock held.
    pub(crate) fn hush(&self) {
        if self.rung.swap(false, Ordering::SeqCst) {
            self.waker.clear();
        }
        if self.shown.load(Ordering::SeqCst) {
            self.armed.store(true, Ordering::SeqCst);
        }
    }

    /// Marks the descriptor as handed out: it becomes readable without a sleeper from now on. `waiting`: an event is
    /// pending already. Called with the lock held.
    pub(crate) fn show(&self, waiting: bool) {
        if !self.shown.swap(true, Ordering::SeqCst) {
            if waiting {
                self.ring();
            } else {
                self.armed.store(true, Ordering::SeqCst);
            }
        }
    }

    pub(crate) fn is_shown(&self) -> bool {
        self.shown.load(Ordering::SeqCst)
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    fn ring(&self) {
        self.waker.wake();
        self.rung.store(true, Ordering::SeqCst);
    }
}

impl Notify for Bell {
    fn ready(&self, _: ClientId) {
        let armed = self.armed.swap(false, Ordering::SeqCst);
        if armed || self.sleepers.load(Ordering::SeqCst) > 0 {
            self.ring();
        }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}
