//! A client's bell: it rings only if somebody listens, since to ring and to silence it costs two system calls.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use timeous_cm::ClientId;

use crate::congestion::Notify;
use crate::waker::Waker;

/// The bell of a client of the manager.
///
/// Those who lie down to sleep and those who find nothing more to poll say so with the manager's lock held, and after a
/// look at what there is. Whoever rings held that lock after the events were there. So either the look finds them, or
/// who rings finds that somebody listens: no ring is lost.
#[derive(Debug)]
pub(crate) struct Bell {
    waker: Waker,
    /// How many sleep.
    sleepers: AtomicU32,
    /// The descriptor was given away: it has to tell by itself.
    shown: AtomicBool,
    /// It is shown, and nobody has rung since there was nothing more to poll.
    armed: AtomicBool,
    /// The descriptor is readable, or just was. It is set after that, so that what is set can be silenced.
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

    /// Somebody lies down to sleep. With the lock held, when there is nothing to poll.
    pub(crate) fn doze(&self) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
    }

    /// He is awake.
    pub(crate) fn rise(&self) {
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// There is nothing more to poll. With the lock held.
    pub(crate) fn hush(&self) {
        if self.rung.swap(false, Ordering::SeqCst) {
            self.waker.clear();
        }
        if self.shown.load(Ordering::SeqCst) {
            self.armed.store(true, Ordering::SeqCst);
        }
    }

    /// The descriptor is given away, and tells from now on by itself. `waiting`: something is there already. With the
    /// lock held.
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
