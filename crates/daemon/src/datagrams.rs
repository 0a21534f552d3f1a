//! Datagrams that clients send by plain sockets without a report: counted in the kernel, and charged to their macroflows.

use std::path::Path;

use timeous_core::{Duration, Instant};
use timeous_engine::Congestion;
use timeous_kernel::{DatagramCounter, KernelError};

/// Interval of rounds while a flow is counted.
const WATCHING: Duration = Duration::from_millis(10);
/// Interval of rounds while there is none.
const IDLE: Duration = Duration::from_millis(200);

/// State of the count.
#[derive(Debug)]
pub(crate) struct Datagrams {
    counter: Option<DatagramCounter>,
    next: Instant,
}

impl Datagrams {
    /// Begins to count what leaves from a cgroup's sockets, if one is given.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub(crate) fn new(now: Instant, cgroup: Option<&Path>) -> Result<Self, KernelError> {
        Ok(Self { counter: cgroup.map(DatagramCounter::attach).transpose()?, next: now })
    }

    /// Returns when [`charge`](Self::charge) is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.counter.as_ref().map(|_| self.next)
    }

    /// Charges what has left to the flows' macroflows, if that is due. Returns whether there was anything.
    pub(crate) fn charge(&mut self, now: Instant, congestion: &Congestion) -> bool {
        let Some(counter) = self.counter.as_mut().filter(|_| self.next <= now) else { return false };
        let charged = counter.charge(now, &mut congestion.lock()).unwrap_or_else(|error| {
            tracing::warn!(%error, "datagrams of plain sockets are counted badly");
            0
        });
        self.next = now + if counter.is_watching() { WATCHING } else { IDLE };
        charged > 0
    }
}
