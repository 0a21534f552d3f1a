//! Identities: certificate and private key, from PEM or made here, and fingerprints.

use std::fmt;
use std::str::FromStr;

use rcgen::{CertificateParams, KeyPair};
use ring::digest::{SHA256, digest};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::{Zeroize as _, Zeroizing};

use crate::error::CredentialError;

/// SHA-256 of a certificate's DER bytes.
///
/// ```
/// use timeous_seal::Fingerprint;
/// let text = format!("sha256:{}", "0a".repeat(32));
/// assert_eq!(text.parse::<Fingerprint>()?.to_string(), text);
/// # Ok::<(), timeous_seal::CredentialError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Returns the fingerprint of a certificate.
    ///
    /// # Panics
    /// Never: the digest has 32 bytes.
    #[must_use]
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(digest(&SHA256, certificate).as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    /// Returns its bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 32] {
        self.0
    }
}

impl From<[u8; 32]> for Fingerprint {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl FromStr for Fingerprint {
    type Err = CredentialError;

    fn from_str(text: &str) -> Result<Self, CredentialError> {
        let hex: String =
            text.strip_prefix("sha256:").unwrap_or(text).chars().filter(|&letter| letter != ':').collect();
        if hex.len() != 64 || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(CredentialError::Fingerprint);
        }
        let mut bytes = [0; 32];
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&hex[at..at + 2], 16).map_err(|_| CredentialError::Fingerprint)?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A certificate chain and its private key, which is erased when dropped and never printed.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Reads a certificate chain and a private key from PEM.
    ///
    /// # Errors
    /// [`CredentialError::Pem`] if either is missing or malformed.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, CredentialError> {
        let chain = read_certificates(chain)?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| CredentialError::Pem(format!("no private key in PEM: {error}")))?;
        Ok(Self { chain, key })
    }

    /// Takes a certificate chain and a private key in DER: those of [`certificates`](Self::certificates) and
    /// [`secret_der`](Self::secret_der).
    ///
    /// # Errors
    /// [`CredentialError::Identity`] if the key is none, or there is no certificate.
    pub fn from_der(chain: Vec<CertificateDer<'static>>, key: &[u8]) -> Result<Self, CredentialError> {
        if chain.is_empty() {
            return Err(CredentialError::Identity("there is no certificate".into()));
        }
        let key = PrivateKeyDer::try_from(key).map_err(|error| CredentialError::Identity(error.to_owned()))?;
        Ok(Self { chain, key: key.clone_key() })
    }

    /// Returns the certificate chain.
    #[must_use]
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// Returns the private key in DER, to hand it to another process.
    #[must_use]
    pub fn secret_der(&self) -> &[u8] {
        self.key.secret_der()
    }

    /// Makes a certificate for these host names or addresses, signed by its own key (ECDSA P-256), valid from 1975 to
    /// 4096 (no authority vouches for it; its fingerprint does).
    ///
    /// # Errors
    /// [`CredentialError::Name`] for a name that no certificate can carry.
    pub fn self_signed(names: &[String]) -> Result<Self, CredentialError> {
        Ok(Self::with_pem(names)?.0)
    }

    /// Same as [`self_signed`](Self::self_signed), with certificate and key in PEM.
    ///
    /// # Errors
    /// As there.
    pub fn with_pem(names: &[String]) -> Result<(Self, String, Zeroizing<String>), CredentialError> {
        let wrong = |_| CredentialError::Name(names.join(", "));
        let params = CertificateParams::new(names).map_err(wrong)?;
        let key = KeyPair::generate().map_err(|error| CredentialError::Identity(error.to_string()))?;
        let certificate = params.self_signed(&key).map_err(wrong)?;
        let key_pem = Zeroizing::new(key.serialize_pem());
        let pem = certificate.pem();
        Ok((Self::from_pem(pem.as_bytes(), key_pem.as_bytes())?, pem, key_pem))
    }

    /// Returns the fingerprint of the certificate.
    ///
    /// # Panics
    /// Never: a chain has at least one certificate.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(self.chain.first().expect("a chain was read"))
    }

    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.chain.clone()
    }

    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        self.key.clone_key()
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self { chain: self.chain(), key: self.key() }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("fingerprint", &self.fingerprint()).finish_non_exhaustive()
    }
}

/// Reads the certificates of a PEM file.
///
/// # Errors
/// [`CredentialError::Pem`] if there is none, or one is malformed.
pub fn read_certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CredentialError> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| CredentialError::Pem(format!("a malformed certificate in PEM: {error}")))?;
    if certificates.is_empty() {
        return Err(CredentialError::Pem("no certificate in PEM".into()));
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_survives_pem() {
        let (identity, chain, key) = Identity::with_pem(&["camera.example".into(), "192.0.2.1".into()]).unwrap();
        let again = Identity::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        assert_eq!(identity.fingerprint(), again.fingerprint());
        assert!(!format!("{again:?}").contains(key.lines().nth(1).unwrap()));
    }

    #[test]
    fn an_identity_survives_der() {
        let identity = Identity::self_signed(&["camera.example".into()]).unwrap();
        let again = Identity::from_der(identity.certificates().to_vec(), identity.secret_der()).unwrap();
        assert_eq!((identity.fingerprint(), identity.secret_der()), (again.fingerprint(), again.secret_der()));
        assert_eq!(Fingerprint::from(identity.fingerprint().to_bytes()), identity.fingerprint());
        assert!(Identity::from_der(Vec::new(), identity.secret_der()).is_err());
        assert!(Identity::from_der(identity.certificates().to_vec(), b"no key").is_err());
    }

    #[test]
    fn what_is_missing_is_told() {
        let (_, chain, key) = Identity::with_pem(&["a".into()]).unwrap();
        assert_eq!(read_certificates(key.as_bytes()), Err(CredentialError::Pem("no certificate in PEM".into())));
        assert!(matches!(Identity::from_pem(chain.as_bytes(), b""), Err(CredentialError::Pem(_))));
        assert!("sha256:12".parse::<Fingerprint>().is_err());
    }
}
