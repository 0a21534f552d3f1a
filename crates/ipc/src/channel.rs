//! The daemon's end of a client's queues. It trusts nothing that it reads.

#[cfg(not(loom))]
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use timeous_core::PathState;
use timeous_ring::Memory;

#[cfg(not(loom))]
use crate::error::ChannelError;
use crate::error::Violation;
use crate::handle::Handle;
use crate::layout::{Geometry, GeometryError};
use crate::peer::Peer;
use crate::queue::{BadIndex, Reader, Writer};
use crate::slot::{Completion, Submission};
use crate::table::{Publisher, Table};

/// The daemon's end of a client's shared memory.
///
/// A [`Violation`] is final: the channel returns only that from then on, so that a client cannot try again. Drop it to
/// disconnect the client; its memory stays mapped only in its own process.
#[derive(Debug)]
pub struct Channel {
    submissions: Reader,
    completions: Writer,
    paths: Publisher,
    geometry: Geometry,
    violated: Option<Violation>,
    #[cfg(not(loom))]
    bell: Option<OwnedFd>,
}

/// Result of preparing to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// The queue is empty: the daemon may sleep, and the next submission signals its bell.
    pub may_sleep: bool,
    /// The client waits for room in its queue, and there is room now: wake it.
    pub wake_client: bool,
}

impl Channel {
    /// Creates both ends in this process's memory.
    ///
    /// # Errors
    /// Invalid sizes.
    pub fn pair(geometry: Geometry) -> Result<(Self, Peer), GeometryError> {
        geometry.check()?;
        let memory = Arc::new(Memory::anonymous(geometry.words()));
        Ok((Self::over(Arc::clone(&memory), geometry), Peer::over(memory, &geometry)))
    }

    fn over(memory: Arc<Memory>, geometry: Geometry) -> Self {
        Self {
            submissions: Reader::new(Arc::clone(&memory), geometry.submission_queue()),
            completions: Writer::new(Arc::clone(&memory), geometry.completion_queue()),
            paths: Publisher::new(Table::new(memory, &geometry)),
            geometry,
            violated: None,
            #[cfg(not(loom))]
            bell: None,
        }
    }

    /// Returns the next submission.
    ///
    /// # Errors
    /// A protocol violation by the client.
    pub fn poll_submission(&mut self) -> Result<Option<Submission>, Violation> {
        self.honest()?;
        let number = self.submissions.count();
        let popped = self.submissions.pop();
        let Some(words) = popped.map_err(|bad| self.written(bad))? else { return Ok(None) };
        match Submission::from_words(&words) {
            Some(submission) => Ok(Some(submission)),
            None => Err(self.violation(Violation::BadSubmission { number, word: words[0] })),
        }
    }

    /// Sends a completion, or returns `false` if the client's queue is full: then try again after
    /// [`starve`](Self::starve). Call [`must_wake`](Self::must_wake) after the last completion.
    ///
    /// # Errors
    /// A protocol violation by the client.
    pub fn complete(&mut self, completion: Completion) -> Result<bool, Violation> {
        self.honest()?;
        self.completions.push(&completion.to_words()).map_err(|bad| self.read(bad))
    }

    /// Returns whether the client sleeps and has to be woken for the completions. Call it only after sending some.
    /// Returns `true` once per sleep; costs a memory fence.
    #[must_use]
    pub fn must_wake(&self) -> bool {
        self.completions.must_ring()
    }

    /// Requests that the client signals the daemon's bell when it has read its queue. `false` if there is room already.
    ///
    /// # Errors
    /// A protocol violation by the client.
    pub fn starve(&mut self) -> Result<bool, Violation> {
        self.honest()?;
        self.completions.starve().map_err(|bad| self.read(bad))
    }

    /// Prepares to sleep, when [`poll_submission`](Self::poll_submission) has nothing more.
    ///
    /// # Errors
    /// A protocol violation by the client.
    pub fn rest(&mut self) -> Result<Rest, Violation> {
        self.honest()?;
        let doze = self.submissions.doze();
        let doze = doze.map_err(|bad| self.written(bad))?;
        Ok(Rest { may_sleep: doze.asleep, wake_client: doze.ring })
    }

    /// Marks the daemon as awake: it need not be signalled until it [rests](Self::rest) again. Optional, and only
    /// before the queue is read.
    pub fn awake(&self) {
        self.submissions.wake();
    }

    /// Publishes a flow's path state, for the client to read without a call. Slots beyond those granted are ignored.
    pub fn publish(&mut self, flow: Handle, state: &PathState) {
        self.paths.write(flow, state);
    }

    /// Removes the path state of a closed flow.
    pub fn unpublish(&mut self, flow: Handle) {
        self.paths.clear(flow.slot);
    }

    /// Returns the sizes of the queues.
    #[must_use]
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn honest(&self) -> Result<(), Violation> {
        self.violated.map_or(Ok(()), Err)
    }

    fn violation(&mut self, violation: Violation) -> Violation {
        *self.violated.get_or_insert(violation)
    }

    fn written(&mut self, bad: BadIndex) -> Violation {
        let (read, slots) = (self.submissions.count(), self.geometry.submissions);
        self.violation(Violation::Written { read, found: bad.found, slots })
    }

    fn read(&mut self, bad: BadIndex) -> Violation {
        let (written, read) = self.completions.seen();
        self.violation(Violation::Read { read, written, found: bad.found })
    }
}

#[cfg(not(loom))]
impl Channel {
    /// Creates a client's memory and the daemon's bell. Both are sent with the [`Welcome`](crate::messages::Welcome),
    /// in this order.
    ///
    /// # Errors
    /// Invalid sizes, or no memory or descriptor from the system.
    pub fn new(geometry: Geometry) -> Result<(Self, [OwnedFd; 2]), ChannelError> {
        use rustix::event::{EventfdFlags, eventfd};
        geometry.check()?;
        let (memory, fd) = Memory::shared("timeous-client", geometry.words())?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(std::io::Error::from)?;
        let theirs = bell.try_clone()?;
        let channel = Self { bell: Some(bell), ..Self::over(Arc::new(memory), geometry) };
        Ok((channel, [fd, theirs]))
    }

    /// Returns the bell that the client signals while the daemon sleeps. Poll it edge-triggered and never read it: both
    /// processes share one open file, so that a client can make it blocking, and empty it between a poll and a read.
    ///
    /// Panics if the channel was not made by [`new`](Self::new).
    #[must_use]
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_ref().expect("a channel between processes has a bell").as_fd()
    }
}
