//! A finding about a path, and the wait for an answer.

use std::io;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use timeous::clock;
use timeous::core::Instant;

/// Answer to a question about the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Yes,
    No,
    Unknown,
}

/// A property of the path.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Finding {
    pub(super) property: &'static str,
    pub(super) verdict: Verdict,
    /// Grounds of the verdict.
    pub(super) why: String,
}

impl Finding {
    pub(super) fn new(property: &'static str, verdict: Verdict, why: impl Into<String>) -> Self {
        Self { property, verdict, why: why.into() }
    }
}

/// Waits until a descriptor is readable (or, if it connects, connected), at most until `deadline`; returns whether it is.
pub(super) fn wait_for(io: &impl AsFd, connects: bool, deadline: Instant) -> io::Result<bool> {
    let left = deadline.saturating_since(clock::now());
    let timeout = Timespec::try_from(std::time::Duration::from(left)).map_err(io::Error::other)?;
    let flags = if connects { PollFlags::OUT } else { PollFlags::IN };
    match poll(&mut [PollFd::new(io, flags)], Some(&timeout)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}
