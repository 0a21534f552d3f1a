//! Feedback by the library's own acknowledgements: numbers for packets, and what a receiver's half says of them.

use timeous::cm::{Ack, FlowId, Update};
use timeous::{clock, cm};

use crate::failure::Failure;
use crate::library::Library;

impl Library {
    /// Notes that the next packet leaves; returns its number.
    pub(crate) fn sent(&self, flow: i64, bytes: u64) -> Result<u64, Failure> {
        let mut flows = self.flows.write();
        let (_, feedback) = flows.feedback(flow)?;
        Ok(feedback.sent(clock::now(), bytes))
    }

    /// Takes a receiver's acknowledgement; returns the bytes that it newly acknowledges.
    pub(crate) fn acked(&self, flow: i64, datagram: &[u8]) -> Result<u64, Failure> {
        let ack = Ack::decode(datagram).map_err(cm::Error::from)?;
        let (id, update) = {
            let mut flows = self.flows.write();
            let (id, feedback) = flows.feedback(flow)?;
            (id, feedback.acked(clock::now(), &ack).map_err(cm::Error::from)?)
        };
        let Some(update) = update else { return Ok(0) };
        self.manager.update(id, update)?;
        Ok(update.acked)
    }

    /// Returns the bytes of the numbered packets whose fate is not known.
    pub(crate) fn unacked(&self, flow: i64) -> Result<u64, Failure> {
        Ok(self.flows.write().feedback(flow)?.1.outstanding())
    }

    /// Reports packets that are overdue.
    pub(crate) fn report_overdue(&self) {
        if self.until_overdue().is_none_or(|left| left > timeous::core::Duration::ZERO) {
            return;
        }
        let now = clock::now();
        let overdue: Vec<(FlowId, Update)> = {
            let mut flows = self.flows.write();
            let due = |feedback: &cm::Feedback| feedback.poll_timeout().is_some_and(|at| at <= now);
            let overdue = flows.all_feedback().filter(|(_, feedback)| due(feedback));
            overdue.filter_map(|(id, feedback)| Some((id, feedback.handle_timeout(now)?))).collect()
        };
        for (id, update) in overdue {
            // Fails for a flow that was closed meanwhile, or whose daemon has just gone.
            let _ = self.manager.update(id, update);
        }
    }

    /// Returns the time until packets are overdue, if there are any.
    pub(crate) fn until_overdue(&self) -> Option<timeous::core::Duration> {
        Some(self.flows.read().poll_timeout()?.saturating_since(clock::now()))
    }
}
