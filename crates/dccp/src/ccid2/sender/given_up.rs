//! What timeouts took for lost. A packet's number is its own, so that an acknowledgement of one that comes after all tells a round
//! trip, and that the timeout was for nothing (as RFC 4015 does with time stamps): without it a path whose round trips have become
//! longer than the timeout while nothing was sent would never be measured again.

use std::collections::VecDeque;

use timeous_core::Instant;

use crate::ack_vector::Report;
use crate::seq::Seq;

/// So many are remembered: what is older was lost.
const MOST: usize = 64;

/// A packet whose fate was open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) seq: Seq,
    pub(super) at: Instant,
    /// What the Congestion Manager was told of it.
    pub(super) bytes: u64,
}

/// What came of it after all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Late {
    pub(crate) bytes: u64,
    /// Whether the packet is among it that the timeout had waited for: it was for nothing.
    pub(crate) is_spurious: bool,
}

/// The latest of them.
#[derive(Clone, Debug, Default)]
pub(super) struct GivenUp(VecDeque<(Open, bool)>);

impl GivenUp {
    /// A timeout took it for lost; whether it had waited for this one.
    pub(super) fn add(&mut self, open: Open, is_oldest: bool) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back((open, is_oldest));
    }

    /// What the report tells to have arrived is forgotten. When `ack` was sent, if it is among that.
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
