//! Errors in a URI.

use super::keys::KEYS;
use crate::options::contradictions::Contradiction;

/// Error in a URI; always the caller's to fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UriError {
    /// Another scheme.
    #[error("'{0}' is not a timeous:// URI")]
    NotTimeous(String),
    /// The port is not a number from 1 to 65535.
    #[error("'{0}' is not a port: use a number from 1 to 65535")]
    BadPort(String),
    /// Unknown key.
    #[error("unknown key '{key}' in the URI; known are {}", KEYS.each_ref().map(|key| key.name).join(", "))]
    UnknownKey {
        /// The key.
        key: String,
    },
    /// Repeated key.
    #[error("the key '{key}' is there twice in the URI: leave one of them out")]
    RepeatedKey {
        /// The key.
        key: String,
    },
    /// Invalid value of a key.
    #[error("{key}={value}: {expected}")]
    BadValue {
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// Accepted values.
        expected: String,
    },
    /// A host where the stream listens, or none where it calls.
    #[error("{0}")]
    BadMode(&'static str),
    /// Keys that exclude each other, do nothing, or need another one.
    #[error(transparent)]
    Contradiction(#[from] Contradiction),
}
