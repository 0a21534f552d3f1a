//! What the Congestion Manager does, as qlog: a file of events that qvis and others read.
//!
//! The schema is qlog's main schema (draft-ietf-quic-qlog-main-schema-13) as JSON text sequences (RFC 7464). Windows, round
//! trips and congestion are events of QUIC's recovery (draft-ietf-quic-qlog-quic-events-12), which are not QUIC's alone; what
//! has no name there is in a namespace of our own, `timeous`. The group of an event is its macroflow.
//!
//! A thread of its own writes. Who has an event never waits: what there is no room for is counted, and the file says so.

mod event;
mod rotation;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use timeous_cm::Traced;
use timeous_core::Instant;

use crate::wall::WallTime;

pub use event::NAMESPACE;
pub use rotation::Bounds;

use event::{Header, Record};
use rotation::Rotation;

/// Events that may wait for the disk.
const WAITING: usize = 8_192;

/// No qlog can be written: the environment's fault.
#[derive(Debug, thiserror::Error)]
#[error("the qlog {path} cannot be written: {error}")]
pub struct QlogError {
    /// The file.
    pub path: PathBuf,
    /// What the system says.
    pub error: io::Error,
}

/// A qlog that is being written. It is complete when this is dropped.
#[derive(Debug)]
pub struct Log {
    events: Option<SyncSender<Traced>>,
    lost: Arc<AtomicU64>,
    /// Of them, those that were lost before they came here.
    missed: AtomicU64,
    thread: Option<JoinHandle<()>>,
}

impl Log {
    /// Begins a qlog in `path`. A file that is there makes room as one that is full does, see [`Bounds`].
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn open(path: &Path, now: Instant, wall: WallTime) -> Result<Self, QlogError> {
        Self::bounded(path, Bounds::default(), now, wall)
    }

    /// The same with bounds of one's own.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn bounded(path: &Path, bounds: Bounds, now: Instant, wall: WallTime) -> Result<Self, QlogError> {
        let failed = |error| QlogError { path: path.to_owned(), error };
        let header = Header::new(now, wall);
        let files = Rotation::begin(path, bounds, header.record()).map_err(failed)?;
        let (events, waiting) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let told = Arc::clone(&lost);
        let name = path.to_owned();
        let write = move || {
            if let Err(error) = write(&waiting, files, &header, &told) {
                tracing::warn!(file = %name.display(), %error, "the qlog ends here");
            }
        };
        let thread = std::thread::Builder::new().name("timeous-qlog".into()).spawn(write).map_err(failed)?;
        Ok(Self { events: Some(events), lost, missed: AtomicU64::new(0), thread: Some(thread) })
    }

    /// Takes note of an event. Never blocks: where there is no room, it is counted as lost.
    pub fn write(&self, event: &Traced) {
        let taken = self.events.as_ref().is_some_and(|events| events.try_send(*event).is_ok());
        if !taken {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The Congestion Manager itself has lost `total` events since it began, which were not taken down soon enough.
    pub fn missed(&self, total: u64) {
        let before = self.missed.fetch_max(total, Ordering::Relaxed);
        self.lost.fetch_add(total.saturating_sub(before), Ordering::Relaxed);
    }

    /// How many events were lost.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        drop(self.events.take());
        if let Some(thread) = self.thread.take() {
            // If it panicked, it has said so.
            let _ = thread.join();
        }
    }
}

fn write(waiting: &Receiver<Traced>, mut files: Rotation, header: &Header, lost: &AtomicU64) -> io::Result<()> {
    let mut told = 0;
    while let Ok(first) = waiting.recv() {
        let mut next = Some(first);
        while let Some(event) = next {
            let missing = lost.load(Ordering::Relaxed) - told;
            if missing > 0 {
                told += missing;
                files.write(&Record::lost(header.time(event.at), missing).text()?)?;
            }
            files.write(&Record::of(header.time(event.at), &event).text()?)?;
            next = waiting.try_recv().ok();
        }
        files.flush()?;
    }
    files.flush()
}

#[cfg(test)]
mod tests;
