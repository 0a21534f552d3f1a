//! Messages as bytes, and what is refused beyond what serde refuses.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A message that cannot be read: the other side's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It is no message of this version.
    #[error("a packet of {0} bytes is no message of this version")]
    Unreadable(usize),
    /// Something follows it.
    #[error("{0} bytes follow a message in its packet")]
    Trailing(usize),
    /// A text is longer than it may be.
    #[error("a text of {len} bytes, where {max} are allowed")]
    TooLong {
        /// Its length.
        len: usize,
        /// What is allowed.
        max: usize,
    },
    /// A field has a value that no honest side gives it.
    #[error("the {0} of a message makes no sense")]
    Senseless(&'static str),
}

/// A message whose fields can be checked.
pub trait Checked: DeserializeOwned {
    /// Looks at what serde does not know of.
    ///
    /// # Errors
    /// What makes no sense.
    fn check(&self) -> Result<(), Malformed>;
}

/// Reads a message from the packet that it fills.
///
/// # Errors
/// See [`Malformed`].
pub fn decode<M: Checked>(packet: &[u8]) -> Result<M, Malformed> {
    let (message, rest) = postcard::take_from_bytes::<M>(packet).map_err(|_| Malformed::Unreadable(packet.len()))?;
    if !rest.is_empty() {
        return Err(Malformed::Trailing(rest.len()));
    }
    message.check()?;
    Ok(message)
}

/// Writes a message.
#[must_use]
pub fn encode(message: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(message).expect("messages are made of what postcard can write, into memory that grows")
}

pub(super) fn text(text: &str, max: usize) -> Result<(), Malformed> {
    if text.len() > max { Err(Malformed::TooLong { len: text.len(), max }) } else { Ok(()) }
}

pub(super) fn sensible(holds: bool, what: &'static str) -> Result<(), Malformed> {
    if holds { Ok(()) } else { Err(Malformed::Senseless(what)) }
}
