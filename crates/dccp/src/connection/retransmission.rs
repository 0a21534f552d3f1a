//! Retransmission by the sender: original sequence numbers, reordering, and probes.
//!
//! DCCP identifies a datagram only by its packet's number. A retransmission carries the original number in a four-byte
//! option; first transmissions carry nothing. Feature and option are from the experimental ranges of RFC 4340 §19.3 and
//! §19.4, so other implementations ignore them.

use std::collections::BTreeMap;

use timeous_core::{Duration, Instant};

use super::delivery::record::WINDOW;
use crate::seq::Seq;

/// Maximum number of ADUs remembered for retransmission. Chosen by us: a higher value takes more memory.
const MAX_ADUS: usize = 2_048;
/// Size of the Repeat option, in bytes; a multiple of four, so that padding stays the same (docs/design/repair.md).
pub(super) const OPTION_LEN: usize = 4;
/// Maximum distance to the original number, in packets: half of what the receiver remembers, so that it still does for
/// certain. Chosen by us: a higher value repeats older data (docs/design/repair.md).
const MAX_DISTANCE: u64 = WINDOW / 2;
/// Time for which a path counts as reordering after it has reordered once. Chosen by us: a higher value retransmits
/// later for longer.
const REORDERING_LIFETIME: Duration = Duration::from_secs(10);

/// State of data that may be retransmitted.
#[derive(Clone, Debug, Default)]
pub(super) struct Retransmission {
    /// Original sequence number of each lost or overdue ADU, by token.
    first: BTreeMap<u64, Seq>,
    /// Time of the last detected reordering: an ADU reported as overdue arrived after later ones.
    reordered_at: Option<Instant>,
    /// Whether the peer accepts retransmissions, and the driver knows it.
    is_accepted: bool,
}

impl Retransmission {
    pub(super) fn is_accepted(&self) -> bool {
        self.is_accepted
    }

    /// Notes that the peer accepts retransmissions. Returns whether that is news.
    pub(super) fn accept(&mut self) -> bool {
        !std::mem::replace(&mut self.is_accepted, true)
    }

    /// Bytes reserved in each data packet for the Repeat option.
    pub(super) fn option_room(&self) -> usize {
        if self.is_accepted { OPTION_LEN } else { 0 }
    }

    /// Distance from the packet `seq` to the ADU's original number; `None` if that is no longer known or too far back.
    pub(super) fn distance(&self, token: u64, seq: Seq) -> Option<u16> {
        let back = self.first.get(&token).map(|&first| seq.distance_from(first));
        back.filter(|&back| back <= MAX_DISTANCE).and_then(|back| u16::try_from(back).ok())
    }

    pub(super) fn forget(&mut self, token: u64) {
        self.first.remove(&token);
    }

    /// Remembers the number of an ADU that may be retransmitted, unless an earlier one is known.
    pub(super) fn remember(&mut self, token: u64, seq: Seq) {
        if self.is_accepted {
            self.first.entry(token).or_insert(seq);
            if self.first.len() > MAX_ADUS {
                self.first.pop_first();
            }
        }
    }

    pub(super) fn on_reordered(&mut self, now: Instant) {
        self.reordered_at = Some(now);
    }

    pub(super) fn is_reordered(&self, now: Instant) -> bool {
        self.reordered_at.is_some_and(|at| now - at < REORDERING_LIFETIME)
    }
}
