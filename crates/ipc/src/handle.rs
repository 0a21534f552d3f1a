//! Flow handles: identifiers of flows between a client and the daemon.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A flow of one client, as identified by the daemon when it was opened.
///
/// The manager's own [`FlowId`](timeous_cm::FlowId) never leaves the daemon, so that a client can refer only to its own
/// flows. The slot is the index in the client's table of path states; the generation tells flows apart that used the
/// same slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Handle {
    /// Index in the table of path states, below the granted number of flows.
    pub slot: u32,
    /// Counter of the flows that used the slot; never zero for an open flow.
    pub generation: u32,
}

impl Handle {
    /// Packs the handle into one word.
    #[must_use]
    pub const fn bits(self) -> u64 {
        (self.generation as u64) << 32 | self.slot as u64
    }

    /// Unpacks a handle from one word.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self { slot: bits as u32, generation: (bits >> 32) as u32 }
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_survives_as_a_word() {
        let handle = Handle { slot: 7, generation: u32::MAX };
        assert_eq!(Handle::from_bits(handle.bits()), handle);
    }
}
