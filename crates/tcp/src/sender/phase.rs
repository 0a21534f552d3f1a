//! Where a sender is in the repair of losses.

/// Losses are repaired up to what had been sent when the first was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing is known to be missing.
    Open,
    /// Fast recovery (RFC 6675 §5, RFC 6582 §3.2) until `point` is acknowledged.
    Recovery {
        /// RFC 6675's RecoveryPoint, RFC 6582's recover.
        point: u64,
    },
    /// After a timeout, until `point` is acknowledged: what is missing is filled in (RFC 6675 §5.1).
    Timeout {
        /// What had been sent by then.
        point: u64,
    },
}

impl Phase {
    pub(super) fn point(self) -> Option<u64> {
        match self {
            Self::Open => None,
            Self::Recovery { point } | Self::Timeout { point } => Some(point),
        }
    }

    pub(super) fn is_recovery(self) -> bool {
        matches!(self, Self::Recovery { .. })
    }
}
