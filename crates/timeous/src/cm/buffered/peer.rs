//! A destination of a buffered socket: its flow, and what waits for it.

use std::collections::VecDeque;

use timeous_cm::Update;
use timeous_core::{Duration, Instant};

use super::super::error::Error;
use super::super::feedback::Feedback;
use super::super::flow::FlowId;
use super::super::manager::CongestionManager;

/// So many grants are asked for at once: a window's worth on most paths.
const REQUESTS: usize = 64;
/// What was not believed is told again after this long.
const TELL_AGAIN: Duration = Duration::from_millis(20);
/// So often, and then no more.
const TELLINGS: u32 = 50;

/// What waits for one destination.
#[derive(Debug, Default)]
pub(super) struct Peer {
    /// None while a daemon is gone.
    pub(super) flow: Option<FlowId>,
    queue: VecDeque<Box<[u8]>>,
    bytes: usize,
    /// Grants that were asked for and have not come.
    asked: usize,
    /// Lengths of datagrams that left, and of which the manager does not know yet.
    untold: VecDeque<u64>,
    /// Bytes that are not under way any more, which the daemon did not believe, and when it is told again.
    disbelieved: Option<(Instant, u64)>,
    /// So often in a row.
    disbeliefs: u32,
    /// If the socket keeps account of what is acknowledged.
    pub(super) feedback: Option<Feedback>,
}

impl Peer {
    pub(super) fn new(feedback: Option<Feedback>) -> Self {
        Self { feedback, ..Self::default() }
    }

    /// How many datagrams wait.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Takes a datagram, unless there is no room for it.
    pub(super) fn queue(&mut self, datagram: &[u8], capacity: usize) -> bool {
        let has_room = self.queue.is_empty() || self.bytes + datagram.len() <= capacity;
        if has_room {
            self.bytes += datagram.len();
            self.queue.push_back(datagram.into());
        }
        has_room
    }

    /// Asks for a grant for each datagram that waits, within bounds, and tells what is still to be told.
    pub(super) fn ask(&mut self, cm: &CongestionManager) -> Result<(), Error> {
        let Some(flow) = self.flow else { return Ok(()) };
        while let Some(&bytes) = self.untold.front() {
            cm.notify_unasked(flow, bytes)?;
            self.untold.pop_front();
        }
        let wanted = self.queue.len().min(REQUESTS);
        if let Some(more) = wanted.checked_sub(self.asked).filter(|&more| more > 0) {
            cm.request_many(flow, more as u32)?;
            self.asked = wanted;
        }
        Ok(())
    }

    /// A grant came; the datagram that may leave.
    pub(super) fn granted(&mut self) -> Option<Box<[u8]>> {
        (self.asked, self.disbeliefs) = (self.asked.saturating_sub(1), 0);
        let datagram = self.queue.pop_front()?;
        self.bytes -= datagram.len();
        Some(datagram)
    }

    /// A datagram left on a grant that had lapsed, or of which the manager could not be told.
    pub(super) fn left_unasked(&mut self, bytes: u64) {
        self.untold.push_back(bytes);
    }

    /// The daemon did not believe that so many bytes are not under way any more: it had not known (for long
    /// enough) that they had left. If they stayed under way for it, the window would never open again.
    pub(super) fn was_disbelieved(&mut self, now: Instant, bytes: u64) {
        let before = self.disbelieved.map_or(0, |(_, bytes)| bytes);
        self.disbeliefs += 1;
        if self.disbeliefs > TELLINGS {
            return;
        }
        self.disbelieved = Some((now + TELL_AGAIN, before + bytes));
    }

    /// Tells again what was not believed, if it is time.
    pub(super) fn tell_again(&mut self, now: Instant, cm: &CongestionManager) {
        if let (Some(flow), Some((at, acked))) = (self.flow, self.disbelieved)
            && at <= now
        {
            self.disbelieved = None;
            // Nobody is left to be told if that fails.
            let _ = cm.update(flow, Update { acked, ..Update::default() });
        }
    }

    /// When [`BufferedSocket::drive`](super::BufferedSocket::drive) is due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let silence = self.feedback.as_ref().and_then(Feedback::poll_timeout);
        silence.into_iter().chain(self.disbelieved.map(|(at, _)| at)).min()
    }

    /// So many of its requests were refused: fewer are made until there are grants again.
    pub(super) fn was_refused(&mut self, requests: usize) {
        self.asked = self.asked.saturating_sub(requests);
    }

    /// It could not leave after all.
    pub(super) fn put_back(&mut self, datagram: Box<[u8]>) {
        self.bytes += datagram.len();
        self.queue.push_front(datagram);
    }

    /// The daemon is gone, and what was asked of it.
    pub(super) fn lose_flow(&mut self) {
        (self.flow, self.asked) = (None, 0);
        self.untold.clear();
        self.disbelieved = None;
        if let Some(feedback) = &mut self.feedback {
            feedback.forget();
        }
    }
}
