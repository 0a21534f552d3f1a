//! What becomes of a packet in a link.

/// What becomes of a packet that was handed to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It will be delivered, unless the queue discipline drops it later.
    Queued,
    /// It is gone.
    Dropped(DropCause),
}

/// Why a link did not deliver a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropCause {
    /// The queue had no room.
    QueueFull,
    /// The queue grows, and the packet could not be marked.
    Early,
    /// The loss process took it.
    Loss,
}

impl DropCause {
    /// In words, for people who read a capture.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "dropped: queue full",
            Self::Early => "dropped early: the queue grows",
            Self::Loss => "lost at random",
        }
    }
}
