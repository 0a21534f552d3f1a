//! Observability and persistence: JSON documents, metrics, path memory, event log.

use std::net::IpAddr;
use std::sync::Arc;

use serde::Serialize;
use timeous_cm::Destination;
use timeous_core::Instant;
use timeous_engine::Congestion;
use timeous_ipc::messages::Failure;

use crate::board::StatusBoard;
use crate::config::Config;
use crate::error::DaemonError;
use crate::metrics::Server;
use crate::qlog::Log;
use crate::store::{Store, StoreError};
use crate::view::{Path, Reader};
use crate::wall::WallTime;

#[derive(Debug)]
pub(crate) struct Observability {
    board: Arc<StatusBoard>,
    server: Option<Server>,
}

impl Observability {
    /// Opens the parts named in `config`. An unusable path memory is reported and left out, unless another daemon has
    /// it open.
    pub(crate) fn open(config: &Config, congestion: &Congestion, now: Instant) -> Result<Self, DaemonError> {
        let wall = WallTime::now();
        let store = match config.store.as_deref().map(|path| Store::open(path, wall)) {
            None => None,
            Some(Ok((store, aside))) => {
                if let Some(aside) = aside {
                    tracing::warn!(%aside, "path memory");
                }
                Some(store)
            }
            Some(Err(error @ StoreError::InUse { .. })) => return Err(error.into()),
            Some(Err(error)) => {
                tracing::warn!(%error, "nothing is remembered of paths");
                None
            }
        };
        let log = config.qlog.as_deref().map(|path| Log::open(path, now, wall)).transpose()?;
        congestion.lock().trace(log.is_some());
        let board = Arc::new(StatusBoard::new(now, congestion.clone(), store, log));
        let look = board.clone();
        let serve = |address| Server::start(address, config.metrics_access, Arc::new(move || look.view()));
        let server = config.metrics.map(serve).transpose()?;
        Ok(Self { board, server })
    }

    pub(crate) fn board(&self) -> &StatusBoard {
        &self.board
    }

    /// Returns the address of the metrics server.
    pub(crate) fn metrics(&self) -> Option<std::net::SocketAddr> {
        self.server.as_ref().map(Server::address)
    }

    /// Passes the remembered state of a path about to be used to the manager.
    pub(crate) fn recall(&self, congestion: &Congestion, destination: Destination) {
        let Some(store) = &self.board.store else { return };
        if let Some((learnt, age)) = store.recall(&destination, WallTime::now()) {
            congestion.lock().recall(destination, learnt, age);
        }
    }

    /// Saves the manager's learned path states and events since the last call.
    pub(crate) fn take_down(&self, congestion: &Congestion) {
        let mut learnt = Vec::new();
        let mut traced = Vec::new();
        {
            let mut cm = congestion.lock();
            learnt.extend(std::iter::from_fn(|| cm.poll_learnt()));
            if let Some(log) = &self.board.log {
                traced.extend(std::iter::from_fn(|| cm.poll_trace()));
                log.missed(cm.trace_missed());
            }
        }
        if let Some(store) = &self.board.store {
            let wall = WallTime::now();
            learnt.into_iter().for_each(|(destination, learnt)| store.learn(destination, learnt, wall));
        }
        if let Some(log) = &self.board.log {
            traced.iter().for_each(|event| log.write(event));
        }
    }

    /// Returns whether events have to be fetched often, since the manager buffers few of them.
    pub(crate) fn is_logging(&self) -> bool {
        self.board.log.is_some()
    }

    /// Removes the remembered paths that a user may see, and returns their number.
    pub(crate) fn forget(&self, reader: &Reader, addr: Option<IpAddr>) -> Result<u64, Failure> {
        let its = |destination: &Destination| {
            may_see(reader, destination) && addr.is_none_or(|addr| addr == destination.addr)
        };
        Ok(self.store()?.forget(its) as u64)
    }

    /// Returns macroflows, flows and clients that the user may see, as JSON.
    pub(crate) fn snapshot(&self, reader: &Reader) -> Result<Vec<u8>, Failure> {
        json(&self.board.view().for_reader(reader))
    }

    /// Returns the remembered paths that the user may see, as JSON.
    pub(crate) fn paths(&self, reader: &Reader) -> Result<Vec<u8>, Failure> {
        let remembered = self.store()?.remembered(WallTime::now());
        let its = remembered.iter().filter(|one| may_see(reader, &one.destination));
        json(&its.map(Path::from).collect::<Vec<_>>())
    }

    fn store(&self) -> Result<&Store, Failure> {
        self.board.store.as_ref().ok_or_else(|| Failure::Absent("path memory (--store)".to_owned()))
    }
}

fn may_see(reader: &Reader, destination: &Destination) -> bool {
    reader.sees(destination.user.map(|user| user.0))
}

fn json(what: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(what).map_err(|error| Failure::Environment(error.to_string()))
}
