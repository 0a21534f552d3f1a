//! Number of packets sent, and their processor time.

use std::io;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Packets sent before the peer's answers are processed.
pub(super) const ROUND_TRIP: u32 = 192;

/// Writes a packet's number, the only content that is written: the rest of a payload is irrelevant.
pub(super) fn number(payload: &mut [u8], next: &mut u64) {
    if let Some(first) = payload.first_chunk_mut() {
        *first = next.to_be_bytes();
    }
    *next += 1;
}

/// Packets sent, and their processor time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) packets: u32,
    pub(crate) nanos: u64,
}

impl Sent {
    pub(super) fn watch(&mut self, work: impl FnOnce() -> io::Result<u32>) -> io::Result<()> {
        let before = processor_time();
        self.packets += work()?;
        self.nanos += processor_time() - before;
        Ok(())
    }
}

/// Returns the processor time of this thread, in nanoseconds.
pub(super) fn processor_time() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ThreadCPUTime);
    tv_sec as u64 * 1_000_000_000 + tv_nsec as u64
}
