//! Clients and counters of the daemon, shared with other threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use timeous_core::Instant;
use timeous_engine::{Congestion, clock};

use crate::qlog::Log;
use crate::store::Store;
use crate::view::{Client, Health, View};

#[derive(Debug)]
pub(crate) struct StatusBoard {
    began: Instant,
    congestion: Congestion,
    clients: Mutex<BTreeMap<u64, Client>>,
    violations: AtomicU64,
    pub(crate) store: Option<Store>,
    pub(crate) log: Option<Log>,
}

impl StatusBoard {
    pub(crate) fn new(began: Instant, congestion: Congestion, store: Option<Store>, log: Option<Log>) -> Self {
        let (clients, violations) = (Mutex::default(), AtomicU64::new(0));
        Self { began, congestion, clients, violations, store, log }
    }

    /// Adds a client.
    pub(crate) fn add(&self, client: Client) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).insert(client.id, client);
    }

    /// Removes a client.
    pub(crate) fn remove(&self, client: u64) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).remove(&client);
    }

    /// Counts a protocol violation by a client.
    pub(crate) fn violated(&self) {
        self.violations.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the current view of the daemon.
    pub(crate) fn view(&self) -> View {
        let snapshot = self.congestion.lock().snapshot();
        let mut view = View::of(&snapshot, clock::now(), self.began);
        view.clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        view.health = Health {
            violations_total: self.violations.load(Ordering::Relaxed),
            paths_remembered: self.store.as_ref().map_or(0, |store| store.len() as u64),
            path_write_failures_total: self.store.as_ref().map_or(0, Store::failures),
            qlog_lost_total: self.log.as_ref().map_or(0, Log::lost),
        };
        view
    }
}
