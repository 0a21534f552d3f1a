//! Results of an acknowledgement or a timeout.

use std::ops::Range;

use timeous_cm::Departure;
use timeous_core::{Duration, Instant};

use super::sent::Sent;

/// Results for the Congestion Manager and for the source. Reset for each acknowledgement.
#[derive(Debug, Default)]
pub(super) struct Feedback {
    /// Data bytes that arrived.
    pub(super) acked: u64,
    /// Data bytes that were lost.
    pub(super) lost: u64,
    /// Send time of the newest lost segment.
    pub(super) newest_lost: Option<Instant>,
    /// Send time of the newest lost retransmission.
    pub(super) newest_lost_again: Option<Instant>,
    /// Tokens of the segments that are acknowledged in full.
    pub(super) acked_tokens: Vec<u64>,
    /// Stream offsets of the segments that have arrived.
    pub(super) arrived: Vec<Range<u64>>,
    /// Those of the front of a segment that is acknowledged in part.
    pub(super) front: Option<Range<u64>>,
    /// Send time of the oldest newly acknowledged segment that was sent only once (Karn's algorithm).
    pub(super) oldest_clean: Option<Instant>,
    /// The lowest end among those.
    pub(super) lowest_clean: Option<u64>,
    /// The most recently sent segment among those that arrived.
    pub(super) newest: Option<Delivered>,
    /// Whether a retransmitted segment is among those that arrived.
    pub(super) has_resent: bool,
    /// Arrived segments that a later one bundled and may have delivered; and the bundled ranges of arrived segments.
    pub(super) repeated: Vec<Repeated>,
    pub(super) carried: Vec<Carried>,
}

/// An arrived segment that a later one bundled, and that was not retransmitted otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repeated {
    pub(super) span: Range<u64>,
    pub(super) sent_at: Instant,
}

/// Range bundled in an arrived segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Carried {
    pub(super) span: Range<u64>,
    /// It was sent only once, so that this transmission is the one that arrived.
    pub(super) is_certain: bool,
}

/// An arrived segment, for RACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivered {
    pub(super) sent_at: Instant,
    pub(super) order: u64,
    pub(super) end: u64,
    pub(super) resent: bool,
    pub(super) departure: Departure,
}

impl Feedback {
    /// Takes the memory of the last results, without them.
    pub(super) fn take_cleared(&mut self) -> Self {
        let mut old = std::mem::take(self);
        old.acked_tokens.clear();
        old.arrived.clear();
        old.repeated.clear();
        old.carried.clear();
        let Self { acked_tokens, arrived, repeated, carried, .. } = old;
        Self { acked_tokens, arrived, repeated, carried, ..Self::default() }
    }

    /// Adds a segment that is newly known to have arrived.
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
        let this =
            Delivered { sent_at: sent.sent_at, order: sent.order, end: sent.end, resent, departure: sent.departure };
        if self.newest.is_none_or(|newest| newest.order < this.order) {
            self.newest = Some(this);
        }
    }

    /// Adds the bundled range of a segment that has arrived, at least in part.
    pub(super) fn carried(&mut self, sent: &Sent) {
        if sent.bundled > 0 {
            let span = sent.start - sent.bundled..sent.start;
            self.carried.push(Carried { span, is_certain: sent.transmissions == 1 });
        }
    }

    /// Adds a lost transmission; `bytes` of it were counted as in flight.
    pub(super) fn lose(&mut self, sent: &Sent, bytes: u64) {
        self.lost += bytes;
        let newest = |known: Option<Instant>| Some(known.map_or(sent.sent_at, |at| at.max(sent.sent_at)));
        self.newest_lost = newest(self.newest_lost);
        if sent.transmissions > 1 {
            self.newest_lost_again = newest(self.newest_lost_again);
        }
    }

    /// Returns the RTT sample; `None` if one of the segments was sent several times, since those behind it may have waited at the peer. A
    /// bundled segment may have arrived with its carrier, but the latest of all arrived by itself.
    pub(super) fn rtt(&self, now: Instant) -> Option<Duration> {
        let latest = self.newest.filter(|newest| !newest.resent).map(|newest| newest.sent_at);
        self.oldest_clean.or(latest).filter(|_| !self.has_resent).map(|at| now - at)
    }
}
