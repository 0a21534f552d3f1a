//! The peer's timestamps: the value to echo, and PAWS (RFC 7323 §4.3, §5).

use timeous_core::{Duration, Instant};

use crate::seq::Seq;

/// Silence after which the peer's timestamp clock may have wrapped (RFC 7323 §5.5).
const OUTDATED: Duration = Duration::from_secs(24 * 24 * 3_600);

/// TS.Recent, and when it was updated.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerClock {
    recent: u32,
    heard: Instant,
}

impl PeerClock {
    pub(super) const fn new(now: Instant, value: u32) -> Self {
        Self { recent: value, heard: now }
    }

    /// Returns the value to echo (TSecr).
    pub(super) const fn echo(&self) -> u32 {
        self.recent
    }

    /// Returns whether a segment with this timestamp is an old duplicate: PAWS (RFC 7323 §5.3, R1).
    pub(super) fn is_old(&self, now: Instant, value: u32) -> bool {
        is_before(value, self.recent) && now - self.heard <= OUTDATED
    }

    /// Updates TS.Recent by an acceptable segment, if its timestamp is the earliest that no ACK has covered (RFC 7323
    /// §4.3, rule 2).
    pub(super) fn hear(&mut self, now: Instant, value: u32, seq: Seq, last_ack_sent: Seq) {
        let outdated = now - self.heard > OUTDATED;
        if seq.is_at_or_before(last_ack_sent) && (outdated || !is_before(value, self.recent)) {
            *self = Self::new(now, value);
        }
    }
}

fn is_before(value: u32, other: u32) -> bool {
    (value.wrapping_sub(other) as i32) < 0
}
