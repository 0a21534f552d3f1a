//! Encoding of messages, and checks beyond serde's.

use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

/// Maximum encoded credential, in bytes. Chosen by us: the authorities of a system take 170 kB, an entry of an access list
/// about 50 bytes. A higher value lets a client keep more of the daemon's memory.
pub const CREDENTIAL_MAX: usize = 512 << 10;

/// Invalid message: the other side's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Not a message of this version.
    #[error("a packet of {0} bytes is no message of this version")]
    Unreadable(usize),
    /// Trailing bytes behind the message.
    #[error("{0} bytes follow a message in its packet")]
    Trailing(usize),
    /// A text exceeds its maximum length.
    #[error("a text of {len} bytes, where {max} are allowed")]
    TooLong {
        /// Length of the text.
        len: usize,
        /// Maximum length.
        max: usize,
    },
    /// A credential exceeds its maximum length.
    #[error("a credential of {0} bytes, where the daemon takes {CREDENTIAL_MAX}: shorten it, or leave out the daemon")]
    LongCredential(usize),
    /// Invalid value of a field.
    #[error("the {0} of a message makes no sense")]
    Senseless(&'static str),
}

/// A message with checks of its fields.
pub trait Checked: DeserializeOwned {
    /// Checks the constraints that serde does not know.
    ///
    /// # Errors
    /// An invalid field.
    fn check(&self) -> Result<(), Malformed>;
}

/// Decodes a message that fills the packet.
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

/// Encodes a message.
#[must_use]
pub fn encode(message: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(message).expect("messages are made of what postcard can write, into memory that grows")
}

/// Encodes a message that may hold a secret: the bytes are erased when dropped, and there is no copy of them.
pub(crate) fn encode_erased(message: &impl Serialize) -> Zeroizing<Vec<u8>> {
    // Of the final size, since growth would leave copies behind.
    let size = postcard::experimental::serialized_size(message).expect("messages are made of what postcard can write");
    let mut bytes = Zeroizing::new(vec![0; size]);
    postcard::to_slice(message, &mut bytes).expect("the message has this size");
    bytes
}

pub(super) fn text(text: &str, max: usize) -> Result<(), Malformed> {
    if text.len() > max { Err(Malformed::TooLong { len: text.len(), max }) } else { Ok(()) }
}

pub(super) fn sensible(holds: bool, what: &'static str) -> Result<(), Malformed> {
    if holds { Ok(()) } else { Err(Malformed::Senseless(what)) }
}
