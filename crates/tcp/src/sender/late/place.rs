//! A place in the stream: its current content, and the state of its earlier versions.

use std::ops::Range;

use timeous_core::Instant;

use crate::sender::payload::Arrived;
use crate::sender::spurious::millis;

/// Version of a place that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// The current content.
    Latest,
    /// An earlier version: the peer accepts no other any more.
    Earlier,
    /// Unknown.
    Unknown,
}

/// A datagram's place in the stream.
#[derive(Debug)]
pub(super) struct Place {
    start: u64,
    /// The version that is sent.
    bytes: Vec<u8>,
    /// Datagram in it; `None`: padding.
    number: Option<u32>,
    /// When this version was first sent.
    since: Instant,
    /// When any version was last sent, and whether that of an earlier one was in the millisecond of `since`: no echo tells the two apart.
    sent_at: Instant,
    is_close: bool,
    /// The first version, if others were sent.
    original: Option<Vec<u8>>,
    has_gone_back: bool,
    /// The peer has, or had, only a part.
    is_cut: bool,
    has_arrived: bool,
    /// Parts that have arrived, of a place in two segments.
    parts: Vec<Range<u64>>,
}

impl Place {
    pub(super) fn new(now: Instant, start: u64, number: u32, bytes: Vec<u8>) -> Self {
        Self {
            start,
            bytes,
            number: Some(number),
            since: now,
            sent_at: now,
            is_close: false,
            original: None,
            has_gone_back: false,
            is_cut: false,
            has_arrived: false,
            parts: Vec::new(),
        }
    }

    pub(super) fn start(&self) -> u64 {
        self.start
    }

    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn carries(&self) -> Option<u32> {
        self.number
    }

    /// Returns its bytes within `span`.
    pub(super) fn bytes(&self, span: &Range<u64>) -> &[u8] {
        let from = span.start.max(self.start) - self.start;
        let to = span.end.min(self.end()) - self.start;
        &self.bytes[from as usize..to as usize]
    }

    /// Returns whether its content differs from the first version.
    pub(super) fn is_changed(&self) -> bool {
        self.original.is_some()
    }

    pub(super) fn has_gone_back(&self) -> bool {
        self.has_gone_back
    }

    /// Returns whether another version may be sent: not if the peer has a part of this one, which would be mixed.
    pub(super) fn may_change(&self) -> bool {
        !self.is_cut && !self.has_arrived && !self.has_gone_back
    }

    /// Sets another version of the same length, about to be sent.
    pub(super) fn change(&mut self, now: Instant, number: Option<u32>, bytes: Vec<u8>) {
        debug_assert_eq!(bytes.len(), self.bytes.len(), "the stream keeps its numbers");
        let before = std::mem::replace(&mut self.bytes, bytes);
        self.original.get_or_insert(before);
        self.is_close = millis(self.sent_at) == millis(now);
        (self.number, self.since) = (number, now);
    }

    /// Notes a transmission.
    pub(super) fn was_sent(&mut self, now: Instant) {
        self.sent_at = now;
    }

    /// Restores the first version, for good. Its datagram is settled.
    pub(super) fn go_back(&mut self) {
        if let Some(original) = self.original.take() {
            (self.bytes, self.number, self.has_gone_back) = (original, None, true);
        }
    }

    fn is_completed_by(&mut self, span: &Range<u64>) -> bool {
        let part = span.start.max(self.start)..span.end.min(self.end());
        if part == (self.start..self.end()) {
            return true;
        }
        if !self.parts.contains(&part) {
            self.parts.push(part);
        }
        self.parts.iter().map(|part| part.end - part.start).sum::<u64>() >= self.len() as u64
    }

    pub(super) fn was_cut(&mut self) {
        self.is_cut = true;
    }

    /// Notes an arrived segment with a part of this place or all of it. Returns the version that is now complete; `None`: none, or
    /// that was known already.
    pub(super) fn arrive(&mut self, arrived: &Arrived) -> Option<Version> {
        if !self.is_completed_by(&arrived.span) {
            return None;
        }
        if std::mem::replace(&mut self.has_arrived, true) {
            return None;
        }
        // With one version only, all parts belong to it.
        if self.original.is_none() && !self.has_gone_back {
            return Some(Version::Latest);
        }
        let is_close = self.is_close && arrived.echo == Some(millis(self.since));
        let is_latest = arrived.was_sent_since(self.since, self.start).filter(|_| !self.is_cut && !is_close);
        Some(is_latest.map_or(Version::Unknown, |is_latest| if is_latest { Version::Latest } else { Version::Earlier }))
    }
}
