//! The Congestion Manager of a process, shared: the engine's thread and its other clients take turns with it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

// Fair now and then, as std's is not: the engine's thread takes it again at once, all the time that it has much to do.
use parking_lot::{Mutex, MutexGuard};
use timeous_cm::{ClientId, Manager};
use timeous_core::Instant;

use crate::waker::Waker;

/// Hears that a client of the manager has an event to poll.
///
/// It is called without the manager's lock, from whichever thread brought the event about, and must not wait.
pub trait Notify: Send + Sync {
    /// [`Manager::poll_client`] has something for `client`. It is said once until that has been polled.
    fn ready(&self, client: ClientId);
}

/// A Congestion Manager that an [`Engine`](crate::Engine) and other clients share. Clones are the same one.
///
/// The engine lets time pass for it: without one, what only time brings (grants that the pace held back, grants that
/// nobody used) does not happen.
#[derive(Clone, Default)]
pub struct Congestion(Arc<Mutex<Shared>>);

#[derive(Default)]
struct Shared {
    manager: Manager,
    clients: BTreeMap<ClientId, Arc<dyn Notify>>,
    engine: Option<Sleeper>,
}

/// What a client needs to know of the engine's thread.
struct Sleeper {
    waker: Waker,
    /// Whether it looks at the manager again before it sleeps.
    awake: bool,
    /// If not, when it wakes up by itself.
    until: Option<Instant>,
}

impl Congestion {
    /// Shares `manager`.
    pub fn new(manager: Manager) -> Self {
        Self(Arc::new(Mutex::new(Shared { manager, ..Shared::default() })))
    }

    /// The manager, for the caller alone while it holds the guard. When the guard is dropped, whoever has an event is
    /// told. Do not hold it while waiting for anything.
    pub fn lock(&self) -> CongestionGuard<'_> {
        CongestionGuard { shared: Some(self.0.lock()), of_engine: false }
    }

    /// Makes a client whose events are told to `notify` ([`Manager::join`]). Whoever makes it lets it
    /// [leave](Self::leave).
    pub fn join(&self, notify: Arc<dyn Notify>) -> ClientId {
        let mut shared = self.0.lock();
        let client = shared.manager.join();
        shared.clients.insert(client, notify);
        client
    }

    /// A client is gone: its flows are closed, and what they held goes to others ([`Manager::leave`]).
    pub fn leave(&self, now: Instant, client: ClientId) {
        let mut guard = self.lock();
        guard.leave(now, client);
        guard.shared_mut().clients.remove(&client);
    }

    /// The engine's thread is there, and wakes up by `waker`; `false` if there is one already.
    pub(crate) fn attach(&self, waker: Waker) -> bool {
        let mut shared = self.0.lock();
        let free = shared.engine.is_none();
        if free {
            shared.engine = Some(Sleeper { waker, awake: true, until: None });
        }
        free
    }

    /// The engine's thread is gone.
    pub(crate) fn detach(&self) {
        self.0.lock().engine = None;
    }

    /// The manager, for one round of the engine's thread.
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

/// The manager, for whoever holds this. See [`Congestion::lock`].
pub struct CongestionGuard<'a> {
    /// There until it is dropped.
    shared: Option<MutexGuard<'a, Shared>>,
    /// Whether the engine's thread holds it, which knows of what it does.
    of_engine: bool,
}

impl CongestionGuard<'_> {
    /// The engine's thread has done all that it can, and wakes up by itself at `due`, or when the manager wants time
    /// to pass, if that is earlier; when it is to wake up.
    pub(crate) fn sleeps(&mut self, now: Instant, due: Option<Instant>) -> Option<Instant> {
        let shared = self.shared_mut();
        // A flow of the engine's own that was granted something just now has its turn in another round.
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
    /// The engine's waker, if it sleeps and there is something for it to do before it wakes up by itself.
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
        // Whoever wakes up wants the lock at once.
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
