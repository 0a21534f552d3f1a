//! Pending segments without data, besides acknowledgements, and the rate of answers to suspicious segments.

use timeous_core::{Instant, RateLimit};

use crate::segment::Header;

/// Limit of challenge ACKs per second (RFC 5961 §7). Chosen by us: Linux allows 500 per interface, and one each half a
/// second per connection; a lower value slows recovery after resets.
const CHALLENGES_PER_SECOND: u32 = 10;

/// Segments pending for transmission.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingSegments {
    /// A reset (RFC 9293 §3.10.7.1).
    reset: Option<Header>,
    controls: [bool; 3],
    challenges: RateLimit,
}

/// A segment that the connection's state determines when it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Control {
    /// A SYN or a SYN-ACK.
    Syn,
    /// A window probe, which makes the peer report its window.
    WindowProbe,
    /// A tail loss probe.
    TailProbe,
}

impl PendingSegments {
    pub(super) fn new() -> Self {
        Self { reset: None, controls: [false; 3], challenges: RateLimit::per_second(CHALLENGES_PER_SECOND) }
    }

    pub(super) fn set(&mut self, control: Control, is_pending: bool) {
        self.controls[control as usize] = is_pending;
    }

    /// Removes a segment; returns whether it was pending.
    pub(super) fn take(&mut self, control: Control) -> bool {
        std::mem::take(&mut self.controls[control as usize])
    }

    pub(super) fn set_reset(&mut self, header: Header) {
        self.reset = Some(header);
    }

    pub(super) fn take_reset(&mut self) -> Option<Header> {
        self.reset.take()
    }

    /// Returns whether a suspicious segment may be answered now.
    pub(super) fn may_challenge(&mut self, now: Instant) -> bool {
        self.challenges.take(now)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.reset.is_none() && self.controls == [false; 3]
    }

    pub(super) fn clear(&mut self) {
        (self.reset, self.controls) = (None, [false; 3]);
    }
}
