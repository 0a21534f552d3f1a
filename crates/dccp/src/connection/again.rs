//! Retransmission state: original sequence numbers, reordering, and what the receiver has delivered.

use std::collections::BTreeMap;

use timeous_core::Instant;

use super::delivered::Delivered;
use crate::seq::Seq;

/// Maximum number of ADUs remembered for retransmission. Chosen by us: a higher value takes more memory.
const MAX_ADUS: usize = 2_048;
/// Retransmission state of both halves of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Repeats {
    /// Original sequence number of each lost or overdue ADU, by token.
    pub(super) first: BTreeMap<u64, Seq>,
    /// Time of the last detected reordering: an ADU reported as overdue arrived after later ones.
    pub(super) reordered_at: Option<Instant>,
    /// Time of the last probe beyond the congestion window.
    pub(super) probed_at: Option<Instant>,
    /// Whether the driver was told that the peer accepts retransmissions.
    pub(super) is_told: bool,
    /// Data delivered here; `None` until the peer has negotiated retransmissions.
    pub(super) delivered: Option<Delivered>,
}

impl Repeats {
    /// Remembers the number of an ADU that may be retransmitted, unless an earlier one is known.
    pub(super) fn remember(&mut self, token: u64, seq: Seq) {
        if self.is_told {
            self.first.entry(token).or_insert(seq);
            if self.first.len() > MAX_ADUS {
                self.first.pop_first();
            }
        }
    }

    /// Forgets an ADU that has arrived.
    pub(super) fn forget(&mut self, token: u64) {
        self.first.remove(&token);
    }
}
