//! Bundling: where a stream is thin, what leaves carries once more what left just before, so that a lost segment is there with the
//! next one (Evensen et al. 2008; Opstad et al. 2015).
//!
//! To the peer it is a segment that begins earlier than it might. What it carries besides is under way with it, and nothing is
//! sent more than twice that way.
//!
//! # What it hides
//! A loss that was repaired so is congestion all the same, and nothing but a duplicate that did *not* come tells of it: who has
//! the first copy says that the second one came twice (DSACK, RFC 2883). So a segment of which nobody had heard before the one
//! came that carries it again, and of which the peer does not say that it came twice, was lost: the window hears of that as of any
//! loss, once a window. A peer that says nothing where it must have had both copies, and never did, is not bundled to any more.
//!
//! An acknowledgement tells of one duplicate. Most peers answer a duplicate at once (RFC 5681 §4.2 wants that where something is
//! odd); to one that waits for more, bundles leave so rarely that there is one for each acknowledgement. What it did not tell of
//! until then counts as lost.
//!
//! What is cut on the way just between the two is not found: then the first of them came by itself, as far as anybody can see.
//!
//! A duplicate of ours says nothing of what was repeated needlessly: neither RACK nor a probe hears of it.

use std::ops::Range;

use timeous_core::{AduSource, Instant, PathState};

use super::bundling::Bundling;
use super::feedback::{Carried, Repeated};
use super::{Acknowledgement, Feedback, Sender};

/// With so many segments under way there is enough to tell of a loss soon: the stream is not thin any more (Linux's
/// `tcp_stream_is_thin`, which Evensen et al. and Opstad et al. go by).
const THIN: usize = 4;
/// What carries bundles is among so many segments: a thin stream's, and those behind a loss that the peer holds already.
const FEW: usize = 2 * THIN;

/// What an acknowledgement says of bundles.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hidden {
    /// The latest segment that was lost and came with a later one: where it begins, and when it left.
    latest: Option<(u64, Instant)>,
    /// How many there were.
    pub(super) count: u64,
}

impl Sender {
    /// Takes part in bundling, which needs a peer that agreed to SACK.
    pub(crate) fn with_bundling(mut self, is_on: bool) -> Self {
        self.bundling = Bundling::new(is_on);
        self
    }

    /// Which bytes just before a new segment are worth carrying with it once more, `most` of them: whole segments, under way for the
    /// first time and not repeated yet. Empty if there are none.
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

    /// How many bytes are under way, without what is bundled.
    pub(crate) fn fresh_under_way(&self) -> u64 {
        self.board.pipe() - self.board.bundled(FEW)
    }

    /// Appends what is bundled to `packet`.
    pub(crate) fn bundle(&self, span: &Range<u64>, packet: &mut Vec<u8>) {
        self.payload.bundle(span, packet);
    }

    /// The new segment that left last carried so many bytes before its own; perhaps none.
    pub(crate) fn sent_bundle(&mut self, bytes: u64) {
        self.bundling.since = if bytes > 0 { 0 } else { self.bundling.since.saturating_add(1) };
        if bytes > 0 {
            self.board.bundle(bytes);
        }
    }

    /// Whether a duplicate that an acknowledgement tells of is the second copy in a bundle. The carrier need not be known to have
    /// arrived: something on the way may have cut it in two.
    pub(super) fn is_of_bundle(&mut self, ack: &Acknowledgement<'_>, feedback: &Feedback) -> bool {
        let Some(dsack) = &ack.dsack else { return false };
        let has_come = feedback.carried.iter().any(|carried| overlap(&carried.span, dsack));
        let is_ours = has_come || self.board.is_bundled(dsack, FEW);
        self.bundling.tells |= is_ours;
        is_ours
    }

    /// What has arrived only with the next segment was lost: that is taken from what arrived.
    pub(super) fn judge_bundles(&mut self, ack: &Acknowledgement<'_>, feedback: &mut Feedback) -> Hidden {
        let mut hidden = Hidden::default();
        let is_told = |span: &Range<u64>| ack.dsack.as_ref().is_some_and(|dsack| overlap(span, dsack));
        let (repeated, carried) = (std::mem::take(&mut feedback.repeated), std::mem::take(&mut feedback.carried));
        let mut lost: Vec<Range<u64>> = Vec::new();
        for (later, Carried { span, is_certain }) in carried.iter().rev().enumerate() {
            // A carrier that came only with a later one brought nothing.
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

    /// Whether the loss of what began there is news to congestion control: it left after the last answer.
    pub(super) fn answer_hidden(&mut self, hidden: Hidden) -> Option<Instant> {
        let (_, sent_at) = hidden.latest.filter(|&(start, _)| !self.ecn.is_answered(start))?;
        self.bundling.answered_to = self.nxt();
        self.ecn.reduced(self.nxt());
        Some(sent_at)
    }

    /// Whether what was hidden is answered still, so that the window stays as in a recovery.
    pub(super) fn answers_hidden(&self) -> bool {
        self.una() < self.bundling.answered_to
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}
