//! Calls to request sending and to report what was sent.

use timeous_core::{Instant, PathState};

use crate::error::CmError;
use crate::flow::ClientId;
use crate::flow::FlowId;
use crate::flows::Flow;
use crate::path_model::Departure;
use crate::scheduler::Scheduling;
use crate::slab::Slab;
use crate::trace::Happening;

use super::Manager;

/// Maximum number of waiting requests of a flow. Chosen by us: bounds a client's memory. A higher value allows more.
const MAX_WAITING: u32 = 1 << 16;
/// Maximum number of waiting requests of a flow with a deadline. Chosen by us: each takes an entry of the scheduler's
/// heap. A higher value takes more memory.
const MAX_WITH_DEADLINE: u32 = 256;

impl Manager {
    /// Requests to send one packet (`cm_request`). Each call is one request.
    pub fn request(&mut self, now: Instant, id: FlowId) -> Result<(), CmError> {
        self.request_many(now, id, 1)
    }

    /// Requests to send `count` packets, each with a grant of its own.
    ///
    /// # Errors
    /// The flow is not open, or it would have more than 65 536 waiting requests.
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

    /// Requests to send one packet by `deadline`, which only matters with [`Scheduling::Deadline`].
    ///
    /// # Errors
    /// The flow is not open, or it would have more than 256 waiting requests with a deadline, or 65 536 in all.
    pub fn request_by(&mut self, now: Instant, id: FlowId, deadline: Instant) -> Result<(), CmError> {
        let (flow, macroflow, _) = self.parts(id)?;
        let by_deadline = macroflow.requests.kind() == Scheduling::Deadline;
        let limit = if by_deadline { MAX_WITH_DEADLINE } else { MAX_WAITING };
        if by_deadline && flow.dated >= limit || flow.waiting >= MAX_WAITING {
            return Err(CmError::TooManyRequests { flow: id, limit });
        }
        macroflow.request_by(now, id, flow, deadline);
        let name = flow.macroflow;
        self.settle(now, name);
        Ok(())
    }

    /// Allows `packets` probe packets beyond the window when feedback is overdue (RFC 9002 §7.5, RFC 8985 §7.3). They
    /// count as in flight, and any feedback ends the allowance. Grants go to the flow whose turn it is; flows that
    /// never request use [`notify_unasked`](Self::notify_unasked).
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

    /// Whether a flow has waiting requests.
    pub fn is_waiting(&self, id: FlowId) -> bool {
        self.flows.get(id).is_some_and(|flow| flow.waiting > 0)
    }

    /// Whether a flow holds a grant: it may send a packet now, and must report it by [`notify`](Self::notify).
    pub fn has_grant(&self, id: FlowId) -> bool {
        self.flows.get(id).is_some_and(|flow| flow.grants() > 0)
    }

    /// Requests to send one packet, unless the flow holds a grant or already waits. Returns the path's state if it may
    /// send now: [`request`](Self::request), [`has_grant`](Self::has_grant) and [`query`](Self::query) in one call per
    /// packet. [`poll_granted`](Self::poll_granted) does not repeat a grant that was returned here.
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

    /// Bytes that may be sent now without a grant, in one packet: a grant is for a full-size packet, and the window may
    /// have room for a smaller one. 0 if other flows wait. Sent bytes are reported by
    /// [`notify_unasked`](Self::notify_unasked).
    pub fn room(&self, now: Instant, id: FlowId) -> u64 {
        let flow = self.flows.get(id);
        let macroflow = flow.and_then(|flow| self.macroflows.get(flow.macroflow));
        flow.zip(macroflow).map_or(0, |(flow, macroflow)| macroflow.room(now, flow))
    }

    /// Notes that a flow without requests had more data than the window's [`room`](Self::room): the window is its
    /// limit, and may grow.
    ///
    /// # Errors
    /// The flow is not open.
    pub fn held_back(&mut self, now: Instant, id: FlowId) -> Result<(), CmError> {
        let (_, macroflow, _) = self.parts(id)?;
        macroflow.held_back(now);
        Ok(())
    }

    /// Packets that a flow holding a grant may send now, including that one, if no other flow requests meanwhile: an
    /// estimate, not a grant.
    pub fn burst(&self, now: Instant, id: FlowId) -> u32 {
        let Some(flow) = self.flows.get(id) else { return 0 };
        let spare = self.macroflows.get(flow.macroflow).map_or(0, |macroflow| macroflow.spare(now));
        spare.saturating_add(1)
    }

    /// Raises the maximum packet size of a flow, whose path turned out to bear more (RFC 8899). A smaller value changes
    /// nothing.
    ///
    /// # Errors
    /// The flow is not open.
    pub fn raise_mtu(&mut self, id: FlowId, mtu: u64) -> Result<(), CmError> {
        let (flow, macroflow, _) = self.parts(id)?;
        flow.mtu = flow.mtu.max(mtu);
        macroflow.raise_mtu(mtu);
        Ok(())
    }

    /// Reports that a grant was used for `bytes`; 0 returns the grant (`cm_notify`).
    ///
    /// # Errors
    /// The flow is not open, holds no grant, or belongs to another client than the host and sent more than its maximum
    /// packet size.
    pub fn notify(&mut self, now: Instant, id: FlowId, bytes: u64) -> Result<(), CmError> {
        let (flow, macroflow, outbox) = self.parts(id)?;
        check_size(id, flow, bytes)?;
        if !macroflow.spend(now, flow, bytes) {
            return Err(CmError::NotGranted(id));
        }
        macroflow.watch_silence(now, id, flow);
        let name = flow.macroflow;
        outbox.note(now, name, Some(id), || Happening::Notified { bytes });
        self.settle(now, name);
        Ok(())
    }

    /// Reports a packet of `bytes` sent without a grant, for exceptions that ignore a full window: the first
    /// retransmission of a loss recovery (RFC 6675 §5, step 4.3) and the tail loss probe (RFC 8985 §7.3). It counts as
    /// in flight.
    pub fn notify_unasked(&mut self, now: Instant, id: FlowId, bytes: u64) -> Result<(), CmError> {
        let (flow, macroflow, outbox) = self.parts(id)?;
        check_size(id, flow, bytes)?;
        macroflow.sent_unasked(now, flow, bytes);
        macroflow.watch_silence(now, id, flow);
        let name = flow.macroflow;
        outbox.note(now, name, Some(id), || Happening::Notified { bytes });
        let due = macroflow.poll_timeout();
        self.timetable.set(Slab::<()>::place(name), due);
        Ok(())
    }
}

impl Manager {
    /// Place in the path's model of the last packet that was reported as sent: to be returned when it has arrived
    /// ([`observe`](Self::observe)). A macroflow has a model from the first call on.
    ///
    /// # Errors
    /// The flow is not open.
    pub fn departure(&mut self, id: FlowId) -> Result<Departure, CmError> {
        let (flow, macroflow, _) = self.parts(id)?;
        let departure = macroflow.model.departure(flow.headers, macroflow.rtt.min());
        Ok(departure.of_macroflow(flow.macroflow))
    }
}

/// Checks that a joined client's packet is within its maximum size. The host's own transports are trusted.
fn check_size(id: FlowId, flow: &Flow, bytes: u64) -> Result<(), CmError> {
    if bytes > flow.mtu && flow.client != ClientId::HOST {
        return Err(CmError::TooLarge { flow: id, bytes, mtu: flow.mtu });
    }
    Ok(())
}
