//! Feedback by the library's own acknowledgements: numbers for packets, and what a receiver's half says of them.

use timeous::clock;
use timeous::cm::{self, Ack};
use timeous::core::Duration;

use crate::failure::Failure;
use crate::library::Library;

impl Library {
    /// Notes that the next packet leaves; returns its number.
    pub(crate) fn sent(&self, flow: i64, bytes: u64) -> Result<u64, Failure> {
        Ok(self.flows.write().with_feedback(flow, |feedback| feedback.sent(clock::now(), bytes))?.1)
    }

    /// Takes a receiver's acknowledgement; returns the bytes that it newly acknowledges.
    pub(crate) fn acked(&self, flow: i64, datagram: &[u8]) -> Result<u64, Failure> {
        let ack = Ack::decode(datagram).map_err(cm::Error::from)?;
        let (id, update) = self.flows.write().with_feedback(flow, |feedback| feedback.acked(clock::now(), &ack))?;
        let Some(update) = update.map_err(cm::Error::from)? else { return Ok(0) };
        self.manager.update(id, update)?;
        Ok(update.acked)
    }

    /// Returns the bytes of the numbered packets whose fate is not known.
    pub(crate) fn unacked(&self, flow: i64) -> Result<u64, Failure> {
        Ok(self.flows.write().with_feedback(flow, |feedback| feedback.outstanding())?.1)
    }

    /// Reports packets that are overdue.
    pub(crate) fn report_overdue(&self) {
        let now = clock::now();
        if self.flows.read().poll_timeout().is_none_or(|at| at > now) {
            return;
        }
        let next = || {
            let mut flows = self.flows.write();
            let flow = flows.next_overdue(now)?;
            Some(flows.with_feedback(flow, |feedback| feedback.handle_timeout(now)))
        };
        while let Some(overdue) = next() {
            if let Ok((id, Some(update))) = overdue {
                // Fails for a flow that was closed meanwhile, or whose daemon has just gone.
                let _ = self.manager.update(id, update);
            }
        }
    }

    /// Returns the time until packets are overdue, if there are any.
    pub(crate) fn until_overdue(&self) -> Option<Duration> {
        Some(self.flows.read().poll_timeout()?.saturating_since(clock::now()))
    }
}
