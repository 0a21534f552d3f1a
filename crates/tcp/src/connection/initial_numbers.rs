//! Numbers that this end chose at random when it was created, and those counted from them.

use timeous_core::{Duration, Instant, Rng};

use crate::segment::Timestamps;
use crate::seq::Seq;

/// Initial sequence number and timestamp offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct InitialNumbers {
    /// Initial send sequence number (RFC 9293 §3.3.1).
    iss: Seq,
    /// Offset of the timestamp clock, which counts milliseconds (RFC 7323 §5.4).
    timestamp_offset: u32,
}

impl InitialNumbers {
    /// Chooses the numbers; `initial_seq` takes the place of a random sequence number.
    pub(super) fn new(initial_seq: Option<Seq>, rng: &mut Rng) -> Self {
        let random = rng.next_u64();
        let iss = initial_seq.unwrap_or_else(|| Seq::new(random as u32));
        Self { iss, timestamp_offset: (random >> 32) as u32 }
    }

    /// Returns the sequence number of the SYN.
    pub(super) fn syn(&self) -> Seq {
        self.iss
    }

    /// Returns the sequence number of a stream offset.
    pub(super) fn seq(&self, offset: u64) -> Seq {
        self.iss + 1 + offset as u32
    }

    /// Returns the stream offset of one of our sequence numbers, the one nearest to the offset `una`.
    pub(super) fn offset(&self, seq: Seq, una: u64) -> i64 {
        una as i64 + i64::from(seq.offset_from(self.seq(una)))
    }

    /// Returns the value of our timestamp clock.
    pub(super) fn timestamp(&self, now: Instant) -> u32 {
        self.timestamp_offset.wrapping_add((now - Instant::ZERO).as_millis() as u32)
    }

    /// Returns the RTT sample of a timestamp echo; `None` for an echo of a timestamp that was never sent.
    pub(super) fn rtt(&self, now: Instant, timestamps: Timestamps) -> Option<Duration> {
        let millis = self.timestamp(now).wrapping_sub(timestamps.echo);
        // Within one tick of the clock the RTT was not zero.
        Some(Duration::from_millis(u64::from(millis.max(1)))).filter(|_| millis <= i32::MAX as u32)
    }
}
