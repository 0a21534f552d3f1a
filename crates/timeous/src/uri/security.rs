//! Values of the keys of security.

use std::path::PathBuf;

use timeous_seal::{Fingerprint, MAX_STREAM_ID, MIN_PASSPHRASE};

use crate::security::{Authorities, PassphraseSource};

/// Reads where a passphrase comes from. The error does not show it.
pub(super) fn passphrase(value: &str) -> Result<PassphraseSource, String> {
    let expected = || {
        format!(
            "use file:PATH, env:NAME, or at least {MIN_PASSPHRASE} characters; `timeous passphrase --out FILE` makes one"
        )
    };
    match value.split_once(':') {
        Some(("file" | "env", "")) => Err(expected()),
        Some(("file", path)) => Ok(PassphraseSource::File(path.into())),
        Some(("env", name)) => Ok(PassphraseSource::Variable(name.to_owned())),
        _ if value.chars().count() < MIN_PASSPHRASE => Err(expected()),
        _ => Ok(PassphraseSource::bare(value)),
    }
}

pub(super) fn file(value: &str) -> Result<PathBuf, String> {
    if value.is_empty() { Err("use the path of a file".to_owned()) } else { Ok(value.into()) }
}

pub(super) fn authorities(value: &str) -> Result<Authorities, String> {
    match value {
        "system" => Ok(Authorities::System),
        path => file(path).map(Authorities::File).map_err(|_| "use system, or a PEM file".to_owned()),
    }
}

pub(super) fn fingerprint(value: &str) -> Result<Fingerprint, String> {
    value.parse().map_err(|error: timeous_seal::CredentialError| error.to_string())
}

pub(super) fn stream_id(value: &str) -> Result<String, String> {
    if (1..=MAX_STREAM_ID).contains(&value.len()) {
        Ok(value.to_owned())
    } else {
        Err(format!("use 1 to {MAX_STREAM_ID} bytes"))
    }
}

pub(super) fn encryption(value: &str) -> Result<bool, String> {
    match value {
        "off" => Ok(true),
        _ => Err("use off, or leave it out: any credential encrypts the stream".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uri::{Uri, UriError};

    const HEX: &str = "sha256:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a";

    fn parsed(uri: &str) -> crate::security::Security {
        uri.parse::<Uri>().unwrap().options.security
    }

    fn error(uri: &str) -> String {
        uri.parse::<Uri>().unwrap_err().to_string()
    }

    #[test]
    fn each_key_has_its_place() {
        let security =
            parsed(&format!("timeous://h?passphrase=file:a/b&cert=c&key=k&fingerprint={HEX}&streamid=cam 1"));
        assert_eq!(security.passphrase, Some(PassphraseSource::File("a/b".into())));
        assert_eq!((security.certificate, security.key), (Some("c".into()), Some("k".into())));
        assert_eq!(security.fingerprint.unwrap().to_string(), HEX);
        assert_eq!(security.stream_id.as_deref(), Some("cam 1"));
        let security = parsed("timeous://h?passphrase=env:NAME&ca=system");
        assert_eq!(security.passphrase, Some(PassphraseSource::Variable("NAME".to_owned())));
        assert_eq!(security.authorities, Some(Authorities::System));
        let security = parsed("timeous://:7000?access=list&cert=c&key=k&ca=a.pem");
        assert_eq!(security.access, Some("list".into()));
        assert_eq!(security.authorities, Some(Authorities::File("a.pem".into())));
        assert_eq!(
            parsed("timeous://h?passphrase=a:b-long-enough").passphrase,
            Some(PassphraseSource::bare("a:b-long-enough"))
        );
        let plain = parsed("timeous://h?encryption=off");
        assert!(plain.is_plain && !plain.has_credential());
        assert_eq!(parsed("timeous://h"), crate::security::Security::default());
    }

    #[test]
    fn a_wrong_passphrase_is_not_shown() {
        for uri in ["timeous://h?passphrase=sesame", "timeous://h?passphrase=sesame-long-enough&encryption=off"] {
            let error = uri.parse::<Uri>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("sesame"), "{error}");
        }
        let other = "srt://h?passphrase=sesame".parse::<Uri>().unwrap_err();
        assert!(!format!("{other} {other:?}").contains("sesame"), "{other}");
    }

    #[test]
    fn wrong_values_say_what_is_right() {
        assert!(error("timeous://h?passphrase=file:").contains("file:PATH"));
        assert!(error("timeous://h?passphrase=short").contains("at least 10"));
        assert!(error("timeous://h?ca=").contains("system"));
        assert!(error("timeous://h?cert=").contains("path"));
        assert!(error("timeous://h?fingerprint=sha256:12").contains("64 hexadecimal"));
        assert!(error("timeous://h?streamid=").contains("512"));
        assert!(error(&format!("timeous://h?streamid={}", "a".repeat(513))).contains("512"));
        assert!(error("timeous://h?encryption=on").contains("use off"));
    }

    #[test]
    fn contradictions_say_what_to_write() {
        for (uri, words) in [
            ("timeous://h?encryption=off&passphrase=file:a", "leave out encryption=off"),
            ("timeous://h?encryption=off&ca=system", "leave out encryption=off"),
            ("timeous://h?encryption=off&streamid=a", "leave out streamid"),
            ("timeous://h?key=k&passphrase=file:a", "cert and key"),
            ("timeous://:1?cert=c", "cert and key"),
            (&format!("timeous://:1?cert=c&key=k&fingerprint={HEX}"), "ca=FILE"),
            (&format!("timeous://h?ca=a&fingerprint={HEX}"), "leave out ca"),
            ("timeous://h?access=a", "for listeners"),
            ("timeous://:1?streamid=a&passphrase=file:a", "access=FILE"),
            ("timeous://:1?access=a&passphrase=file:a", "leave out passphrase"),
            ("timeous://:1?ca=system&cert=c&key=k", "file of your authority"),
            ("timeous://:1?ca=a", "add cert and key"),
            ("timeous://h?cert=c&key=k", "add fingerprint"),
            ("timeous://h?streamid=a", "add passphrase"),
        ] {
            let error = uri.parse::<Uri>().unwrap_err();
            assert!(matches!(error, UriError::Contradiction(_)), "{uri}: {error:?}");
            assert!(error.to_string().contains(words), "{uri}: {error}");
        }
    }

    #[test]
    fn what_cannot_be_encrypted_takes_no_credential() {
        for key in ["framing=rfc4571&transport=tcp", "framing=none&transport=tcp", "encap=none"] {
            for role in ["timeous://h", "timeous://:1"] {
                let error = error(&format!("{role}?passphrase=file:a&{key}"));
                assert!(error.contains("encryption=off"), "{error}");
                assert!(format!("{role}?encryption=off&{key}").parse::<Uri>().is_ok());
                assert!(format!("{role}?{key}").parse::<Uri>().is_ok());
            }
        }
        for key in ["daemon=auto", "daemon=/a/b", "transport=tcp", "transport=auto"] {
            assert!(format!("timeous://h?passphrase=file:a&{key}").parse::<Uri>().is_ok(), "{key}");
        }
    }
}
