//! Packets that timeouts declared lost. A late acknowledgement of one gives a round-trip sample (packet numbers are
//! unique), and proves the timeout spurious (as RFC 4015 does with timestamps): otherwise a path whose RTT grew beyond
//! the timeout while idle would never be measured again.

use std::collections::VecDeque;

use timeous_core::Instant;

use crate::ack_vector::Report;
use crate::seq::Seq;

/// Maximum number of packets remembered, the newest. Chosen by us: a higher value takes more memory.
const MAX_PACKETS: usize = 64;

/// A packet that was in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) seq: Seq,
    pub(super) at: Instant,
    /// Size reported to the Congestion Manager.
    pub(super) bytes: u64,
}

/// Late arrivals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Late {
    pub(crate) bytes: u64,
    /// Whether the packet that the timeout waited for is among them: the timeout was spurious.
    pub(crate) is_spurious: bool,
}

/// The newest packets declared lost, and whether a timeout waited for each.
#[derive(Clone, Debug, Default)]
pub(super) struct GivenUp(VecDeque<(Open, bool)>);

impl GivenUp {
    /// Adds a packet that a timeout declared lost; `is_oldest`: the timeout waited for it.
    pub(super) fn add(&mut self, open: Open, is_oldest: bool) {
        if self.0.len() == MAX_PACKETS {
            self.0.pop_front();
        }
        self.0.push_back((open, is_oldest));
    }

    /// Removes the packets that the report acknowledges. Returns the send time of `ack`, if it is one of them.
    pub(super) fn came(&mut self, ack: Seq, report: &Report, late: &mut Late) -> Option<Instant> {
        let mut sent_at = None;
        self.0.retain(|&(Open { seq, at, bytes }, is_oldest)| {
            let came = seq.is_in_window(report.oldest, report.newest);
            if came {
                late.bytes += bytes;
                late.is_spurious |= is_oldest;
                sent_at = sent_at.or(Some(at).filter(|_| seq == ack));
            }
            !came
        });
        sent_at
    }
}
