//! Reading of credentials from files and environment variables, when a stream opens.

use std::path::Path;
use std::sync::Arc;

use timeous_seal::{
    Access, AccessTable, CertificateDer, Identity, Intent, Passphrase, SharedPassphrase, Trust, read_certificates,
};
use zeroize::Zeroizing;

use super::access_list::AccessList;
use super::derived::derived;
use super::error::SecurityError;
use super::{Authorities, PassphraseSource, Security};

/// Reads a passphrase, and derives its key.
pub(crate) fn passphrase(source: &PassphraseSource) -> Result<Passphrase, SecurityError> {
    let (from, passphrase) = match source {
        PassphraseSource::Bare(passphrase) => ("passphrase".to_owned(), passphrase.clone()),
        PassphraseSource::File(path) => {
            let from = format!("passphrase=file:{}", path.display());
            let error =
                |error| SecurityError::File { key: "passphrase", path: format!("file:{}", path.display()), error };
            (from, Zeroizing::new(std::fs::read_to_string(path).map_err(error)?))
        }
        PassphraseSource::Variable(name) => {
            let from = format!("passphrase=env:{name}");
            match std::env::var(name) {
                Ok(value) => (from, Zeroizing::new(value)),
                Err(_) => return Err(SecurityError::Passphrase { from, problem: "there is no such variable" }),
            }
        }
    };
    let one = passphrase.trim_end_matches(['\r', '\n']);
    if one.contains('\n') {
        return Err(SecurityError::Passphrase { from, problem: "it has more than one line" });
    }
    derived(one).map_err(|error| SecurityError::Credential { from, error })
}

/// Reads certificate and key of this end, if it has one.
pub(crate) fn identity(security: &Security) -> Result<Option<Identity>, SecurityError> {
    let (Some(certificate), Some(key)) = (&security.certificate, &security.key) else { return Ok(None) };
    let chain = file("cert", certificate)?;
    let secret = file("key", key)?;
    let from = || format!("cert={}&key={}", certificate.display(), key.display());
    Identity::from_pem(&chain, &secret).map(Some).map_err(|error| SecurityError::Credential { from: from(), error })
}

/// Reads what a caller trusts.
pub(crate) fn trust(security: &Security) -> Result<Trust, SecurityError> {
    match (&security.fingerprint, &security.authorities) {
        (Some(fingerprint), _) => Ok(Trust::Fingerprint(*fingerprint)),
        (None, None) => Ok(Trust::Passphrase),
        (None, Some(Authorities::System)) => Ok(Trust::System),
        (None, Some(Authorities::File(path))) => authorities(path).map(Trust::Authorities),
    }
}

/// Reads the authorities of a PEM file.
pub(crate) fn authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, SecurityError> {
    let from = || format!("ca={}", path.display());
    read_certificates(&file("ca", path)?).map_err(|error| SecurityError::Credential { from: from(), error })
}

/// Access of callers that is data, not decided by the application.
pub(crate) enum ReadAccess {
    /// One passphrase for all streams; `None`: no passphrase is asked for.
    Shared(Option<Passphrase>),
    /// Passphrases by stream.
    Table(AccessTable),
}

impl From<ReadAccess> for Arc<dyn Access> {
    fn from(access: ReadAccess) -> Self {
        match access {
            ReadAccess::Shared(passphrase) => Self::from(Box::new(SharedPassphrase(passphrase)) as Box<dyn Access>),
            ReadAccess::Table(table) => Self::from(Box::new(table) as Box<dyn Access>),
        }
    }
}

/// Reads the access of callers, unless the application decides. `callers`: the intent that an access list admits.
pub(crate) fn access(security: &Security, callers: Option<Intent>) -> Result<ReadAccess, SecurityError> {
    let Some(path) = &security.access else {
        return Ok(ReadAccess::Shared(security.passphrase.as_ref().map(passphrase).transpose()?));
    };
    let shown = || path.display().to_string();
    let error = |error| SecurityError::File { key: "access", path: shown(), error };
    let text = Zeroizing::new(std::fs::read_to_string(path).map_err(error)?);
    let list = AccessList::parse(&text).map_err(|error| SecurityError::Access { path: shown(), error })?;
    Ok(ReadAccess::Table(match callers.or(security.callers) {
        Some(intent) => list.only(intent).into_table(),
        None => list.into_table(),
    }))
}

fn file(key: &'static str, path: &Path) -> Result<Zeroizing<Vec<u8>>, SecurityError> {
    let read = std::fs::read(path).map(Zeroizing::new);
    read.map_err(|error| SecurityError::File { key, path: path.display().to_string(), error })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_passphrase_is_one_line_of_a_file_or_a_variable() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pass");
        let read = || passphrase(&PassphraseSource::File(path.clone()));
        let said = |read: Result<Passphrase, SecurityError>| read.unwrap_err().to_string();
        let missing = said(read());
        assert!(missing.contains(path.to_str().unwrap()) && missing.contains("timeous passphrase --out"), "{missing}");
        for text in ["correct horse\n", "correct horse\r\n", "correct horse"] {
            fs::write(&path, text).unwrap();
            assert_eq!(read().unwrap(), Passphrase::derive("correct horse").unwrap());
        }
        fs::write(&path, "correct horse\nbattery").unwrap();
        assert!(said(read()).contains("more than one line"));
        fs::write(&path, "short\n").unwrap();
        let short = said(read());
        assert!(short.contains("less than 10") && short.contains(path.to_str().unwrap()), "{short}");
        assert!(said(passphrase(&PassphraseSource::Variable("TIMEOUS_NONE".to_owned()))).contains("env:TIMEOUS_NONE"));
        let variable = passphrase(&PassphraseSource::Variable("CARGO_MANIFEST_DIR".to_owned()));
        assert_eq!(variable.unwrap(), Passphrase::derive(env!("CARGO_MANIFEST_DIR")).unwrap());
    }

    #[test]
    fn files_of_certificates_are_named_where_they_are_wrong() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let (identity_made, chain, key) = Identity::with_pem(&["camera.example".to_owned()]).unwrap();
        fs::write(at("me.pem"), &chain).unwrap();
        fs::write(at("me.key"), key.as_bytes()).unwrap();
        let own = |certificate: &str, key: &str| Security {
            certificate: Some(at(certificate)),
            key: Some(at(key)),
            ..Security::default()
        };
        let read = identity(&own("me.pem", "me.key")).unwrap().unwrap();
        assert_eq!(read.fingerprint(), identity_made.fingerprint());
        let said = identity(&own("me.pem", "me.pem")).unwrap_err().to_string();
        assert!(said.contains("me.pem") && said.contains("private key"), "{said}");
        let said = identity(&own("none.pem", "me.key")).unwrap_err().to_string();
        assert!(said.contains("cert=") && said.contains("none.pem") && said.contains("timeous cert"), "{said}");
        let signed_by =
            |name: &str| trust(&Security { authorities: Some(Authorities::File(at(name))), ..Security::default() });
        assert!(matches!(signed_by("me.pem"), Ok(Trust::Authorities(authorities)) if authorities.len() == 1));
        assert!(signed_by("me.key").unwrap_err().to_string().contains("no certificate"));
        assert!(signed_by("none").unwrap_err().to_string().contains("ca=system"));
    }
}
