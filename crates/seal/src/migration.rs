//! Secret by which the caller of an association proves that a stream over another transport goes on with it.

use std::fmt;

use subtle::ConstantTimeEq as _;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Secret of one handshake, which both of its ends derive and which is sent encrypted only: 128 bits that no other caller of the
/// listener can know. Compared in constant time, erased when dropped, and never printed.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct MigrationSecret([u8; MigrationSecret::LEN]);

impl MigrationSecret {
    /// Length in bytes.
    pub const LEN: usize = 16;

    /// Takes the bytes that a caller has sent, or that a handshake has exported.
    #[must_use]
    pub fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, to be sent encrypted.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl PartialEq for MigrationSecret {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for MigrationSecret {}

impl fmt::Debug for MigrationSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MigrationSecret(..)")
    }
}
