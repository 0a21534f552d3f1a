//! Grants: permissions for the flows of a macroflow to send now.

use timeous_core::Instant;

use crate::flow::FlowId;

/// Grant given to a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) flow: FlowId,
    /// Number among the flow's grants.
    pub(crate) number: u32,
    pub(crate) given: Instant,
}
