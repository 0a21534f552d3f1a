//! How the application here receives: whether it listens, what it has room for, and what it did not get.

use super::drops::Drops;

/// How the application here receives.
#[derive(Clone, Debug)]
pub(super) struct Reception {
    /// What it did not get.
    pub(super) drops: Drops,
    pub(super) listens: bool,
    /// How many bytes it has room for.
    pub(super) room: usize,
    /// Whether the peer is asked not to send more than now.
    pub(super) is_slow: bool,
}

impl Default for Reception {
    fn default() -> Self {
        Self { drops: Drops::default(), listens: true, room: usize::MAX, is_slow: false }
    }
}
