//! Redundant data bundling: a segment of a thin stream carries the previous data once more, so that a lost segment arrives with the next
//! one (Evensen et al. 2008; Opstad et al. 2015).
//!
//! On the wire it is a segment that begins earlier. The bundled bytes count as in flight, and no data is sent more than twice this way.
//!
//! # Hidden losses
//! A loss repaired by a bundle is congestion all the same. Its only sign is a missing DSACK (RFC 2883): a peer that has the first copy
//! reports the second as a duplicate.
//!
//! So a segment that was not acknowledged before its carrier arrived, and whose second copy is not reported as a duplicate, was lost: the
//! window is reduced for it, at most once per window. A peer that never reports duplicates gets no bundles.
//!
//! An acknowledgement reports one duplicate. Most peers answer a duplicate at once (RFC 5681 §4.2); for one that delays, bundles are spaced
//! so that there is one per acknowledgement. Until then, unreported ones count as lost.
//!
//! A carrier split on the way exactly between both parts is not detected: then the first part seems to have arrived by itself.
//!
//! A DSACK caused by a bundle says nothing of needless retransmissions: neither RACK nor the tail loss probe uses it.

use std::ops::Range;

use timeous_core::{AduSource, Instant, PathState};

use super::bundling::Bundling;
use super::feedback::{Carried, Repeated};
use super::{Acknowledgement, Feedback, Sender};

/// Segments in flight from which a stream is not thin: enough to detect a loss soon (Linux's `tcp_stream_is_thin`, used by Evensen et al.
/// and Opstad et al.).
const THIN: usize = 4;
/// Number of last segments among which the carriers are: a thin stream's, and those behind a loss that are SACKed
/// already. Chosen by us: twice a thin stream's segments.
const MAX_CARRIERS: usize = 2 * THIN;

/// Losses hidden by bundles, as shown by an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hidden {
    /// Latest segment that was lost and arrived in a bundle: its start, and its send time.
    latest: Option<(u64, Instant)>,
    /// Number of such losses.
    pub(super) count: u64,
}

impl Sender {
    /// Switches bundling on or off; it needs a peer that agreed to SACK.
    pub(crate) fn with_bundling(mut self, is_on: bool) -> Self {
        self.bundling = Bundling::new(is_on);
        self
    }

    /// Returns the range just before a new segment that is worth bundling, at most `most` bytes: whole segments in flight that were sent
    /// once. Empty if there are none.
    pub(crate) fn worth_bundling(
        &mut self,
        now: Instant,
        path: &PathState,
        most: u64,
        source: &mut dyn AduSource,
    ) -> Range<u64> {
        let end = self.nxt();
        let mut start = end;
        let is_due = self.bundling.is_on && self.bundling.since + 1 >= self.bundling.apart;
        if is_due && self.board.in_flight() < THIN {
            let mut at = self.board.segments();
            while let Some(sent) = at.checked_sub(1).and_then(|before| self.board.get(before)) {
                let is_fresh =
                    sent.transmissions == 1 && sent.copies == 1 && !sent.sacked && !sent.repeated && !sent.fin;
                if !is_fresh || end - sent.start > most || !self.payload.may_bundle(now, path, sent.span(), source) {
                    break;
                }
                start = sent.start;
                at -= 1;
            }
        }
        start..end
    }

    /// Returns the bytes in flight without bundled ones.
    pub(crate) fn fresh_under_way(&self) -> u64 {
        self.board.pipe() - self.board.bundled(MAX_CARRIERS)
    }

    /// Appends bundled bytes to `packet`.
    pub(crate) fn bundle(&self, span: &Range<u64>, packet: &mut Vec<u8>) {
        self.payload.bundle(span, packet);
    }

    /// Notes that the last new segment carried `bytes` bundled bytes; perhaps none.
    pub(crate) fn sent_bundle(&mut self, bytes: u64) {
        self.bundling.since = if bytes > 0 { 0 } else { self.bundling.since.saturating_add(1) };
        if bytes > 0 {
            self.board.bundle(bytes);
        }
    }

    /// Returns whether a DSACK is for the second copy in a bundle. The carrier need not be known to have arrived: it may have been split on
    /// the way.
    pub(super) fn is_of_bundle(&mut self, ack: &Acknowledgement<'_>, feedback: &Feedback) -> bool {
        let Some(dsack) = &ack.dsack else { return false };
        let has_come = feedback.carried.iter().any(|carried| overlap(&carried.span, dsack));
        let is_ours = has_come || self.board.is_bundled(dsack, MAX_CARRIERS);
        self.bundling.tells |= is_ours;
        is_ours
    }

    /// Finds segments that arrived only in a bundle: they are lost, and are removed from those that arrived.
    pub(super) fn judge_bundles(&mut self, ack: &Acknowledgement<'_>, feedback: &mut Feedback) -> Hidden {
        let mut hidden = Hidden::default();
        let is_told = |span: &Range<u64>| ack.dsack.as_ref().is_some_and(|dsack| overlap(span, dsack));
        let (repeated, carried) = (std::mem::take(&mut feedback.repeated), std::mem::take(&mut feedback.carried));
        let mut lost: Vec<Range<u64>> = Vec::new();
        for (later, Carried { span, is_certain }) in carried.iter().rev().enumerate() {
            // A carrier that arrived only in a later bundle delivered nothing itself.
            if lost.iter().any(|lost| lost.start == span.end) {
                continue;
            }
            let mut with_it = repeated.iter().filter(|one| overlap(&one.span, span)).peekable();
            if with_it.peek().is_none() && *is_certain {
                if later == 0 {
                    self.bundling.had_both(is_told(span));
                }
                if feedback.arrived.last().is_some_and(|last| last.start > span.end) {
                    self.bundling.waited(feedback.arrived.len());
                } else {
                    self.bundling.is_known();
                }
            }
            for Repeated { span, sent_at } in with_it.filter(|one| !is_told(&one.span)) {
                let bytes = (span.end - span.start).min(feedback.acked);
                feedback.acked -= bytes;
                feedback.lost += bytes;
                hidden.latest = hidden.latest.max(Some((span.start, *sent_at)));
                hidden.count += 1;
                lost.push(span.clone());
            }
        }
        (feedback.repeated, feedback.carried) = (repeated, carried);
        hidden
    }

    /// Returns the send time of the latest hidden loss, if congestion control has to react: it was sent after the last reduction.
    pub(super) fn answer_hidden(&mut self, hidden: Hidden) -> Option<Instant> {
        let (_, sent_at) = hidden.latest.filter(|&(start, _)| !self.ecn.is_answered(start))?;
        self.bundling.answered_to = self.nxt();
        self.ecn.reduced(self.nxt());
        Some(sent_at)
    }

    /// Returns whether the last reduction for a hidden loss is still in effect, so that the window stays as in a recovery.
    pub(super) fn answers_hidden(&self) -> bool {
        self.una() < self.bundling.answered_to
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}
