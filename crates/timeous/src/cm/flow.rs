//! A flow's name.

/// A flow that was opened (the paper's `cm_flowid`).
///
/// Names are those of one [`CongestionManager`](super::CongestionManager) and its clones, and are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(u64);

impl FlowId {
    /// The flow with this number, if there is one: for languages that know but numbers.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// Its number.
    #[must_use]
    pub const fn raw(self) -> u64 {
        self.0
    }
}
