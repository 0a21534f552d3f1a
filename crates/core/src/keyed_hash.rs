//! Keyed hash of values that a peer carries for us, such as cookies.

use std::fmt;
use std::hash::{Hash, Hasher};

use siphasher::sip::SipHasher24;

/// SipHash-2-4 (Aumasson & Bernstein 2012) under a secret key: without the key, no peer can compute the hash of a value
/// that it has not been given.
///
/// ```
/// use timeous_core::KeyedHash;
/// let hash = KeyedHash::new([7; 16]);
/// assert_eq!(hash.of(&"cookie"), hash.of(&"cookie"));
/// assert_ne!(hash.of(&"cookie"), KeyedHash::new([8; 16]).of(&"cookie"));
/// ```
#[derive(Clone)]
pub struct KeyedHash([u8; 16]);

impl KeyedHash {
    /// Creates the hash function of a secret `key`.
    pub const fn new(key: [u8; 16]) -> Self {
        Self(key)
    }

    /// Returns the hash of a value. It is the same within a process only: integers are hashed in the machine's byte order.
    pub fn of(&self, value: &(impl Hash + ?Sized)) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        value.hash(&mut hasher);
        hasher.finish()
    }
}

impl fmt::Debug for KeyedHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is a secret.
        f.debug_struct("KeyedHash").finish_non_exhaustive()
    }
}
