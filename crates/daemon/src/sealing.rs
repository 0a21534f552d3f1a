//! Protection of a client's streams: its credential, handed over in parts, and the engine's settings from it.

use std::sync::Arc;

use timeous_engine::Sealing;
use timeous_ipc::messages::{self, CREDENTIAL_MAX, Credential, Failure, PART_MAX, PassphraseKey, Protection, Secret};
use timeous_seal::{
    Access, AccessTable, CallerCredential, CertificateDer, CredentialError, Fingerprint, Identity, Intent,
    ListenerCredential, Passphrase, SharedPassphrase, Trust,
};

/// Parts of a credential that no stream has taken yet. Erased when dropped.
#[derive(Debug, Default)]
pub(crate) struct CredentialParts {
    parts: Vec<Secret>,
    bytes: usize,
}

impl CredentialParts {
    /// Adds a part.
    pub(crate) fn add(&mut self, is_first: bool, part: Secret) -> Result<(), Failure> {
        if is_first {
            *self = Self::default();
        }
        self.bytes += part.bytes().len();
        // Small parts would take many times their bytes.
        if self.bytes > CREDENTIAL_MAX || self.parts.len() == CREDENTIAL_MAX.div_ceil(PART_MAX) {
            *self = Self::default();
            return Err(Failure::Invalid(format!("a credential has at most {CREDENTIAL_MAX} bytes")));
        }
        self.parts.push(part);
        Ok(())
    }

    /// Returns the number of bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Takes the credential, and returns the protection that a client asks for.
    pub(crate) fn take(&mut self, protection: Protection) -> Result<Sealing, Failure> {
        let Self { parts, .. } = std::mem::take(self);
        match protection {
            Protection::Local => Ok(Sealing::Local),
            Protection::Off => Ok(Sealing::Off),
            Protection::Sealed => {
                let credential =
                    Credential::from_parts(&parts).map_err(|error| Failure::Invalid(format!("credential: {error}")))?;
                sealing(&credential).map_err(|error| Failure::Invalid(error.to_string()))
            }
        }
    }
}

/// Makes the engine's credential, as the library does for streams of its own process.
fn sealing(credential: &Credential) -> Result<Sealing, CredentialError> {
    Ok(match credential {
        Credential::Caller(caller) => Sealing::Caller(of_caller(caller)?),
        Credential::Listener(listener) => Sealing::Listener(of_listener(listener)?),
    })
}

fn of_caller(caller: &messages::CallerCredential) -> Result<CallerCredential, CredentialError> {
    let trust = match &caller.trust {
        messages::Trust::Passphrase => Trust::Passphrase,
        messages::Trust::Authorities(authorities) => Trust::Authorities(certificates(authorities)),
        messages::Trust::Fingerprint(bytes) => Trust::Fingerprint(Fingerprint::from(*bytes)),
    };
    let passphrase = caller.passphrase.as_ref().map(passphrase);
    let identity = caller.identity.as_ref().map(identity).transpose()?;
    CallerCredential::new(&caller.host, &trust, passphrase, identity.as_ref(), intent(caller.publishes))?
        .with_stream_id(&caller.stream_id)
}

fn of_listener(listener: &messages::ListenerCredential) -> Result<ListenerCredential, CredentialError> {
    let identity = listener.identity.as_ref().map(identity).transpose()?;
    let authorities = listener.authorities.as_deref().map(certificates);
    ListenerCredential::new(identity.as_ref(), authorities.as_deref(), access(&listener.access))
}

fn access(access: &messages::Access) -> Arc<dyn Access> {
    match access {
        messages::Access::Shared(key) => Arc::new(SharedPassphrase(key.as_ref().map(passphrase))),
        messages::Access::Streams { grants, only_publish } => {
            let mut table = AccessTable::default();
            for grant in grants {
                table.grant(&grant.stream_id, intent(grant.publish), passphrase(&grant.passphrase));
            }
            Arc::new(match only_publish {
                Some(publish) => table.only(intent(*publish)),
                None => table,
            })
        }
    }
}

fn passphrase(key: &PassphraseKey) -> Passphrase {
    Passphrase::from_key(key.0)
}

fn intent(publishes: bool) -> Intent {
    if publishes { Intent::Publish } else { Intent::Play }
}

fn identity(identity: &messages::Identity) -> Result<Identity, CredentialError> {
    Identity::from_der(certificates(&identity.chain), identity.key.bytes())
}

fn certificates(der: &[Vec<u8>]) -> Vec<CertificateDer<'static>> {
    der.iter().cloned().map(CertificateDer::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(trust: messages::Trust) -> Credential {
        Credential::Caller(messages::CallerCredential {
            host: "camera.example".to_owned(),
            trust,
            passphrase: Some(PassphraseKey([0xab; 32])),
            identity: None,
            publishes: true,
            stream_id: String::new(),
        })
    }

    fn given(credential: &Credential) -> CredentialParts {
        let mut given = CredentialParts::default();
        for (at, part) in credential.parts().unwrap().into_iter().enumerate() {
            given.add(at == 0, part).unwrap();
        }
        given
    }

    #[test]
    fn a_credential_is_taken_once() {
        let mut parts = given(&caller(messages::Trust::Passphrase));
        assert!(matches!(parts.take(Protection::Sealed), Ok(Sealing::Caller(_))));
        assert!(matches!(parts.take(Protection::Sealed), Err(Failure::Invalid(_))));
        let mut parts = given(&caller(messages::Trust::Passphrase));
        assert!(matches!(parts.take(Protection::Local), Ok(Sealing::Local)));
        assert!(matches!(parts.take(Protection::Sealed), Err(Failure::Invalid(_))));
    }

    #[test]
    fn a_first_part_begins_anew() {
        let mut parts = given(&caller(messages::Trust::Authorities(vec![vec![0; 9_000]])));
        for (at, part) in caller(messages::Trust::Fingerprint([1; 32])).parts().unwrap().into_iter().enumerate() {
            parts.add(at == 0, part).unwrap();
        }
        assert!(matches!(parts.take(Protection::Sealed), Ok(Sealing::Caller(_))));
    }

    #[test]
    fn a_credential_without_end_is_refused_and_forgotten() {
        for len in [1, PART_MAX] {
            let mut parts = CredentialParts::default();
            let part = Secret::new(&vec![0; len]);
            let added = (0..CREDENTIAL_MAX).take_while(|_| parts.add(false, part.clone()).is_ok()).count();
            assert!(added <= CREDENTIAL_MAX.div_ceil(PART_MAX), "{added} parts of {len} bytes");
            assert!(parts.parts.is_empty());
        }
    }

    #[test]
    fn a_credential_that_cannot_be_used_is_told_without_its_secrets() {
        let key = Secret::new(&[0xab; 40]);
        let listener = |identity, authorities| {
            let access = messages::Access::Shared(Some(PassphraseKey([0xab; 32])));
            Credential::Listener(messages::ListenerCredential { identity, authorities, access })
        };
        for credential in [
            caller(messages::Trust::Authorities(vec![vec![1, 2, 3]])),
            listener(Some(messages::Identity { chain: vec![vec![1, 2, 3]], key }), None),
            listener(None, Some(Vec::new())),
        ] {
            let mut parts = given(&credential);
            assert!(!format!("{parts:?}").contains("171"), "{parts:?}");
            let failure = parts.take(Protection::Sealed).unwrap_err();
            assert!(matches!(&failure, Failure::Invalid(words) if !words.contains("171")), "{failure}");
        }
    }
}
