//! Encryption and authentication of a stream, as set by the keys of its URI. Secrets are named here, and read when it opens.

mod access_list;
mod derived;
mod error;
pub(crate) mod read;

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use timeous_seal::{Access, Fingerprint, Intent};
use zeroize::Zeroizing;

pub use access_list::{AccessList, AccessListError, AccessListProblem};
pub use error::SecurityError;

/// Encryption and authentication of a stream. Any credential encrypts it; the two ends negotiate nothing.
///
/// A caller needs a credential for any host but its own, unless [`is_plain`](Self::is_plain). Without one, a listener
/// takes callers of its own host only.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Security {
    /// Passphrase that both ends know.
    pub passphrase: Option<PassphraseSource>,
    /// PEM file with this end's certificate chain.
    pub certificate: Option<PathBuf>,
    /// PEM file with the private key of the certificate.
    pub key: Option<PathBuf>,
    /// Authorities of which one must have signed the peer's certificate.
    pub authorities: Option<Authorities>,
    /// At a caller, fingerprint of the listener's certificate.
    pub fingerprint: Option<Fingerprint>,
    /// At a caller, ID of the stream that it asks for: at most 512 bytes.
    pub stream_id: Option<String>,
    /// At a listener, file with an [`AccessList`].
    pub access: Option<PathBuf>,
    /// At a listener with an access list, the intent of the callers that it admits: one that only receives sets
    /// [`Intent::Publish`], so that nobody sends with the right to receive. Without encryption, a TCP connection to such a listener
    /// is a caller once it has sent something. `None`: any intent.
    pub callers: Option<Intent>,
    /// At a listener, access decisions of the application's own: see [`Uri::with_access`](crate::Uri::with_access).
    pub own_access: Option<OwnAccess>,
    /// Whether packets are sent and taken without protection, also to and from other hosts.
    pub is_plain: bool,
}

impl Security {
    /// Whether there is a credential, so that the stream is encrypted.
    #[must_use]
    pub fn has_credential(&self) -> bool {
        let Self { passphrase, certificate, key, authorities, fingerprint, access, own_access, .. } = self;
        passphrase.is_some()
            || [certificate, key, access].into_iter().any(Option::is_some)
            || authorities.is_some()
            || fingerprint.is_some()
            || own_access.is_some()
    }

    /// Returns what other users of this host could learn of the secrets: for a warning.
    #[must_use]
    pub fn weaknesses(&self) -> Vec<Weakness> {
        let file = match &self.passphrase {
            Some(PassphraseSource::File(path)) => Some(path),
            _ => None,
        };
        let secrets = [file, self.key.as_ref(), self.access.as_ref()].into_iter().flatten();
        let bare = matches!(self.passphrase, Some(PassphraseSource::Bare(_))).then_some(Weakness::BarePassphrase);
        let readable = secrets.filter(|path| is_readable_by_all(path)).cloned().map(Weakness::ReadableByAll);
        bare.into_iter().chain(readable).collect()
    }
}

fn is_readable_by_all(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.mode() & 0o004 != 0)
}

/// Place from which a passphrase is read when a stream opens.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PassphraseSource {
    /// A file whose only line it is.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
    /// The passphrase itself, erased when dropped.
    Bare(Zeroizing<String>),
}

impl PassphraseSource {
    /// Creates a source of the passphrase itself.
    ///
    /// ```
    /// use timeous::PassphraseSource;
    /// let source = PassphraseSource::bare("correct horse battery");
    /// assert_eq!(format!("{source:?}"), "Bare(..)");
    /// ```
    #[must_use]
    pub fn bare(passphrase: &str) -> Self {
        Self::Bare(Zeroizing::new(passphrase.to_owned()))
    }
}

impl fmt::Debug for PassphraseSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Variable(name) => f.debug_tuple("Variable").field(name).finish(),
            Self::Bare(_) => f.write_str("Bare(..)"),
        }
    }
}

/// Authorities that sign certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Authorities {
    /// The authorities that the system trusts.
    System,
    /// The authorities of a PEM file.
    File(PathBuf),
}

/// Access decisions of the application's own, in place of a passphrase or an access list. Two are equal if one is a clone
/// of the other.
#[derive(Clone)]
pub struct OwnAccess(pub(crate) Arc<dyn Access>);

impl OwnAccess {
    /// Takes the application's decisions.
    pub fn new(access: impl Access + 'static) -> Self {
        Self(Arc::new(access))
    }
}

impl PartialEq for OwnAccess {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for OwnAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnAccess").finish_non_exhaustive()
    }
}

/// Way by which other users of this host may learn a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Weakness {
    /// The passphrase itself is in the URI.
    BarePassphrase,
    /// A file with a secret can be read by all users.
    ReadableByAll(PathBuf),
}

impl fmt::Display for Weakness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BarePassphrase => f.write_str(
                "all users of this host can see the passphrase on the command line (ps): \
                 write passphrase=file:PATH or passphrase=env:NAME",
            ),
            Self::ReadableByAll(path) => {
                let path = path.display();
                write!(f, "all users of this host can read the secrets in {path}: chmod o-r {path}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let passphrase = Some(PassphraseSource::bare("open sesame"));
        let shown = format!("{:?}", Security { passphrase, ..Security::default() });
        assert!(!shown.contains("sesame"), "{shown}");
    }

    #[test]
    fn secrets_that_others_can_read_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pass");
        fs::write(&path, "open sesame").unwrap();
        let security = Security { access: Some(path.clone()), ..Security::default() };
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        assert_eq!(security.weaknesses(), []);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(security.weaknesses(), [Weakness::ReadableByAll(path)]);
        let bare = Security { passphrase: Some(PassphraseSource::bare("open sesame")), ..Security::default() };
        assert_eq!(bare.weaknesses(), [Weakness::BarePassphrase]);
    }
}
