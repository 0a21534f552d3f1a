//! What all streams share: where they go, how long anything is waited for, what a sender tells of itself.

use rustix::thread::{ClockId, Timespec, clock_nanosleep_absolute};
use timeous::core::{Duration, Instant};
use timeous_engine::Reach;

use crate::experiment::LabError;

/// Where the receiver is.
pub(super) const RIGHT: &str = "10.77.0.2:5000";
/// And its port.
pub(super) const PORT: u16 = 5_000;
/// How long a connection is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// From the opening of the connection to the stream's beginning.
pub(super) const LEAD: Duration = Duration::from_millis(200);
/// How often a blocked socket is asked whether it is still wanted.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// What the sender told of itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    /// How far late choice reached at the end.
    pub(crate) reach: Option<Reach>,
    /// Datagrams behind the ring that gave their place to a fresh one, and that made way for padding.
    pub(crate) replaced: u64,
    pub(crate) padded: u64,
    /// The path was found not to bear that.
    pub(crate) refused: bool,
    /// The connection ended before its time.
    pub(crate) ended: bool,
}

/// Nobody answers.
pub(super) fn no_connection() -> LabError {
    LabError::Machine("nobody answered at the other end of the link: is a firewall between the namespaces?".to_owned())
}

pub(super) fn sleep_until(at: Instant) {
    let nanos = at.as_nanos();
    let at = Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as _ };
    // Interrupted or not, what is sent a little early says so itself.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &at);
}
