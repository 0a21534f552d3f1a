//! Asking to send, and telling what was sent.

use timeous_core::{Instant, PathState};

use crate::error::CmError;
use crate::flow::ClientId;
use crate::flow::FlowId;
use crate::flows::Flow;
use crate::scheduler::Scheduling;
use crate::slab::Slab;
use crate::trace::Happening;

use super::Manager;

/// So many requests of one flow may wait.
const MAX_WAITING: u32 = 1 << 16;
/// So many of them with a deadline.
const MAX_DATED: u32 = 256;

impl Manager {
    /// Asks for the right to send one packet (`cm_request`). Each call is one request.
    pub fn request(&mut self, now: Instant, id: FlowId) -> Result<(), CmError> {
        self.request_many(now, id, 1)
    }

    /// Asks for the right to send `count` packets, each by a grant of its own.
    ///
    /// # Errors
    /// The flow is not open, or more than 65 536 of its requests would wait.
    pub fn request_many(&mut self, now: Instant, id: FlowId, count: u32) -> Result<(), CmError> {
        let (flow, macroflow, _) = self.parts(id)?;
        if flow.waiting.saturating_add(count) > MAX_WAITING {
            return Err(CmError::TooManyRequests { flow: id, limit: MAX_WAITING });
        }
        macroflow.request(now, id, flow, count);
        let name = flow.macroflow;
        self.settle(now, name);
        Ok(())
    }

    /// Asks for the right to send one packet by `deadline`, which counts where flows are served by deadline
    /// ([`Scheduling::Deadline`]).
    ///
    /// # Errors
    /// The flow is not open, or more than 256 of its requests with a deadline would wait.
    pub fn request_by(&mut self, now: Instant, id: FlowId, deadline: Instant) -> Result<(), CmError> {
        let (flow, macroflow, _) = self.parts(id)?;
        let by_deadline = macroflow.requests.kind() == Scheduling::Deadline;
        let limit = if by_deadline { MAX_DATED } else { MAX_WAITING };
        if by_deadline && flow.dated >= limit || flow.waiting >= MAX_WAITING {
            return Err(CmError::TooManyRequests { flow: id, limit });
        }
        macroflow.request_by(now, id, flow, deadline);
        let name = flow.macroflow;
        self.settle(now, name);
        Ok(())
    }

    /// Nothing is heard of what a flow has under way, though it should be: so many of its packets may leave beyond the window, so that
    /// something is (RFC 9002 §7.5, RFC 8985 §7.3). They count as under way. News of any packet end what is left of it. They are
    /// granted to whose turn it is among flows that share a window; who never asks has [`notify_unasked`](Self::notify_unasked).
    ///
    /// # Errors
    /// The flow is not open.
    pub fn probe(&mut self, now: Instant, id: FlowId, packets: u32) -> Result<(), CmError> {
        let (flow, macroflow, _) = self.parts(id)?;
        macroflow.probe(packets);
        let name = flow.macroflow;
        self.settle(now, name);
        Ok(())
    }

    /// Whether a flow has asked and was not yet granted what it asked for.
    pub fn is_waiting(&self, id: FlowId) -> bool {
        self.flows.get(id).is_some_and(|flow| flow.waiting > 0)
    }

    /// Whether a flow holds a grant: it may send a packet now, and must tell by [`notify`](Self::notify).
    pub fn has_grant(&self, id: FlowId) -> bool {
        self.flows.get(id).is_some_and(|flow| flow.grants() > 0)
    }

