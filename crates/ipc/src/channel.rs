//! The daemon's end of a client's queues. It believes nothing that it reads.

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
/// A [`Violation`] is final: the channel gives the same one from then on and nothing else, so that a client cannot try
/// again. Drop it, and the client is gone; its memory stays mapped in its own process only.
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

/// What came of lying down to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// Nothing waits to be read: the daemon may sleep, and the next submission rings its bell.
    pub may_sleep: bool,
    /// The client waits for room in its queue, and there is room now: wake it.
    pub wake_client: bool,
}

impl Channel {
    /// Both ends on memory of this process.
    ///
    /// # Errors
    /// Measures that cannot be.
    pub fn pair(geometry: Geometry) -> Result<(Self, Peer), GeometryError> {
        geometry.check()?;
        let memory = Arc::new(Memory::heap(geometry.words()));
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

    /// The next submission.
    ///
    /// # Errors
    /// What no honest client does.
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

    /// Tells the client something, or `false` if its queue is full: then it is to be asked again after
    /// [`starve`](Self::starve). Call [`must_wake`](Self::must_wake) when all is told.
    ///
    /// # Errors
    /// What no honest client does.
    pub fn complete(&mut self, completion: Completion) -> Result<bool, Violation> {
        self.honest()?;
        self.completions.push(&completion.to_words()).map_err(|bad| self.read(bad))
    }

    /// Whether the client sleeps and is to be woken for what it was told. To be asked only when it was told something.
    /// Says so once for each of its sleeps; costs a memory fence.
    #[must_use]
    pub fn must_wake(&self) -> bool {
        self.completions.must_ring()
    }

    /// Asks the client to ring the daemon's bell when it has read its queue. `false` if there is room already.
    ///
    /// # Errors
    /// What no honest client does.
    pub fn starve(&mut self) -> Result<bool, Violation> {
        self.honest()?;
        self.completions.starve().map_err(|bad| self.read(bad))
    }

    /// To be called before the daemon sleeps, when [`poll_submission`](Self::poll_submission) has nothing more.
    ///
    /// # Errors
    /// What no honest client does.
    pub fn rest(&mut self) -> Result<Rest, Violation> {
        self.honest()?;
        let doze = self.submissions.doze();
        let doze = doze.map_err(|bad| self.written(bad))?;
        Ok(Rest { may_sleep: doze.asleep, wake_client: doze.ring })
    }

    /// The daemon is awake, and need not be rung until it [rests](Self::rest) again. To be called, if at all, before
    /// the queue is read.
    pub fn awake(&self) {
        self.submissions.wake();
    }

    /// Publishes what is known of a flow's path, for the client to read without asking. A slot beyond those granted is
    /// passed over.
    pub fn publish(&mut self, flow: Handle, state: &PathState) {
        self.paths.write(flow, state);
    }

    /// The flow is closed: nothing is published of it any more.
    pub fn unpublish(&mut self, flow: Handle) {
        self.paths.clear(flow.slot);
    }

    /// How large it is.
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
    /// Makes a client's memory and the daemon's bell. Both are to be sent with the
    /// [`Welcome`](crate::messages::Welcome), in this order.
    ///
    /// # Errors
    /// Measures that cannot be, or no memory or descriptor from the system.
    pub fn new(geometry: Geometry) -> Result<(Self, [OwnedFd; 2]), ChannelError> {
        use rustix::event::{EventfdFlags, eventfd};
        geometry.check()?;
        let (memory, fd) = Memory::shared("timeous-client", geometry.words())?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(std::io::Error::from)?;
        let theirs = bell.try_clone()?;
        let channel = Self { bell: Some(bell), ..Self::over(Arc::new(memory), geometry) };
        Ok((channel, [fd, theirs]))
    }

    /// The bell that the client rings while the daemon sleeps. Watch it edge-triggered and never read it: it is one
    /// open file at both ends, so that a client can make it blocking, and empty it between a poll and a read.
    ///
    /// Panics if the channel was not made by [`new`](Self::new).
    #[must_use]
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_ref().expect("a channel between processes has a bell").as_fd()
    }
}
