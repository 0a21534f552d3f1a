//! Phases of loss recovery.

/// Phase of loss recovery. Losses are repaired up to SND.NXT at the time of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No loss is known.
    Open,
    /// Fast recovery (RFC 6675 §5, RFC 6582 §3.2) until `point` is acknowledged.
    Recovery {
        /// RFC 6675's RecoveryPoint, RFC 6582's recover.
        point: u64,
    },
    /// After a timeout, until `point` is acknowledged: gaps are filled (RFC 6675 §5.1).
    Timeout {
        /// SND.NXT at the timeout.
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