    /// Asks for the right to send one packet, unless the flow holds one or waits for it already. If it may send now, what
    /// is known of its path: [`request`](Self::request), [`has_grant`](Self::has_grant) and [`query`](Self::query) in one,
    /// for the one call that every packet makes. A grant that is told here is not told by
    /// [`poll_granted`](Self::poll_granted) as well.
    pub fn ask(&mut self, now: Instant, id: FlowId) -> Result<Option<PathState>, CmError> {
        let (flow, macroflow, outbox) = self.parts(id)?;
        let name = flow.macroflow;
        if let Some(answer) = macroflow.ask_at_once(now, id, flow, outbox) {
            let state = answer.then(|| macroflow.state_of(flow));
            let due = macroflow.poll_timeout();
            self.timetable.set(Slab::<()>::place(name), due);
            return Ok(state);
        }
        macroflow.request(now, id, flow, 1);
        self.settle(now, name);
        let (flow, macroflow, outbox) = self.parts(id)?;
        let has_grant = flow.grants() > 0;
        if has_grant {
            outbox.clients.told_grant(id, flow);
        }
        Ok(has_grant.then(|| macroflow.state_of(flow)))
    }

    /// How many bytes may leave at this instant without a grant, in one packet: a grant is for one of the largest size, and
    /// the window may have room for a smaller one. None if others wait. What leaves is told by
    /// [`notify_unasked`](Self::notify_unasked).
    pub fn room(&self, now: Instant, id: FlowId) -> u64 {
        let flow = self.flows.get(id);
        let macroflow = flow.and_then(|flow| self.macroflows.get(flow.macroflow));
        flow.zip(macroflow).map_or(0, |(flow, macroflow)| macroflow.room(now, flow))
    }

    /// A flow has sent less than it had, since the window has no [`room`](Self::room) for more, and waits for no grant: so the
    /// window is what limits it, and may grow.
    ///
    /// # Errors
    /// The flow is not open.
    pub fn held_back(&mut self, now: Instant, id: FlowId) -> Result<(), CmError> {
        let (_, macroflow, _) = self.parts(id)?;
        macroflow.held_back(now);
        Ok(())
    }

    /// How many packets a flow that holds a grant may send at this instant, that one included, if nobody else asks to
    /// send meanwhile: no promise, and no grant.
    pub fn burst(&self, now: Instant, id: FlowId) -> u32 {
        let Some(flow) = self.flows.get(id) else { return 0 };
        let spare = self.macroflows.get(flow.macroflow).map_or(0, |macroflow| macroflow.spare(now));
        spare.saturating_add(1)
    }

    /// A grant was used for `bytes`; 0 gives it back (`cm_notify`).
    ///
    /// # Errors
    /// The flow is not open, holds no grant, or is another client's than the host's and has sent more than its packets
    /// have.
    pub fn notify(&mut self, now: Instant, id: FlowId, bytes: u64) -> Result<(), CmError> {
        let (flow, macroflow, outbox) = self.parts(id)?;
        check_size(id, flow, bytes)?;
        if !macroflow.spend(now, flow, bytes) {
            return Err(CmError::NotGranted(id));
        }
        let name = flow.macroflow;
        outbox.note(now, name, Some(id), || Happening::Notified { bytes });
        self.settle(now, name);
        Ok(())
    }

    /// A packet of `bytes` left without a grant, which few may: the first retransmission of a loss recovery (RFC 6675
    /// §5, step 4.3) and the probe for a loss at the tail (RFC 8985 §7.3) go even where the window is full. It counts
    /// as outstanding like any other.
    pub fn notify_unasked(&mut self, now: Instant, id: FlowId, bytes: u64) -> Result<(), CmError> {
        let (flow, macroflow, outbox) = self.parts(id)?;
        check_size(id, flow, bytes)?;
        macroflow.sent_unasked(now, flow, bytes);
        let name = flow.macroflow;
        outbox.note(now, name, Some(id), || Happening::Notified { bytes });
        let due = macroflow.poll_timeout();
        self.timetable.set(Slab::<()>::place(name), due);
        Ok(())
    }
}

/// A joined client's packets are no larger than it said. The host's own transports know what they do.
fn check_size(id: FlowId, flow: &Flow, bytes: u64) -> Result<(), CmError> {
    if bytes > flow.mtu && flow.client != ClientId::HOST {
        return Err(CmError::TooLarge { flow: id, bytes, mtu: flow.mtu });
    }
    Ok(())
}
