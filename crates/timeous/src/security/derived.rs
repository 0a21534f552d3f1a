//! Keys of passphrases, derived once a process.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{LazyLock, Mutex, PoisonError};

use timeous_seal::{CredentialError, Passphrase};

/// Returns the key of a passphrase, which is derived once a process: that takes about 50 ms.
pub(super) fn derived(passphrase: &str) -> Result<Passphrase, CredentialError> {
    /// Two keyed hashes of 64 bits, so that the passphrases themselves are not kept.
    static HASHES: LazyLock<[RandomState; 2]> = LazyLock::new(|| [RandomState::new(), RandomState::new()]);
    static DERIVED: Mutex<BTreeMap<[u64; 2], Passphrase>> = Mutex::new(BTreeMap::new());
    let known = || DERIVED.lock().unwrap_or_else(PoisonError::into_inner);
    let hash = HASHES.each_ref().map(|hashes| hashes.hash_one(passphrase));
    if let Some(key) = known().get(&hash) {
        return Ok(key.clone());
    }
    let key = Passphrase::derive(passphrase)?;
    known().insert(hash, key.clone());
    Ok(key)
}
