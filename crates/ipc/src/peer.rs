//! The client's end of the queues and the table, without a socket.

#[cfg(not(loom))]
use std::os::fd::AsFd;
use std::sync::Arc;

use timeous_core::PathState;
use timeous_ring::Memory;

use crate::error::Broken;
use crate::handle::Handle;
use crate::layout::Geometry;
use crate::queue::{Reader, Writer};
use crate::slot::{Completion, Submission};
use crate::table::Table;

/// The client's end of its shared memory: a [`Client`](crate::Client) without its socket. No method waits or signals;
/// they return whether a signal is due.
#[derive(Debug)]
pub struct Peer {
    submissions: Writer,
    completions: Reader,
    table: Table,
}

/// Result of preparing to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerRest {
    /// The queue is empty: the client may sleep, and the daemon wakes it for the next completion.
    pub may_sleep: bool,
    /// The daemon waits for room in the client's queue, and there is room now: signal its bell.
    pub ring_daemon: bool,
}

impl Peer {
    pub(crate) fn over(memory: Arc<Memory>, geometry: &Geometry) -> Self {
        Self {
            submissions: Writer::new(Arc::clone(&memory), geometry.submission_queue()),
            completions: Reader::new(Arc::clone(&memory), geometry.completion_queue()),
            table: Table::new(memory, geometry),
        }
    }

    /// Maps the memory that came with the daemon's welcome; `None` if it is not sealed, or has another size.
    ///
    /// # Errors
    /// The system could not map it.
    #[cfg(not(loom))]
    pub fn open(memory: impl AsFd, geometry: &Geometry) -> std::io::Result<Option<Self>> {
        if geometry.check().is_err() {
            return Ok(None);
        }
        let memory = Memory::open(memory, geometry.words())?;
        Ok(memory.map(|memory| Self::over(Arc::new(memory), geometry)))
    }

    /// Queues a submission; `false` if the queue is full. Call [`must_ring`](Self::must_ring) afterwards.
    ///
    /// # Errors
    /// The daemon corrupted the queue.
    pub fn submit(&mut self, submission: &Submission) -> Result<bool, Broken> {
        Ok(self.submissions.push(&submission.to_words())?)
    }

    /// Returns whether the daemon sleeps and its bell has to be signalled for the submissions. Returns `true` once per
    /// sleep; costs a memory fence.
    #[must_use]
    pub fn must_ring(&self) -> bool {
        self.submissions.must_ring()
    }

    /// Requests that the daemon wakes the client when it has read the queue. `false` if there is room already.
    ///
    /// # Errors
    /// The daemon corrupted the queue.
    pub fn starve(&mut self) -> Result<bool, Broken> {
        Ok(self.submissions.starve()?)
    }

    /// Returns the next completion.
    ///
    /// # Errors
    /// The daemon corrupted the queue.
    pub fn poll_completion(&mut self) -> Result<Option<Completion>, Broken> {
        let Some(words) = self.completions.pop()? else { return Ok(None) };
        Completion::from_words(&words).map(Some).ok_or(Broken::Completion { word: words[0] })
    }

    /// Prepares to sleep, when [`poll_completion`](Self::poll_completion) has nothing more.
    ///
    /// # Errors
    /// The daemon corrupted the queue.
    pub fn rest(&mut self) -> Result<PeerRest, Broken> {
        let doze = self.completions.doze()?;
        Ok(PeerRest { may_sleep: doze.asleep, ring_daemon: doze.ring })
    }

    /// Marks the client as awake: it need not be woken until it [rests](Self::rest) again.
    pub fn awake(&self) {
        self.completions.wake();
    }

    /// Returns the published path state of a flow; `None` if there is none of exactly this flow.
    #[must_use]
    pub fn published(&self, flow: Handle) -> Option<PathState> {
        self.table.read(flow)
    }

    /// Returns the numbers of submissions written, and of those read by the daemon.
    ///
    /// # Errors
    /// The daemon corrupted the queue.
    pub fn progress(&mut self) -> Result<(u64, u64), Broken> {
        Ok(self.submissions.progress()?)
    }
}
