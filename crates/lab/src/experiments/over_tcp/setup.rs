//! Shared parameters of all streams: addresses, timeouts, and the sender's counters.

use rustix::thread::{ClockId, Timespec, clock_nanosleep_absolute};
use timeous::core::{Duration, Instant};
use timeous_engine::Reach;

use crate::experiment::LabError;

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

/// Returns the error for a connection without an answer.
pub(super) fn no_connection() -> LabError {
    LabError::Machine("nobody answered at the other end of the link: is a firewall between the namespaces?".to_owned())
}

pub(super) fn sleep_until(at: Instant) {
    let nanos = at.as_nanos();
    let at = Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as _ };
    // An interrupted sleep is harmless: each packet's send time is recorded.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &at);
}
