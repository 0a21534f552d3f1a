//! Process-wide resources: the shared engine, and connections to the daemon.

use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::process::{Pid, getpid};
use timeous_engine::{Engine, EngineError};
use timeous_ipc::{Client, ConnectError, Options};

/// The process's streams run already, with another number of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("streams run already, on {0} workers: set the number before the first one is opened")]
pub struct WorkersFixed(pub usize);

/// The engine, and how it is started.
struct EngineSlot {
    engine: Weak<Engine>,
    /// Process that started it. A forked copy of the process has none of its threads.
    owner: Option<Pid>,
    workers: NonZeroUsize,
}

fn engine_slot() -> MutexGuard<'static, EngineSlot> {
    static ENGINE: Mutex<EngineSlot> =
        Mutex::new(EngineSlot { engine: Weak::new(), owner: None, workers: NonZeroUsize::MIN });
    ENGINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets the number of workers (threads) that run this process's streams; one by default.
///
/// Streams are placed by the address of the other host, so that those to one host share their congestion state. Several
/// workers pay for thousands of streams to many hosts. A caller that moves to another address, as from Wi-Fi to a mobile
/// network, may land at another worker: its stream ends there, and has to be opened again. The Congestion Manager's API ([`cm`](crate::cm)) in this process
/// then serves the hosts of the first worker only, and is refused.
///
/// ```
/// let workers = std::thread::available_parallelism().unwrap_or(std::num::NonZeroUsize::MIN);
/// timeous::set_workers(workers)?;
/// # Ok::<(), timeous::WorkersFixed>(())
/// ```
///
/// # Errors
/// [`WorkersFixed`] if streams are open, on another number of workers.
pub fn set_workers(count: NonZeroUsize) -> Result<(), WorkersFixed> {
    let mut slot = engine_slot();
    match slot.engine.upgrade() {
        Some(engine) if engine.workers() != count.get() => Err(WorkersFixed(engine.workers())),
        _ => {
            slot.workers = count;
            Ok(())
        }
    }
}

/// Returns the engine of this process, which ends with its last user.
pub(crate) fn shared_engine() -> Result<Arc<Engine>, EngineError> {
    let mut slot = engine_slot();
    let own = Some(getpid());
    if slot.owner == own
        && let Some(engine) = slot.engine.upgrade().filter(|engine| !engine.has_failed())
    {
        return Ok(engine);
    }
    let engine = Arc::new(Engine::with_workers(slot.workers)?);
    (slot.engine, slot.owner) = (Arc::downgrade(&engine), own);
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
