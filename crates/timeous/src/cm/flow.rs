//! Identifier of a flow.

/// An open flow (the paper's `cm_flowid`).
///
/// Valid for one [`CongestionManager`](super::CongestionManager) and its clones, and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(u64);

impl FlowId {
    /// Creates the ID with this number, for languages that only have numbers.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// Number of the flow.
    #[must_use]
    pub const fn raw(self) -> u64 {
        self.0
    }
}
