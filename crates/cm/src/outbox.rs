//! Outgoing events of the manager: those of clients, and the trace.

use timeous_core::Instant;

use crate::client::Clients;
use crate::flow::FlowId;
use crate::flow::MacroflowId;
use crate::trace::{Happening, Trace, Traced};

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) clients: Clients,
    pub(crate) trace: Option<Box<Trace>>,
}

impl Outbox {
    /// Adds a trace entry, if the trace is enabled.
    pub(crate) fn note(&mut self, at: Instant, macroflow: u64, flow: Option<FlowId>, what: impl FnOnce() -> Happening) {
        if let Some(trace) = &mut self.trace {
            trace.push(Traced { at, macroflow: MacroflowId::from_u64(macroflow), flow, what: what() });
        }
    }
}
