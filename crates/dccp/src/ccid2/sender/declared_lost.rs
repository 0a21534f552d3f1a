//! Packets declared lost. A late acknowledgement of one that later ones overtook shows by how much the path reorders
//! (RFC 8985 §6.2). After a timeout it gives a round-trip sample (packet numbers are unique), and proves the timeout
//! spurious (as RFC 4015 does with timestamps): otherwise a path whose RTT grew beyond the timeout while idle would
//! never be measured again.

use std::collections::VecDeque;

use timeous_core::{Duration, Instant};

use crate::ack_vector::Report;
use crate::seq::Seq;

/// Maximum number of packets remembered, the newest. Chosen by us: a higher value takes more memory, and time at each
/// acknowledgement.
const MAX_PACKETS: usize = 64;

/// A packet declared lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    pub(super) seq: Seq,
    pub(super) at: Instant,
    /// When a later packet was first known to have arrived, if one had.
    pub(super) overtaken_at: Option<Instant>,
    /// Size reported to the Congestion Manager, if a timeout declared the packet lost; else zero.
    pub(super) bytes: u64,
    /// Whether a timeout waited for it.
    pub(super) is_oldest: bool,
}

/// Late arrivals of packets that a timeout had declared lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Late {
    pub(crate) bytes: u64,
    /// Whether the packet that the timeout waited for is among them: the timeout was spurious.
    pub(crate) is_spurious: bool,
}

/// Findings from an acknowledgement of packets declared lost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Came {
    /// Send time of the packet asked for, if it is one of them.
    pub(super) sent_at: Option<Instant>,
    pub(super) late: Late,
    /// By how much the latest came after what overtook it, if packets were overtaken.
    pub(super) overtaken_by: Option<Duration>,
}

/// The newest packets declared lost.
#[derive(Clone, Debug, Default)]
pub(super) struct DeclaredLost(VecDeque<Lost>);

impl DeclaredLost {
    pub(super) fn add(&mut self, lost: Lost) {
        if self.0.len() == MAX_PACKETS {
            // Only what a timeout waited for can prove it spurious.
            let oldest = self.0.iter().position(|lost| !lost.is_oldest).unwrap_or(0);
            self.0.remove(oldest);
        }
        self.0.push_back(lost);
    }

    /// Removes the packets that the report acknowledges. `ack`: the packet whose send time is asked for.
    pub(super) fn came(&mut self, now: Instant, ack: Seq, report: &Report) -> Came {
        let mut came = Came::default();
        self.0.retain(|lost| {
            if !lost.seq.is_in_window(report.oldest, report.newest) {
                return true;
            }
            came.late.bytes += lost.bytes;
            came.late.is_spurious |= lost.is_oldest;
            came.overtaken_by = came.overtaken_by.max(lost.overtaken_at.map(|at| now.saturating_since(at)));
            came.sent_at = came.sent_at.or(Some(lost.at).filter(|_| lost.seq == ack));
            false
        });
        came
    }
}
