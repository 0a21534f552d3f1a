//! Unverified new address of a connection's peer, and the Syncs sent there.

use std::collections::VecDeque;

use timeous_core::{Duration, Instant};

use super::route::Route;
use crate::packet::{Header, PacketType};
use crate::seq::Seq;

/// Minimum time between Syncs to new addresses of a connection: "not more than eight DCCP-Syncs per second" (RFC 4340
/// §7.5.4).
const SYNC_INTERVAL: Duration = Duration::from_millis(125);
/// Number of recent Syncs whose answer is accepted: a second's worth (RFC 4340 §7.5.4). Chosen by us: a higher value
/// serves longer round trips.
const MAX_SYNCS: usize = 8;
/// Size of a Sync without options, in bytes; a shorter packet triggers none, so that no answer is longer than its
/// cause.
pub(super) const SYNC_LEN: usize = PacketType::Sync.header_len(true);

/// A candidate for the peer's address.
#[derive(Debug)]
pub struct Candidate {
    route: Route,
    /// Packet that the next Sync acknowledges, if one is due.
    due: Option<Seq>,
    /// Earliest time of the next Sync.
    next: Instant,
    /// Sequence numbers of the Syncs sent.
    sent: VecDeque<Seq>,
}

impl Candidate {
    pub(super) fn new(route: Route) -> Self {
        Self { route, due: None, next: Instant::ZERO, sent: VecDeque::new() }
    }

    pub(super) fn route(&self) -> Route {
        self.route
    }

    /// Whether another Sync is permitted, to this candidate or to one that replaces it.
    pub(super) fn may_be_asked(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// Schedules a Sync that acknowledges the packet `seq`.
    pub(super) fn ask(&mut self, now: Instant, seq: Seq) {
        self.due = Some(seq);
        self.next = now + SYNC_INTERVAL;
    }

    pub(super) fn take_due(&mut self) -> Option<Seq> {
        self.due.take()
    }

    /// Notes the number of a Sync that has left.
    pub(super) fn sent(&mut self, seq: Seq) {
        if self.sent.len() == MAX_SYNCS {
            self.sent.pop_front();
        }
        self.sent.push_back(seq);
    }

    /// Whether the packet acknowledges one of the Syncs.
    pub(super) fn is_answered_by(&self, header: &Header) -> bool {
        header.ack().is_some_and(|ack| self.sent.contains(&ack))
    }
}
