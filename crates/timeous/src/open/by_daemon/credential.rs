//! Credential of a stream that the daemon encrypts: read and checked here, so that the daemon opens no files, and errors
//! are those of a stream of this process.

use timeous_ipc::messages::{
    Access, CallerCredential, Credential, Grant, Identity, ListenerCredential, PassphraseKey, Protection, Secret, Trust,
};
use timeous_seal::{CertificateDer, Intent, Passphrase, system_certificates};

use super::super::sealing::{CallerParts, ListenerParts};
use crate::options::Options;
use crate::security::{SecurityError, read};

/// Protection of a stream, and the credential if it is encrypted.
pub(super) struct StreamProtection {
    pub(super) protection: Protection,
    pub(super) credential: Option<Credential>,
}

/// Protection of a call of `host`.
pub(super) fn of_caller(options: &Options, host: &str, intent: Intent) -> Result<StreamProtection, SecurityError> {
    protection(options, || caller(options, host, intent).map(Credential::Caller))
}

/// Protection of a listener; `callers`: see [`Security::callers`](crate::Security::callers).
pub(super) fn of_listener(options: &Options, callers: Option<Intent>) -> Result<StreamProtection, SecurityError> {
    protection(options, || listener(options, callers).map(Credential::Listener))
}

fn protection(
    options: &Options,
    read: impl FnOnce() -> Result<Credential, SecurityError>,
) -> Result<StreamProtection, SecurityError> {
    let credential = if options.security.has_credential() { Some(read()?) } else { None };
    let protection = match credential {
        Some(_) => Protection::Sealed,
        None if options.security.is_plain => Protection::Off,
        None => Protection::Local,
    };
    Ok(StreamProtection { protection, credential })
}

fn caller(options: &Options, host: &str, intent: Intent) -> Result<CallerCredential, SecurityError> {
    let mut parts = CallerParts::read(options)?;
    // The system's authorities are those that this process is told of, too.
    if matches!(parts.trust, timeous_seal::Trust::System) {
        let error = |error| SecurityError::Credential { from: "ca=system".to_owned(), error };
        parts.trust = timeous_seal::Trust::Authorities(system_certificates().map_err(error)?);
    }
    parts.credential(options, host, intent)?;
    Ok(CallerCredential {
        host: host.to_owned(),
        trust: match &parts.trust {
            timeous_seal::Trust::Fingerprint(fingerprint) => Trust::Fingerprint(fingerprint.to_bytes()),
            timeous_seal::Trust::Authorities(authorities) => Trust::Authorities(der(authorities)),
            timeous_seal::Trust::Passphrase | timeous_seal::Trust::System => Trust::Passphrase,
        },
        passphrase: parts.passphrase.as_ref().map(key),
        identity: parts.identity.as_ref().map(identity),
        publishes: intent == Intent::Publish,
        stream_id: options.security.stream_id.clone().unwrap_or_default(),
    })
}

fn listener(options: &Options, callers: Option<Intent>) -> Result<ListenerCredential, SecurityError> {
    let parts = ListenerParts::read(options)?;
    let read = read::access(&options.security, callers)?;
    let access = match &read {
        read::ReadAccess::Shared(passphrase) => Access::Shared(passphrase.as_ref().map(key)),
        read::ReadAccess::Table(table) => Access::Streams {
            grants: table
                .grants()
                .map(|(stream_id, intent, passphrase)| Grant {
                    stream_id: stream_id.to_owned(),
                    publish: intent == Intent::Publish,
                    passphrase: key(passphrase),
                })
                .collect(),
            only_publish: table.admitted().map(|intent| intent == Intent::Publish),
        },
    };
    parts.credential(read.into())?;
    Ok(ListenerCredential {
        identity: parts.identity.as_ref().map(identity),
        authorities: parts.authorities.as_deref().map(der),
        access,
    })
}

fn key(passphrase: &Passphrase) -> PassphraseKey {
    PassphraseKey(*passphrase.key())
}

fn identity(identity: &timeous_seal::Identity) -> Identity {
    Identity { chain: der(identity.certificates()), key: Secret::new(identity.secret_der()) }
}

fn der(certificates: &[CertificateDer<'_>]) -> Vec<Vec<u8>> {
    certificates.iter().map(|certificate| certificate.to_vec()).collect()
}
