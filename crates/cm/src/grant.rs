//! A grant, as a macroflow keeps it.

use timeous_core::Instant;

use crate::flow::FlowId;

/// A grant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) flow: FlowId,
    /// Which of the flow's.
    pub(crate) number: u32,
    pub(crate) given: Instant,
}
