//! Silence of clients: data in flight without feedback for a timeout that backs off.

use timeous_core::{Duration, Instant};

use crate::flow::{ClientId, FlowId};
use crate::flows::{Flow, Flows};

use super::Macroflow;

/// Longest time for which a client may gather feedback: 500 acknowledgements, or two seconds (Andersen et al., figure 10).
const FEEDBACK_DELAY: Duration = Duration::from_secs(2);
/// Most doublings of the timeout: RFC 6298 §2.5 allows a bound of 60 seconds or more.
const MOST_DOUBLINGS: u32 = 5;

impl Macroflow {
    fn silence_timeout(&self, flow: &Flow) -> Duration {
        (self.rtt.timeout() + FEEDBACK_DELAY) * (1 << flow.silence.count.min(MOST_DOUBLINGS))
    }

    /// Forgets bytes that timeouts counted as lost, a timeout after feedback has come again: they are lost. A client
    /// that could report them at any later time could take a timeout back, and grow its window, when it likes.
    pub(crate) fn forget_written_off(&self, now: Instant, flow: &mut Flow) {
        let silence = &mut flow.silence;
        if silence.written_off == 0 {
            return;
        }
        let ended = *silence.ended.get_or_insert(now);
        if now - ended > self.rtt.timeout() + FEEDBACK_DELAY {
            let bytes = std::mem::take(&mut silence.written_off);
            if let Some(ledger) = &mut flow.ledger {
                ledger.forget(bytes);
            }
        }
    }

    /// Watches a flow that has data in flight. The host's own transports have timers of their own.
    pub(crate) fn watch_silence(&mut self, now: Instant, id: FlowId, flow: &mut Flow) {
        if flow.client == ClientId::HOST || flow.outstanding == 0 || flow.silence.due.is_some() {
            return;
        }
        let due = now + self.silence_timeout(flow);
        flow.silence.due = Some(due);
        self.watched.push(due, id);
    }

    /// Returns a flow that has had data in flight and no feedback for its timeout.
    pub(crate) fn poll_silent(&mut self, now: Instant, flows: &mut Flows) -> Option<FlowId> {
        while let Some((due, id)) = self.watched.pop_due(now) {
            // Gone, or watched anew since.
            let Some(flow) = flows.get_mut(id).filter(|flow| flow.silence.due == Some(due)) else { continue };
            flow.silence.due = None;
            if flow.outstanding == 0 {
                continue;
            }
            let due = flow.silence.since + self.silence_timeout(flow);
            if due <= now {
                return Some(id);
            }
            flow.silence.due = Some(due);
            self.watched.push(due, id);
        }
        None
    }
}
