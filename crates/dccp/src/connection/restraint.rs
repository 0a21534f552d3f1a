//! What holds a sender back beside congestion control: its receiver's trouble (RFC 4340 §11.6, §11.7.2).

use timeous_core::Instant;

/// Why less is sent, or nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Restraint {
    /// Until when the rate does not grow.
    pub(super) level_until: Option<Instant>,
    /// The peer's application does not listen any more.
    pub(super) peer_is_deaf: bool,
    /// Data whose checksum covers less than all were refused.
    pub(super) covers_all: bool,
}

impl Restraint {
    /// Whether the window must not grow now.
    pub(super) fn is_level(&self, now: Instant) -> bool {
        self.level_until.is_some_and(|until| now < until)
    }
}
