//! What is known of data that were lost, or come again.

use std::collections::BTreeMap;

use timeous_core::Instant;

use super::delivered::Delivered;
use crate::seq::Seq;

/// As many ADUs are remembered that may be sent again.
const MOST: usize = 2_048;
/// What is known of data that were lost, or come again.
#[derive(Clone, Debug, Default)]
pub(super) struct Repeats {
    /// The number of the first packet with an ADU, by its token: of those that are lost or overdue.
    pub(super) first: BTreeMap<u64, Seq>,
    /// When something that was overdue for later ones was found to have arrived.
    pub(super) reordered_at: Option<Instant>,
    /// When something was last allowed to leave beyond the window.
    pub(super) probed_at: Option<Instant>,
    /// Whether the driver was told that the peer takes what is sent again.
    pub(super) is_told: bool,
    /// What was delivered here, once the peer has asked.
    pub(super) delivered: Option<Delivered>,
}

impl Repeats {
    /// An ADU may be sent again that was sent as `seq`, if not under a smaller number before.
    pub(super) fn remember(&mut self, token: u64, seq: Seq) {
        if self.is_told {
            self.first.entry(token).or_insert(seq);
            if self.first.len() > MOST {
                self.first.pop_first();
            }
        }
    }

    /// It has arrived.
    pub(super) fn forget(&mut self, token: u64) {
        self.first.remove(&token);
    }
}
