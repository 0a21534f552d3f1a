//! Contradictions among the options of a stream's security, and transports that cannot be encrypted.

use timeous_engine::TcpFraming;

use super::{Daemon, Encapsulation, Options};
use crate::security::{Authorities, Security};

impl Options {
    /// Checks the options of security for a listener, or a caller; the error says what to write.
    pub(crate) fn check_security(&self, listens: bool) -> Result<(), &'static str> {
        let security = &self.security;
        if security.is_plain {
            return without_encryption(security);
        }
        if security.certificate.is_some() != security.key.is_some() {
            return Err("cert and key belong together: add the missing one (`timeous cert` makes both)");
        }
        if security.own_access.is_some() && matches!(self.daemon, Daemon::At(_)) {
            return Err(
                "an access check of one's own runs in this process, and the daemon's streams in the daemon's: \
                 leave out daemon, or write access=FILE",
            );
        }
        if listens {
            of_listener(security)?;
        } else {
            of_caller(security)?;
        }
        match self.unsealable() {
            Some(reason) if security.has_credential() => Err(reason),
            _ => Ok(()),
        }
    }

    /// Reason why a stream with these options cannot be encrypted, with what to write.
    pub(crate) fn unsealable(&self) -> Option<&'static str> {
        match self {
            Self { framing: TcpFraming::Rfc4571, .. } => {
                Some("framing=rfc4571 carries no encryption: leave out framing, or write encryption=off")
            }
            Self { framing: TcpFraming::None, .. } => {
                Some("framing=none carries no encryption: leave out framing, or write encryption=off")
            }
            Self { encapsulation: Encapsulation::None, .. } => {
                Some("encap=none carries no encryption: leave out encap, or write encryption=off")
            }
            _ => None,
        }
    }
}

fn without_encryption(security: &Security) -> Result<(), &'static str> {
    if security.has_credential() {
        return Err("a credential encrypts the stream: leave out encryption=off, or the credential");
    }
    if security.stream_id.is_some() {
        return Err(
            "a stream ID travels encrypted only: leave out encryption=off and add a passphrase, or leave out streamid",
        );
    }
    Ok(())
}

fn of_listener(security: &Security) -> Result<(), &'static str> {
    if security.fingerprint.is_some() {
        return Err("fingerprint is for callers: at a listener, ca=FILE tells which certificates callers must show");
    }
    if security.stream_id.is_some() {
        return Err("streamid is for callers: a listener has a line for each stream in access=FILE");
    }
    if security.authorities == Some(Authorities::System) {
        return Err("with ca=system any owner of a web site's certificate could call: name the file of your authority");
    }
    if security.passphrase.is_some() && security.access.is_some() {
        return Err("the access file has the passphrases: leave out passphrase, or write a line `* both PASSPHRASE`");
    }
    if security.own_access.is_some() && (security.passphrase.is_some() || security.access.is_some()) {
        return Err("an access check of one's own takes the place of a list: leave out passphrase and access");
    }
    let is_known = security.certificate.is_some() || security.own_access.is_some();
    if security.authorities.is_some() && !is_known && security.passphrase.is_none() && security.access.is_none() {
        return Err("callers cannot tell who listens: add cert and key (`timeous cert` makes both), or passphrase");
    }
    Ok(())
}

fn of_caller(security: &Security) -> Result<(), &'static str> {
    if security.access.is_some() || security.own_access.is_some() {
        return Err("access is for listeners: a caller has passphrase, and streamid if the listener asks for one");
    }
    if security.fingerprint.is_some() && security.authorities.is_some() {
        return Err("fingerprint names the one certificate that is trusted: leave out ca, or fingerprint");
    }
    let tells_listener =
        security.passphrase.is_some() || security.fingerprint.is_some() || security.authorities.is_some();
    if security.certificate.is_some() && !tells_listener {
        return Err("a caller has to know the listener, too: add fingerprint, ca, or passphrase");
    }
    if security.stream_id.is_some() && !tells_listener {
        return Err("a stream ID travels encrypted only: add passphrase, fingerprint or ca");
    }
    Ok(())
}
