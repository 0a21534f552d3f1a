//! Shared parameters of all streams: addresses, timeouts, and the sender's counters.

use timeous::core::Duration;
use timeous_engine::Reach;

/// Address of the receiver.
pub(super) const RIGHT: &str = "10.77.0.2:5000";
/// Port of the receiver.
pub(super) const PORT: u16 = 5_000;
/// Longest wait for a connection.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Time from the opening of the connection to the stream's start.
pub(super) const LEAD: Duration = Duration::from_millis(200);
/// Socket timeout, after which a thread checks whether to stop.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// Counters and state of the sender.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SenderStatus {
    /// Final reach of late choice.
    pub(crate) reach: Option<Reach>,
    /// Datagrams behind the ring replaced by a fresh one, and datagrams replaced by padding.
    pub(crate) replaced: u64,
    pub(crate) padded: u64,
    /// Whether the path was found not to support late choice.
    pub(crate) refused: bool,
    /// Whether the connection ended early.
    pub(crate) ended: bool,
}
