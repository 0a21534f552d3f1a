//! Errors in a negotiation: the peer's reset the connection, the caller's are refused.

use super::ends::Location;
use super::number::Feature;
use crate::reset::ResetReason;

/// Error of the peer in the negotiation: reset the connection with [`NegotiationError::reset`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NegotiationError {
    /// A mandatory Change names a feature we do not know (RFC 4340 §6.6.9).
    #[error("the peer demands feature {feature}, which is unknown here; reset with Mandatory Error")]
    Unknown {
        /// The option's type.
        kind: u8,
        /// The feature's number.
        feature: u8,
        /// The first byte of the values, or zero.
        first: u8,
    },
    /// A mandatory Change has values of the wrong length or out of range (§6.6.9).
    #[error("the peer demands an invalid value of {feature:?}; reset with Mandatory Error")]
    Invalid {
        /// The option's type.
        kind: u8,
        /// The feature.
        feature: Feature,
        /// The first byte of the values, or zero.
        first: u8,
    },
    /// A mandatory Change shares no value with our preferences (§6.6.9).
    #[error("the peer demands values of {feature:?} that are not supported here; reset with Mandatory Error")]
    NothingShared {
        /// The option's type.
        kind: u8,
        /// The feature.
        feature: Feature,
        /// The first byte of the values.
        first: u8,
    },
    /// A Confirm does not follow from the preferences of both ends (§6.6.8).
    #[error("the peer confirmed a value of {feature:?} that cannot result; reset with Option Error")]
    WrongConfirm {
        /// The option's type.
        kind: u8,
        /// The feature.
        feature: Feature,
        /// The first byte of the values.
        first: u8,
    },
    /// The peer does not support a feature that every implementation must support, or refused its values (§6.6.7).
    #[error("the peer refused {feature:?}, which every DCCP must understand; reset with Option Error")]
    RequiredRefused {
        /// The option's type.
        kind: u8,
        /// The feature.
        feature: Feature,
    },
}

impl NegotiationError {
    /// Returns the contents of the DCCP-Reset (RFC 4340 §5.6, codes 5 and 6).
    pub fn reset(&self) -> ResetReason {
        match *self {
            Self::Unknown { kind, feature, first } => ResetReason::mandatory_error(kind, &[feature, first]),
            Self::Invalid { kind, feature, first } | Self::NothingShared { kind, feature, first } => {
                ResetReason::mandatory_error(kind, &[feature.number(), first])
            }
            Self::WrongConfirm { kind, feature, first } => ResetReason::option_error(kind, &[feature.number(), first]),
            Self::RequiredRefused { kind, feature } => ResetReason::option_error(kind, &[feature.number()]),
        }
    }
}

/// A proposal of the caller that cannot be negotiated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProposeError {
    /// No value, more values than an option can carry, or several for a non-negotiable feature.
    #[error(
        "{count} values cannot be proposed for {feature:?}: give one, or a list of at most 251 if it is negotiable"
    )]
    Count {
        /// The feature.
        feature: Feature,
        /// Number of values given.
        count: usize,
    },
    /// A value out of range.
    #[error("{value} is no legal value of {feature:?}")]
    Illegal {
        /// The feature.
        feature: Feature,
        /// The value.
        value: u64,
    },
    /// A non-negotiable feature of the peer's, which only the peer can set (RFC 4340 §6.3.2).
    #[error("{feature:?} at {location:?} is set by its location alone: propose it there, as Local")]
    NotOurs {
        /// The feature.
        feature: Feature,
        /// Its location.
        location: Location,
    },
}
