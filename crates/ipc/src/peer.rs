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

/// The client's end of its shared memory: what a [`Client`](crate::Client) has beside its socket. Nothing in it waits,
/// and nothing in it rings: it says when that is to be done.
#[derive(Debug)]
pub struct Peer {
    submissions: Writer,
    completions: Reader,
    table: Table,
}

/// What came of lying down to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerRest {
    /// Nothing waits to be read: the client may sleep, and the daemon wakes it for the next completion.
    pub may_sleep: bool,
    /// The daemon waits for room in the client's queue, and there is room now: ring its bell.
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

    /// Opens the memory that came with the daemon's welcome; `None` if it is not sealed, or not of this size.
    ///
    /// # Errors
    /// The system did not map it.
    #[cfg(not(loom))]
    pub fn open(memory: impl AsFd, geometry: &Geometry) -> std::io::Result<Option<Self>> {
        if geometry.check().is_err() {
            return Ok(None);
        }
        let memory = Memory::open(memory, geometry.words())?;
        Ok(memory.map(|memory| Self::over(Arc::new(memory), geometry)))
    }

    /// Puts something into the queue to the daemon; `false` if it is full. [`must_ring`](Self::must_ring) follows.
    ///
    /// # Errors
    /// The daemon broke the queue.
    pub fn submit(&mut self, submission: &Submission) -> Result<bool, Broken> {
        Ok(self.submissions.push(&submission.to_words())?)
    }

    /// Whether the daemon sleeps and its bell is to be rung for what was submitted. Says so once for each of its sleeps;
    /// costs a memory fence.
    #[must_use]
    pub fn must_ring(&self) -> bool {
        self.submissions.must_ring()
    }

    /// Asks the daemon to wake the client when it has read the queue. `false` if there is room already.
    ///
    /// # Errors
    /// The daemon broke the queue.
    pub fn starve(&mut self) -> Result<bool, Broken> {
        Ok(self.submissions.starve()?)
    }

    /// What the daemon tells next.
    ///
    /// # Errors
    /// The daemon broke the queue.
    pub fn poll_completion(&mut self) -> Result<Option<Completion>, Broken> {
        let Some(words) = self.completions.pop()? else { return Ok(None) };
        Completion::from_words(&words).map(Some).ok_or(Broken::Completion { word: words[0] })
    }

    /// To be called before the client sleeps, when [`poll_completion`](Self::poll_completion) has nothing more.
    ///
    /// # Errors
    /// The daemon broke the queue.
    pub fn rest(&mut self) -> Result<PeerRest, Broken> {
        let doze = self.completions.doze()?;
        Ok(PeerRest { may_sleep: doze.asleep, ring_daemon: doze.ring })
    }

    /// The client is awake, and need not be woken until it [rests](Self::rest) again.
    pub fn awake(&self) {
        self.completions.wake();
    }

    /// What the daemon has published of a flow's path; `None` if nothing of this very flow.
    #[must_use]
    pub fn published(&self, flow: Handle) -> Option<PathState> {
        self.table.read(flow)
    }

    /// How many submissions were written, and how many of them the daemon has read.
    ///
    /// # Errors
    /// The daemon broke the queue.
    pub fn progress(&mut self) -> Result<(u64, u64), Broken> {
        Ok(self.submissions.progress()?)
    }
}
