//! Signs of congestion.

use timeous_core::Instant;

use crate::flow::Loss;

/// A sign of congestion that a flow saw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sign {
    pub(crate) loss: Loss,
    pub(crate) sent_at: Instant,
    /// A timeout of the same flow, with nothing acknowledged since its last.
    pub(crate) again: bool,
    /// So many bytes were told as lost with it.
    pub(crate) lost: u64,
}
