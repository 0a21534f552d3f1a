//! A destination of a buffered socket: its flow, and what waits for it.

use std::collections::VecDeque;

use super::super::error::Error;
use super::super::feedback::Feedback;
use super::super::flow::FlowId;
use super::super::manager::CongestionManager;

/// So many grants are asked for at once: a window's worth on most paths.
const REQUESTS: usize = 64;

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
        self.asked = self.asked.saturating_sub(1);
        let datagram = self.queue.pop_front()?;
        self.bytes -= datagram.len();
        Some(datagram)
    }

    /// A datagram left on a grant that had lapsed, or of which the manager could not be told.
    pub(super) fn left_unasked(&mut self, bytes: u64) {
        self.untold.push_back(bytes);
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
        if let Some(feedback) = &mut self.feedback {
            feedback.forget();
        }
    }
}
