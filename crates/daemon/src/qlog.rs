//! qlog of the Congestion Manager: a file of events that qvis and other tools read.
//!
//! The schema is qlog's main schema (draft-ietf-quic-qlog-main-schema-13) as JSON text sequences (RFC 7464). Windows, RTTs and congestion
//! are QUIC recovery events (draft-ietf-quic-qlog-quic-events-12), which suit other transports, too; other events are in our own namespace,
//! `timeous`. The group of an event is its macroflow.
//!
//! A thread of its own writes. Logging never blocks: events that do not fit are counted, and the file records the gap.

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

/// Maximum number of events waiting for the disk.
const WAITING: usize = 8_192;

/// The qlog cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("the qlog {path} cannot be written: {error}")]
pub struct QlogError {
    /// The file.
    pub path: PathBuf,
    /// The system's error.
    pub error: io::Error,
}

/// An open qlog. It is complete when this is dropped.
#[derive(Debug)]
pub struct Log {
    events: Option<SyncSender<Traced>>,
    lost: Arc<AtomicU64>,
    /// Number of these lost before they reached the log.
    missed: AtomicU64,
    thread: Option<JoinHandle<()>>,
}

impl Log {
    /// Opens a qlog at `path`. An existing file is rotated like a full one, see [`Bounds`].
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn open(path: &Path, now: Instant, wall: WallTime) -> Result<Self, QlogError> {
        Self::bounded(path, Bounds::default(), now, wall)
    }

    /// As [`open`](Self::open), with other bounds.
    ///
    /// # Errors
    /// The file cannot be created.
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

    /// Logs an event. Never blocks: if there is no room, it is counted as lost.
    pub fn write(&self, event: &Traced) {
        let taken = self.events.as_ref().is_some_and(|events| events.try_send(*event).is_ok());
        if !taken {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Updates the number of events that the Congestion Manager itself has lost, because they were not fetched in time.
    pub fn missed(&self, total: u64) {
        let before = self.missed.fetch_max(total, Ordering::Relaxed);
        self.lost.fetch_add(total.saturating_sub(before), Ordering::Relaxed);
    }

    /// Returns the number of lost events.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        drop(self.events.take());
        if let Some(thread) = self.thread.take() {
            // A panic was reported already.
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
            files.write(&Record::of(header, &event).text()?)?;
            next = waiting.try_recv().ok();
        }
        files.flush()?;
    }
    files.flush()
}

#[cfg(test)]
mod tests;
