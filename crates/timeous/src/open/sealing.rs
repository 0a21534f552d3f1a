//! Protection of a stream, as the engine takes it: from the options of its URI, and the files that they name.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use timeous_engine::Sealing;
use timeous_seal::{Access, CallerCredential, CertificateDer, Identity, Intent, ListenerCredential, Passphrase, Trust};

use crate::error::Error;
use crate::options::Options;
use crate::security::{Authorities, SecurityError, read};

/// Protection of a call of `host`.
pub(super) fn of_caller(options: &Options, host: &str, intent: Intent) -> Result<Sealing, Error> {
    if !options.security.has_credential() {
        return Ok(unsealed(options));
    }
    caller(options, host, intent).map(Sealing::Caller).map_err(Error::from)
}

/// Protection of a listener; `callers`: see [`Security::callers`](crate::Security::callers).
pub(super) fn of_listener(options: &Options, callers: Option<Intent>) -> Result<Sealing, Error> {
    if !options.security.has_credential() {
        return Ok(unsealed(options));
    }
    listener(options, callers).map(Sealing::Listener).map_err(Error::from)
}

fn unsealed(options: &Options) -> Sealing {
    if options.security.is_plain { Sealing::Off } else { Sealing::Local }
}

/// Credential of a call, as read from the places that the options name.
pub(super) struct CallerParts {
    pub(super) trust: Trust,
    pub(super) passphrase: Option<Passphrase>,
    pub(super) identity: Option<Identity>,
}

impl CallerParts {
    pub(super) fn read(options: &Options) -> Result<Self, SecurityError> {
        let security = &options.security;
        let passphrase = security.passphrase.as_ref().map(read::passphrase).transpose()?;
        Ok(Self { passphrase, trust: read::trust(security)?, identity: read::identity(security)? })
    }

    pub(super) fn credential(
        &self,
        options: &Options,
        host: &str,
        intent: Intent,
    ) -> Result<CallerCredential, SecurityError> {
        let stream_id = options.security.stream_id.as_deref().unwrap_or_default();
        CallerCredential::new(host, &self.trust, self.passphrase.clone(), self.identity.as_ref(), intent)
            .and_then(|credential| credential.with_stream_id(stream_id))
            .map_err(|error| SecurityError::Credential { from: format!("calling {host}"), error })
    }
}

/// Credential of a listener, as read from the places that the options name, apart from access.
pub(super) struct ListenerParts {
    pub(super) identity: Option<Identity>,
    pub(super) authorities: Option<Vec<CertificateDer<'static>>>,
}

impl ListenerParts {
    pub(super) fn read(options: &Options) -> Result<Self, SecurityError> {
        let security = &options.security;
        let authorities = match &security.authorities {
            Some(Authorities::File(path)) => Some(read::authorities(path)?),
            _ => None,
        };
        Ok(Self { identity: read::identity(security)?, authorities })
    }

    pub(super) fn credential(&self, access: Arc<dyn Access>) -> Result<ListenerCredential, SecurityError> {
        ListenerCredential::new(self.identity.as_ref(), self.authorities.as_deref(), access)
            .map_err(|error| SecurityError::Credential { from: "listening".to_owned(), error })
    }
}

fn caller(options: &Options, host: &str, intent: Intent) -> Result<CallerCredential, SecurityError> {
    CallerParts::read(options)?.credential(options, host, intent)
}

fn listener(options: &Options, callers: Option<Intent>) -> Result<ListenerCredential, SecurityError> {
    let security = &options.security;
    let access = match &security.own_access {
        Some(own) => own.0.clone(),
        None => read::access(security, callers)?.into(),
    };
    ListenerParts::read(options)?.credential(access)
}

/// Checks that a call is encrypted, goes to this host, or may go without protection.
pub(super) fn check_call(options: &Options, remote: SocketAddr) -> Result<(), Error> {
    if options.security.has_credential() || takes_plain(options, remote.ip()) {
        return Ok(());
    }
    Err(SecurityError::Unprotected { remote, unsealable: options.unsealable() }.into())
}

