//! A destination of a buffered socket: its flow and its send queue.

use std::collections::VecDeque;

use timeous_cm::Update;
use timeous_core::{Duration, Instant};

use super::super::error::Error;
use super::super::feedback::Feedback;
use super::super::flow::FlowId;
use super::super::manager::CongestionManager;

/// Maximum number of grants requested at once: a window's worth on most paths. Chosen by us: a higher value uses more
/// of other processes' turns.
const REQUESTS: usize = 64;
/// Delay before a refused update is repeated. Chosen by us: a higher value hands in feedback later.
const TELL_AGAIN: Duration = Duration::from_millis(20);
/// Maximum number of consecutive repeats. Chosen by us: a higher value retries for longer; below that the feedback is
/// lost.
const TELLINGS: u32 = 50;

/// State of one destination.
#[derive(Debug, Default)]
pub(super) struct Peer {
    /// `None` while the daemon is gone.
    pub(super) flow: Option<FlowId>,
    queue: VecDeque<Box<[u8]>>,
    bytes: usize,
    /// Grants requested and not received yet.
    asked: usize,
    /// Lengths of datagrams sent without a grant, not reported to the manager yet.
    untold: VecDeque<u64>,
    /// Bytes in an update that the daemon refused as implausible, and the time of the repeat.
    disbelieved: Option<(Instant, u64)>,
    /// Consecutive refusals.
    disbeliefs: u32,
    /// Set if the socket tracks acknowledgements.
    pub(super) feedback: Option<Feedback>,
}

impl Peer {
    pub(super) fn new(feedback: Option<Feedback>) -> Self {
        Self { feedback, ..Self::default() }
    }

    /// Number of datagrams queued.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Queues a datagram, if there is room.
    pub(super) fn queue(&mut self, datagram: &[u8], capacity: usize) -> bool {
        let has_room = self.queue.is_empty() || self.bytes + datagram.len() <= capacity;
        if has_room {
            self.bytes += datagram.len();
            self.queue.push_back(datagram.into());
        }
        has_room
    }

    /// Requests a grant for each queued datagram, up to a limit, and reports what was sent without a grant.
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

    /// Handles a grant: returns the datagram to send.
    pub(super) fn granted(&mut self) -> Option<Box<[u8]>> {
        (self.asked, self.disbeliefs) = (self.asked.saturating_sub(1), 0);
        let datagram = self.queue.pop_front()?;
        self.bytes -= datagram.len();
        Some(datagram)
    }

    /// Notes a datagram that was sent on an expired grant, or could not be reported.
    pub(super) fn left_unasked(&mut self, bytes: u64) {
        self.untold.push_back(bytes);
    }

    /// Notes that the daemon refused an update of `bytes`, as it did not know (for long enough) that they were sent. If
    /// they stayed in flight for it, the window would never open again.
    pub(super) fn was_disbelieved(&mut self, now: Instant, bytes: u64) {
        let before = self.disbelieved.map_or(0, |(_, bytes)| bytes);
        self.disbeliefs += 1;
        if self.disbeliefs > TELLINGS {
            return;
        }
        self.disbelieved = Some((now + TELL_AGAIN, before + bytes));
    }

    /// Repeats a refused update, if it is time.
    pub(super) fn tell_again(&mut self, now: Instant, cm: &CongestionManager) {
        if let (Some(flow), Some((at, acked))) = (self.flow, self.disbelieved)
            && at <= now
        {
            self.disbelieved = None;
            // A failure cannot be handled any further here.
            let _ = cm.update(flow, Update { acked, ..Update::default() });
        }
    }

    /// Time at which [`BufferedSocket::drive`](super::BufferedSocket::drive) is due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let silence = self.feedback.as_ref().and_then(Feedback::poll_timeout);
        silence.into_iter().chain(self.disbelieved.map(|(at, _)| at)).min()
    }

    /// Notes that requests were refused: fewer are made until grants arrive again.
    pub(super) fn was_refused(&mut self, requests: usize) {
        self.asked = self.asked.saturating_sub(requests);
    }

    /// Puts a datagram back that could not be sent.
    pub(super) fn put_back(&mut self, datagram: Box<[u8]>) {
        self.bytes += datagram.len();
        self.queue.push_front(datagram);
    }

    /// Resets the state after the daemon is gone.
    pub(super) fn lose_flow(&mut self) {
        (self.flow, self.asked) = (None, 0);
        self.untold.clear();
        self.disbelieved = None;
        if let Some(feedback) = &mut self.feedback {
            feedback.forget();
        }
    }
}
