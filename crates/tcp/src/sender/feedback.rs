//! What an acknowledgement, or its absence, has taught.

use std::ops::Range;

use timeous_core::{Duration, Instant};

use super::sent::Sent;

/// News for the Congestion Manager and for the source. It is filled anew for each acknowledgement.
#[derive(Debug, Default)]
pub(crate) struct Feedback {
    /// Data bytes that left the network because they arrived.
    pub(crate) acked: u64,
    /// Data bytes that are taken for lost.
    pub(crate) lost: u64,
    /// When the newest of those was sent.
    pub(super) newest_lost: Option<Instant>,
    /// The same of those that were not sent for the first time.
    pub(super) newest_lost_again: Option<Instant>,
    /// The tokens of the segments that are acknowledged in full.
    pub(crate) acked_tokens: Vec<u64>,
    /// The stream offsets of the segments that have arrived.
    pub(super) arrived: Vec<Range<u64>>,
    /// When the oldest segment was sent of which news came, and that was sent only once (Karn's algorithm).
    pub(super) oldest_clean: Option<Instant>,
    /// The lowest end among those.
    pub(super) lowest_clean: Option<u64>,
    /// Of the segments that arrived, the one that was sent last.
    pub(super) newest: Option<Delivered>,
    /// Whether one arrived that was sent several times.
    pub(super) has_resent: bool,
    /// What arrived with a later segment, or may have, for that carried it once more; and what such segments carried that
    /// arrived.
    pub(super) repeated: Vec<Repeated>,
    pub(super) carried: Vec<Carried>,
}

/// A segment that arrived and that a later one carried once more; it was not sent again otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repeated {
    pub(super) span: Range<u64>,
    pub(super) sent_at: Instant,
}

/// What a segment that arrived carried besides its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Carried {
    pub(super) span: Range<u64>,
    /// It was sent only once, so that it is this transmission that arrived.
    pub(super) is_certain: bool,
}

/// A segment that arrived, as RACK looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivered {
    pub(super) sent_at: Instant,
    pub(super) order: u64,
    pub(super) end: u64,
    pub(super) resent: bool,
}

impl Feedback {
    pub(super) fn clear(&mut self) {
        let mut old = std::mem::take(self);
        old.acked_tokens.clear();
        old.arrived.clear();
        old.repeated.clear();
        old.carried.clear();
        let Self { acked_tokens, arrived, repeated, carried, .. } = old;
        *self = Self { acked_tokens, arrived, repeated, carried, ..Self::default() };
    }

    /// A segment is known to have arrived that was not before.
    pub(super) fn delivered(&mut self, sent: &Sent) {
        let resent = sent.transmissions > 1;
        if !sent.fin {
            self.arrived.push(sent.span());
        }
        self.carried(sent);
        if resent {
            self.has_resent = true;
        } else if sent.repeated {
            self.repeated.push(Repeated { span: sent.span(), sent_at: sent.sent_at });
        } else {
            self.oldest_clean = Some(self.oldest_clean.map_or(sent.sent_at, |at| at.min(sent.sent_at)));
            self.lowest_clean = Some(self.lowest_clean.map_or(sent.end, |end| end.min(sent.end)));
        }
        let this = Delivered { sent_at: sent.sent_at, order: sent.order, end: sent.end, resent };
        if self.newest.is_none_or(|newest| newest.order < this.order) {
            self.newest = Some(this);
        }
    }

    /// A segment has arrived, or a part of it, and what it carried before its own.
    pub(super) fn carried(&mut self, sent: &Sent) {
        if sent.bundled > 0 {
            let span = sent.start - sent.bundled..sent.start;
            self.carried.push(Carried { span, is_certain: sent.transmissions == 1 });
        }
    }

    /// A transmission is taken for lost; `bytes` of it were thought to be under way.
    pub(super) fn lose(&mut self, sent: &Sent, bytes: u64) {
        self.lost += bytes;
        let newest = |known: Option<Instant>| Some(known.map_or(sent.sent_at, |at| at.max(sent.sent_at)));
        self.newest_lost = newest(self.newest_lost);
        if sent.transmissions > 1 {
            self.newest_lost_again = newest(self.newest_lost_again);
        }
    }

    /// The round-trip time that the segments show. None if one of them was sent several times: what lies behind it may
    /// have waited for it at the peer. What a later segment carries once more may have come with that; but the latest of all that
    /// arrived came by itself.
    pub(super) fn rtt(&self, now: Instant) -> Option<Duration> {
        let latest = self.newest.filter(|newest| !newest.resent).map(|newest| newest.sent_at);
        self.oldest_clean.or(latest).filter(|_| !self.has_resent).map(|at| now - at)
    }
}
