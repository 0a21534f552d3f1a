//! Passphrases: their key (Argon2id), and new ones that cannot be guessed.

use std::sync::Arc;

use argon2::{Algorithm, Argon2, Params, Version};
use ring::rand::{SecureRandom as _, SystemRandom};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::error::CredentialError;

/// Least length of a passphrase, in characters: whoever answers in the listener's place may guess offline, so shorter ones
/// are refused, as SRT does.
pub const MIN_PASSPHRASE: usize = 10;

/// Salt of the key. It is the same for all, so that both ends know it before they have spoken: a table of guesses
/// made once serves against every stream, which is why generated passphrases have 128 bits.
const SALT: &[u8] = b"timeous passphrase 1";
/// Memory in KiB and passes of Argon2id: the second recommended option of OWASP (19 MiB, two passes, one lane), which
/// small devices can afford once a process.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;

/// Key of a passphrase. Erased when its last clone is dropped, and never printed.
///
/// It stays in one place in memory: a value that is moved leaves a copy behind, which nobody would erase.
#[derive(Clone)]
pub struct Passphrase(Arc<Zeroizing<[u8; 32]>>);

impl Passphrase {
    /// Derives the key of a passphrase, which takes about 50 ms.
    ///
    /// # Errors
    /// [`CredentialError::ShortPassphrase`] if it has less than [`MIN_PASSPHRASE`] characters.
    pub fn derive(passphrase: &str) -> Result<Self, CredentialError> {
        if passphrase.chars().count() < MIN_PASSPHRASE {
            return Err(CredentialError::ShortPassphrase);
        }
        let params = Params::new(MEMORY_KIB, PASSES, 1, Some(32)).expect("the parameters are within Argon2's bounds");
        Ok(Self::fill(|key| {
            Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
                .hash_password_into(passphrase.as_bytes(), SALT, key)
                .expect("salt and key have lengths that Argon2 takes");
        }))
    }

    /// Returns the key of [`derive`](Self::derive), to hand it to another process without the passphrase.
    #[must_use]
    pub fn key(&self) -> &[u8; 32] {
        &self.0
    }

    /// Takes the key that [`key`](Self::key) returned.
    #[must_use]
    pub fn from_key(key: [u8; 32]) -> Self {
        let key = Zeroizing::new(key);
        Self::fill(|place| place.copy_from_slice(&*key))
    }

    /// Makes a key by writing it to its place.
    fn fill(write: impl FnOnce(&mut [u8; 32])) -> Self {
        let mut key = Arc::new(Zeroizing::new([0; 32]));
        write(Arc::get_mut(&mut key).expect("nobody else has it yet"));
        Self(key)
    }
}

/// In constant time.
impl PartialEq for Passphrase {
    fn eq(&self, other: &Self) -> bool {
        self.key().ct_eq(other.key()).into()
    }
}

impl Eq for Passphrase {}

impl std::fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Passphrase(..)")
    }
}

/// Letters and digits that are not taken for each other when read aloud or copied by hand (Crockford's base 32).
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Makes a passphrase of 130 random bits from the system's generator: five groups of five characters and one.
///
/// ```
/// let passphrase = timeous_seal::generate_passphrase();
/// assert_eq!(passphrase.len(), 31);
/// ```
///
/// # Panics
/// If the system has no random numbers to give.
#[must_use]
pub fn generate_passphrase() -> Zeroizing<String> {
    let mut random = Zeroizing::new([0; 26]);
    SystemRandom::new().fill(&mut random[..]).expect("the system gives random numbers");
    let mut passphrase = Zeroizing::new(String::with_capacity(31));
    for (at, byte) in random.iter().enumerate() {
        if at > 0 && at % 5 == 0 {
            passphrase.push('-');
        }
        passphrase.push(char::from(ALPHABET[usize::from(byte % 32)]));
    }
    passphrase
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passphrase_has_one_key() {
        let one = Passphrase::derive("correct horse").unwrap();
        assert!(one == Passphrase::derive("correct horse").unwrap());
        assert!(one != Passphrase::derive("correct horsf").unwrap());
        assert_eq!(Passphrase::derive("too short"), Err(CredentialError::ShortPassphrase));
        assert_eq!(format!("{one:?}"), "Passphrase(..)");
    }

    #[test]
    fn generated_ones_differ() {
        assert_ne!(*generate_passphrase(), *generate_passphrase());
        assert!(Passphrase::derive(&generate_passphrase()).is_ok());
    }
}
