//! Process-wide resources: the shared engine, and connections to the daemon.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use timeous_engine::{Engine, EngineError};
use timeous_ipc::{Client, ConnectError, Options};

/// Returns the engine of this process, which ends with its last user.
pub(crate) fn shared_engine() -> Result<Arc<Engine>, EngineError> {
    static ENGINE: Mutex<Weak<Engine>> = Mutex::new(Weak::new());
    let mut slot = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(engine) = slot.upgrade() {
        return Ok(engine);
    }
    let engine = Arc::new(Engine::start()?);
    *slot = Arc::downgrade(&engine);
    Ok(engine)
}

/// Connects to the daemon at `path`.
pub(crate) fn daemon(path: &Path) -> Result<Client, ConnectError> {
    Client::connect(Options { path: path.to_owned(), ..Options::default() })
}

/// Connects to the daemon at `path`; `None` if none is running there.
pub(crate) fn find_daemon(path: &Path) -> Result<Option<Client>, ConnectError> {
    match daemon(path) {
        Ok(client) => Ok(Some(client)),
        Err(ConnectError::NoDaemon { error, .. }) if is_nobody(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether there is no socket, or a stale one that a daemon has left behind.
fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}
