//! An address from which packets of a connection seem to come, and the Syncs that it was sent.

use std::collections::VecDeque;

use timeous_core::{Duration, Instant};

use super::names::Route;
use crate::packet::Header;
use crate::seq::Seq;

/// Time between two Syncs to candidates of a connection: "not more than eight DCCP-Syncs per second" (RFC 4340 §7.5.4).
const INTERVAL: Duration = Duration::from_millis(125);
/// Syncs whose answer counts, the last ones: a second's, for paths with long round trips.
const SYNCS: usize = 8;

/// A candidate for the peer's address.
#[derive(Debug)]
pub(super) struct Candidate {
    route: Route,
    /// The packet that the next Sync is for, while one is due.
    due: Option<Seq>,
    /// When the next may be sent.
    next: Instant,
    /// The numbers of the Syncs.
    sent: VecDeque<Seq>,
}

impl Candidate {
    pub(super) fn new(route: Route) -> Self {
        Self { route, due: None, next: Instant::ZERO, sent: VecDeque::new() }
    }

    pub(super) fn route(&self) -> Route {
        self.route
    }

    /// Whether there may be another Sync, to this address or to one that takes its place.
    pub(super) fn may_be_asked(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// A Sync is due, for the packet `seq`.
    pub(super) fn ask(&mut self, now: Instant, seq: Seq) {
        self.due = Some(seq);
        self.next = now + INTERVAL;
    }

    pub(super) fn take_due(&mut self) -> Option<Seq> {
        self.due.take()
    }

    /// A Sync has left with this number.
    pub(super) fn sent(&mut self, seq: Seq) {
        if self.sent.len() == SYNCS {
            self.sent.pop_front();
        }
        self.sent.push_back(seq);
    }

    /// Whether the packet acknowledges one of the Syncs.
    pub(super) fn is_answered_by(&self, header: &Header) -> bool {
        header.ack().is_some_and(|ack| self.sent.contains(&ack))
    }
}
