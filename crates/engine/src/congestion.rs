//! Shared Congestion Manager of a process: the engine's thread and other clients take turns with it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

// A fair mutex, unlike std's: a busy engine thread would otherwise retake the lock at once.
use parking_lot::{Mutex, MutexGuard};
use timeous_cm::{ClientId, Manager};
use timeous_core::Instant;

use crate::waker::Waker;

/// Notification that a client of the manager has an event to poll.
///
/// Called without the manager's lock, from the thread that caused the event; must not block.
pub trait Notify: Send + Sync {
    /// Called when [`Manager::poll_client`] has an event for `client`; once until that has been polled.
    fn ready(&self, client: ClientId);
}

/// A Congestion Manager shared by an [`Engine`](crate::Engine) and other clients. Clones refer to the same manager.
///
/// The engine drives its timers: without an engine, paced grants are not issued and unused grants do not lapse.
#[derive(Clone, Default)]
pub struct Congestion(Arc<Mutex<Shared>>);

#[derive(Default)]
struct Shared {
    manager: Manager,
    clients: BTreeMap<ClientId, Arc<dyn Notify>>,
    engine: Option<Sleeper>,
}

/// Sleep state of the engine's thread, for clients that may have to wake it.
struct Sleeper {
    waker: Waker,
    /// Whether the thread will look at the manager again before it sleeps.
    awake: bool,
    /// If asleep, the time at which it wakes up by itself.
    until: Option<Instant>,
}

impl Congestion {
    /// Shares `manager`.
    pub fn new(manager: Manager) -> Self {
        Self(Arc::new(Mutex::new(Shared { manager, ..Shared::default() })))
    }

    /// Locks the manager. When the guard is dropped, clients with pending events are notified. Do not hold the guard
    /// while waiting for anything.
    pub fn lock(&self) -> CongestionGuard<'_> {
        CongestionGuard { shared: Some(self.0.lock()), of_engine: false }
    }

    /// Adds a client whose events are reported to `notify` ([`Manager::join`]). The caller has to
    /// [`leave`](Self::leave) in the end.
    pub fn join(&self, notify: Arc<dyn Notify>) -> ClientId {
        let mut shared = self.0.lock();
        let client = shared.manager.join();
        shared.clients.insert(client, notify);
        client
    }

    /// Removes a client: its flows are closed, and their window goes to others ([`Manager::leave`]).
    pub fn leave(&self, now: Instant, client: ClientId) {
        let mut guard = self.lock();
        guard.leave(now, client);
        guard.shared_mut().clients.remove(&client);
    }

    /// Registers the engine's thread, which `waker` wakes; `false` if one is registered already.
    pub(crate) fn attach(&self, waker: Waker) -> bool {
        let mut shared = self.0.lock();
        let free = shared.engine.is_none();
        if free {
            shared.engine = Some(Sleeper { waker, awake: true, until: None });
        }
        free
    }

    /// Unregisters the engine's thread.
    pub(crate) fn detach(&self) {
        self.0.lock().engine = None;
    }

    /// Locks the manager for one round of the engine's thread.
    pub(crate) fn round(&self) -> CongestionGuard<'_> {
        let mut guard = self.lock();
        guard.of_engine = true;
        if let Some(engine) = &mut guard.shared_mut().engine {
            engine.awake = true;
        }
        guard
    }
}

impl fmt::Debug for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Congestion").finish_non_exhaustive()
    }
}

/// Guard of the locked manager. See [`Congestion::lock`].
pub struct CongestionGuard<'a> {
    /// `Some` until the guard is dropped.
    shared: Option<MutexGuard<'a, Shared>>,
    /// Whether the engine's thread holds the guard; it needs no wake-up for its own changes.
    of_engine: bool,
}

impl CongestionGuard<'_> {
    /// Marks the engine's thread as asleep until `due` or the manager's next timer, whichever is earlier, and returns
    /// that time.
    pub(crate) fn sleeps(&mut self, now: Instant, due: Option<Instant>) -> Option<Instant> {
        let shared = self.shared_mut();
        // A flow of the engine that was granted something just now is served in another round.
        let at_once = shared.manager.has_granted().then_some(now);
        let until = due.into_iter().chain(shared.manager.poll_timeout()).chain(at_once).min();
        if let Some(engine) = &mut shared.engine {
            (engine.awake, engine.until) = (false, until);
        }
        until
    }

    fn shared(&self) -> &Shared {
        self.shared.as_ref().expect("a guard holds the lock until it is dropped")
    }

    fn shared_mut(&mut self) -> &mut Shared {
        self.shared.as_mut().expect("a guard holds the lock until it is dropped")
    }
}

impl Shared {
    /// Returns the engine's waker if the thread sleeps and has work before it wakes up by itself.
    fn engine_to_wake(&mut self) -> Option<Waker> {
        let engine = self.engine.as_mut().filter(|engine| !engine.awake)?;
        let due = self.manager.poll_timeout();
        let too_late = due.is_some_and(|due| engine.until.is_none_or(|until| due < until));
        (too_late || self.manager.has_granted()).then(|| {
            engine.awake = true;
            engine.waker.clone()
        })
    }
}

impl Deref for CongestionGuard<'_> {
    type Target = Manager;

    fn deref(&self) -> &Manager {
        &self.shared().manager
    }
}

impl DerefMut for CongestionGuard<'_> {
    fn deref_mut(&mut self) -> &mut Manager {
        &mut self.shared_mut().manager
    }
}

impl Drop for CongestionGuard<'_> {
    fn drop(&mut self) {
        let Some(mut shared) = self.shared.take() else { return };
        let mut ready = Vec::new();
        while let Some(client) = shared.manager.poll_ready() {
            if let Some(notify) = shared.clients.get(&client) {
                ready.push((client, notify.clone()));
            }
        }
        let engine = if self.of_engine { None } else { shared.engine_to_wake() };
        // The woken threads need the lock at once.
        drop(shared);
        for (client, notify) in ready {
            notify.ready(client);
        }
        if let Some(engine) = engine {
            engine.wake();
        }
    }
}

impl fmt::Debug for CongestionGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CongestionGuard").field(&self.shared().manager).finish()
    }
}
