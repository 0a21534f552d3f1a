//! Tolerance for reordering: how many later packets must have arrived before one is taken for lost.
//!
//! RFC 4341 §5 takes three. Where packets that were taken for lost arrive after all, the path reorders, and the tolerance is
//! raised to what was seen (as RFC 4653 and Linux's TCP do): losses are then told by time (RFC 8985 §6.2).

use std::collections::VecDeque;

use crate::ack_vector::Report;
use crate::seq::Seq;

/// A packet is lost when this many later ones have arrived (RFC 4341 §5).
pub(in crate::ccid2) const NUMDUPACK: usize = 3;
/// The most: what leaves within a tenth of a second at 4 Mbit/s.
pub(super) const MOST: usize = 32;
/// Packets that were taken for lost and are remembered.
const REMEMBERED: usize = 64;

/// What was seen of reordering.
#[derive(Clone, Debug)]
pub(super) struct Reordering {
    tolerance: usize,
    inferred: VecDeque<Seq>,
}

impl Default for Reordering {
    fn default() -> Self {
        Self { tolerance: NUMDUPACK, inferred: VecDeque::new() }
    }
}

impl Reordering {
    /// Later packets that must have arrived.
    pub(super) fn tolerance(&self) -> usize {
        self.tolerance
    }

    /// A packet is taken for lost since later ones have arrived.
    pub(super) fn inferred(&mut self, seq: Seq) {
        if self.inferred.len() == REMEMBERED {
            self.inferred.pop_front();
        }
        self.inferred.push_back(seq);
    }

    /// Learns from what has arrived after all, behind the `newest` that arrived before.
    pub(super) fn look(&mut self, report: &Report, newest: Option<Seq>) {
        let tolerance = &mut self.tolerance;
        self.inferred.retain(|&seq| {
            let came = seq.is_in_window(report.oldest, report.newest);
            if let Some(newest) = newest.filter(|_| came) {
                let overtaken = usize::try_from(newest.distance_from(seq)).unwrap_or(MOST);
                *tolerance = (*tolerance).max(overtaken + 1).min(MOST);
            }
            !came
        });
    }
}
