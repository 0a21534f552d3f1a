//! Outcome of handing a packet to a link.

/// Outcome of handing a packet to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Accepted: delivered later, unless the queue discipline drops it.
    Queued,
    /// Dropped.
    Dropped(DropCause),
}

/// Reason why a link did not deliver a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropCause {
    /// The queue had no room.
    QueueFull,
    /// The queue discipline dropped it early, as the queue grows and it could not be marked.
    Early,
    /// Lost at random.
    Loss,
    /// Larger than the link carries.
    TooLarge,
}

impl DropCause {
    /// Description for readers of a capture.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "dropped: queue full",
            Self::Early => "dropped early: the queue grows",
            Self::Loss => "lost at random",
            Self::TooLarge => "too large for the link",
        }
    }
}
