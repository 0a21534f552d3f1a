//! Congestion signals.

use timeous_core::Instant;

use crate::flow::Loss;

/// Congestion signal reported by a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CongestionSignal {
    pub(crate) loss: Loss,
    pub(crate) sent_at: Instant,
    /// A repeated timeout of the same flow, with nothing acknowledged since the last one.
    pub(crate) again: bool,
    /// Bytes reported lost in the same update.
    pub(crate) lost: u64,
}