/// Whether an end without credential speaks with this peer.
pub(super) fn takes_plain(options: &Options, peer: IpAddr) -> bool {
    options.security.is_plain || peer.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use timeous_seal::{Admission, Call};

    use super::*;
    use crate::uri::Uri;

    fn options(uri: &str) -> Options {
        uri.parse::<Uri>().unwrap().options
    }

    #[test]
    fn each_credential_is_made_into_the_engines() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).display().to_string();
        let (identity, chain, key) = Identity::with_pem(&["camera.example".to_owned()]).unwrap();
        fs::write(at("me.pem"), chain).unwrap();
        fs::write(at("me.key"), key.as_bytes()).unwrap();
        fs::write(at("pass"), "correct-horse-1\n").unwrap();
        fs::write(at("list"), "camera1 both correct-horse-1\n").unwrap();
        let (own, pass) =
            (format!("cert={}&key={}", at("me.pem"), at("me.key")), format!("passphrase=file:{}", at("pass")));
        for query in [
            pass.clone(),
            format!("{pass}&streamid=camera1"),
            format!("fingerprint={}", identity.fingerprint()),
            format!("ca={}&{own}", at("me.pem")),
            format!("{pass}&{own}"),
        ] {
            let made = caller(&options(&format!("timeous://camera.example?{query}")), "camera.example", Intent::Play);
            assert!(made.is_ok(), "{query}: {made:?}");
        }
        for query in [pass, own.clone(), format!("access={}", at("list")), format!("{own}&ca={}", at("me.pem"))] {
            let made = listener(&options(&format!("timeous://:7000?{query}")), None);
            assert!(made.is_ok(), "{query}: {made:?}");
        }
        for host in ["192.0.2.1", "2001:db8::1", "camera.example"] {
            let options = options(&format!("timeous://h?fingerprint={}", identity.fingerprint()));
            assert!(caller(&options, host, Intent::Publish).is_ok(), "{host}");
        }
    }

    #[test]
    fn a_wrong_access_file_is_named_with_its_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list");
        fs::write(&path, "# cameras\ncamera1 correct-horse-1 both").unwrap();
        let said =
            listener(&options(&format!("timeous://:7000?access={}", path.display())), None).unwrap_err().to_string();
        assert!(said.contains(&format!("access={}, line 2", path.display())), "{said}");
        assert!(!said.contains("horse"), "{said}");
    }

    #[test]
    fn an_application_decides_by_itself() {
        #[derive(Debug)]
        struct Nobody;
        impl timeous_seal::Access for Nobody {
            fn admit(&self, _: &Call<'_>) -> Admission {
                Admission::With(Passphrase::from_key([7; 32]))
            }
        }
        let uri = "timeous://:7000".parse::<Uri>().unwrap().with_access(Nobody);
        assert_eq!(uri, uri.clone());
        let made = listener(&uri.options, None).unwrap();
        assert!(format!("{made:?}").contains("Nobody"), "{made:?}");
    }

    #[test]
    fn without_a_credential_a_stream_stays_on_this_host() {
        for (uri, remote, goes) in [
            ("timeous://h", "127.0.0.2:1", true),
            ("timeous://h", "[::1]:1", true),
            ("timeous://h", "[::ffff:127.0.0.1]:1", true),
            ("timeous://h", "192.0.2.1:1", false),
            ("timeous://h", "[fe80::1]:1", false),
            ("timeous://h?encryption=off", "192.0.2.1:1", true),
            ("timeous://h?ca=system", "192.0.2.1:1", true),
        ] {
            assert_eq!(check_call(&options(uri), remote.parse().unwrap()).is_ok(), goes, "{uri} {remote}");
        }
        assert!(matches!(of_listener(&options("timeous://:1"), None), Ok(Sealing::Local)));
        assert!(matches!(of_listener(&options("timeous://:1?encryption=off"), None), Ok(Sealing::Off)));
        assert!(matches!(of_caller(&options("timeous://h"), "h", Intent::Play), Ok(Sealing::Local)));
    }
}
