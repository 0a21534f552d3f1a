//! Errors of a stream's credentials: always the caller's to fix.

use std::io::ErrorKind;
use std::net::SocketAddr;

use timeous_seal::CredentialError;

use super::access_list::AccessListError;

/// Reason why a stream's credentials cannot be used, or why it needs some. The caller's to fix.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecurityError {
    /// A file cannot be read.
    #[error("{key}={path}: {error}: {}", remedy(key, error.kind()))]
    File {
        /// The URI's key.
        key: &'static str,
        /// The file.
        path: String,
        /// Error of the system.
        error: std::io::Error,
    },
    /// A file or variable holds no passphrase.
    #[error("{from}: {problem}: `timeous passphrase` makes one")]
    Passphrase {
        /// Key and value, without the passphrase.
        from: String,
        /// The mistake.
        problem: &'static str,
    },
    /// The credential is malformed, or does not fit.
    #[error("{from}: {error}")]
    Credential {
        /// Key and value, without secrets.
        from: String,
        /// The mistake.
        error: CredentialError,
    },
    /// A line of the access list is wrong.
    #[error("access={path}, {error}")]
    Access {
        /// The file.
        path: String,
        /// Line and problem.
        error: AccessListError,
    },
    /// The call of another host has no credential.
    #[error(
        "nothing protects a stream to {remote}: {}",
        unsealable.unwrap_or("add passphrase=file:FILE (`timeous passphrase --out FILE` makes one), or encryption=off")
    )]
    Unprotected {
        /// Address that would be called.
        remote: SocketAddr,
        /// Reason why this stream could have no credential, with what to do about it.
        unsealable: Option<&'static str>,
    },
}

/// Advice on a file that cannot be read.
fn remedy(key: &str, kind: ErrorKind) -> &'static str {
    match (kind, key) {
        (ErrorKind::PermissionDenied, _) => "let this user read it",
        (_, "passphrase") => "`timeous passphrase --out FILE` makes one",
        (_, "cert" | "key") => "`timeous cert --out DIRECTORY` makes certificate and key",
        (_, "access") => "it has lines such as `camera1 publish PASSPHRASE`",
        _ => "name a PEM file with the certificates of authorities, or ca=system",
    }
}
