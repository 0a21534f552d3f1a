//! A flow's name between a client and the daemon.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A flow of one client, as the daemon named it when it was opened.
///
/// The manager's own [`FlowId`](timeous_cm::FlowId) never leaves the daemon: a client can name nothing but what it was
/// given. The slot is the flow's place in the client's table of path states, below the number of flows that the daemon
/// granted; the generation tells two flows apart that had the same place, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Handle {
    /// The place in the table of path states.
    pub slot: u32,
    /// Which flow in that place; never zero for a flow that is open.
    pub generation: u32,
}

impl Handle {
    /// As one word.
    #[must_use]
    pub const fn bits(self) -> u64 {
        (self.generation as u64) << 32 | self.slot as u64
    }

    /// From one word.
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
