//! Contradictions among the options of a stream: keys of its URI that exclude each other, do nothing, or need another one.

use timeous_engine::{Ccid, TcpFraming, Unordered};

use super::{Daemon, Encapsulation, Options, TransportName};
use crate::policy::{DbatSettings, PolicyName};
use crate::security::{Authorities, Security};

/// Keys that name a credential, or say that there is none.
pub(crate) const CREDENTIALS: &[&str] = &["encryption", "passphrase", "cert", "key", "ca", "fingerprint", "access"];

/// Keys of transports that carry no encryption.
const UNSEALABLE: &[&str] = &["framing", "encap"];

/// Options that exclude each other, do nothing, or need another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{advice}")]
#[non_exhaustive]
pub struct Contradiction {
    /// Keys of the URI that the rule is about. Not all of them need be in it.
    pub keys: &'static [&'static str],
    /// The rule, and what to write.
    pub advice: &'static str,
}

impl Contradiction {
    pub(crate) const fn new(keys: &'static [&'static str], advice: &'static str) -> Self {
        Self { keys, advice }
    }
}

/// Rule on options: whether they break it, its keys, and what to write.
type Rule = (bool, &'static [&'static str], &'static str);

fn check(rules: &[Rule]) -> Result<(), Contradiction> {
    let broken = rules.iter().find(|(is_broken, ..)| *is_broken);
    broken.map_or(Ok(()), |(_, keys, advice)| Err(Contradiction::new(keys, advice)))
}

impl Options {
    /// Checks that settings of a policy come with it.
    pub(crate) fn check_policy(&self) -> Result<(), Contradiction> {
        let policy = self.chooses_by();
        check(&[
            (
                self.dbat != DbatSettings::default() && policy != PolicyName::Dbat,
                &["policy", "marked", "overfull", "mindelay", "maxth"],
                "marked, overfull, mindelay and maxth are settings of policy=dbat: add it",
            ),
            (
                !self.weights.is_empty() && policy != PolicyName::Plan,
                &["policy", "weights"],
                "weights are of policy=plan: add it, or leave weights out",
            ),
            (
                self.age.is_some() && policy != PolicyName::Age,
                &["policy", "age"],
                "age is of policy=age: add it, or leave age out",
            ),
            (
                self.queue.is_some() && policy != PolicyName::Frames,
                &["policy", "queue"],
                "queue is of policy=frames: leave out policy or queue",
            ),
        ])
    }

    /// Checks the options of the transport for a listener, or a caller.
    pub(crate) fn check_transport(&self, listens: bool) -> Result<(), Contradiction> {
        let [is_dccp, is_tcp, is_auto] =
            [TransportName::Dccp, TransportName::Tcp, TransportName::Auto].map(|name| self.transport == name);
        let has_records = self.framing == TcpFraming::Records;
        let is_ccid2 = self.ccid == Ccid::Ccid2;
        let must_be_unordered = self.unordered == Unordered::Require;
        let is_in_ip = self.encapsulation == Encapsulation::None;
        check(&[
            (
                is_tcp && !is_ccid2,
                &["transport", "ccid"],
                "ccid is of DCCP: leave out ccid or transport, or name a controller",
            ),
            (
                !is_dccp && matches!(self.daemon, Daemon::At(_)),
                &["transport", "daemon"],
                "the daemon runs streams over DCCP only: leave out transport or daemon",
            ),
            (
                is_auto && !has_records,
                &["transport", "framing"],
                "transport=auto has records over TCP: leave out framing",
            ),
            (
                is_dccp && self.framing == TcpFraming::None,
                &["transport", "framing"],
                "a plain byte stream needs TCP: leave out framing, or add transport=tcp",
            ),
            (
                must_be_unordered && is_dccp,
                &["transport", "unordered"],
                "DCCP delivers as packets come: leave out unordered, or add transport=tcp",
            ),
            (
                must_be_unordered && !has_records,
                &["framing", "unordered"],
                "only records can be read out of order: leave out framing or unordered",
            ),
            (!is_dccp && is_in_ip, &["transport", "encap"], "encap=none is DCCP: leave out transport or encap"),
            (
                self.controller.is_some() && !is_tcp && !is_ccid2,
                &["ccid", "controller"],
                "with ccid=3 and 4 the receiver decides on the rate: leave out ccid or controller",
            ),
            (
                self.local.is_some() && listens,
                &["local"],
                "a listener's address stands in front of the port: write it there, not as local",
            ),
            (
                self.local.is_some() && is_in_ip,
                &["local", "encap"],
                "with encap=none the address is the route's own: leave out local or encap",
            ),
        ])
    }

    /// Checks the options of security for a listener, or a caller; the error says what to write.
    pub(crate) fn check_security(&self, listens: bool) -> Result<(), Contradiction> {
        let security = &self.security;
        if security.is_plain {
            return without_encryption(security);
        }
        if security.certificate.is_some() != security.key.is_some() {
            let advice = "cert and key belong together: add the missing one (`timeous cert` makes both)";
            return Err(Contradiction::new(&["cert", "key"], advice));
        }
        if security.own_access.is_some() && matches!(self.daemon, Daemon::At(_)) {
            return Err(Contradiction::new(
                &["daemon", "access"],
                "an access check of one's own runs in this process, and the daemon's streams in the daemon's: \
                 leave out daemon, or write access=FILE",
            ));
        }
        if listens {
            of_listener(security)?;
        } else {
            of_caller(security)?;
        }
        match self.unsealable() {
            Some(advice) if security.has_credential() => Err(Contradiction::new(UNSEALABLE, advice)),
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

fn without_encryption(security: &Security) -> Result<(), Contradiction> {
    if security.has_credential() {
        return Err(Contradiction::new(
            CREDENTIALS,
            "a credential encrypts the stream: leave out encryption=off, or the credential",
        ));
    }
    if security.stream_id.is_some() {
        return Err(Contradiction::new(
            &["encryption", "streamid"],
            "a stream ID travels encrypted only: leave out encryption=off and add a passphrase, or leave out streamid",
        ));
    }
    Ok(())
}

fn of_listener(security: &Security) -> Result<(), Contradiction> {
    if security.fingerprint.is_some() {
        return Err(Contradiction::new(
            &["fingerprint"],
            "fingerprint is for callers: at a listener, ca=FILE tells which certificates callers must show",
        ));
    }
    if security.stream_id.is_some() {
        return Err(Contradiction::new(
            &["streamid"],
            "streamid is for callers: a listener has a line for each stream in access=FILE",
        ));
    }
    if security.authorities == Some(Authorities::System) {
        return Err(Contradiction::new(
            &["ca"],
            "with ca=system any owner of a web site's certificate could call: name the file of your authority",
        ));
    }
    if security.passphrase.is_some() && security.access.is_some() {
        return Err(Contradiction::new(
            &["passphrase", "access"],
            "the access file has the passphrases: leave out passphrase, or write a line `* both PASSPHRASE`",
        ));
    }
    if security.own_access.is_some() && (security.passphrase.is_some() || security.access.is_some()) {
        return Err(Contradiction::new(
            &["passphrase", "access"],
            "an access check of one's own takes the place of a list: leave out passphrase and access",
        ));
    }
    let is_known = security.certificate.is_some() || security.own_access.is_some();
    if security.authorities.is_some() && !is_known && security.passphrase.is_none() && security.access.is_none() {
        return Err(Contradiction::new(
            &["ca", "cert", "key", "passphrase"],
            "callers cannot tell who listens: add cert and key (`timeous cert` makes both), or passphrase",
        ));
    }
    Ok(())
}

fn of_caller(security: &Security) -> Result<(), Contradiction> {
    if security.access.is_some() || security.own_access.is_some() {
        return Err(Contradiction::new(
            &["access"],
            "access is for listeners: a caller has passphrase, and streamid if the listener asks for one",
        ));
    }
    if security.fingerprint.is_some() && security.authorities.is_some() {
        return Err(Contradiction::new(
            &["ca", "fingerprint"],
            "fingerprint names the one certificate that is trusted: leave out ca, or fingerprint",
        ));
    }
    let tells_listener =
        security.passphrase.is_some() || security.fingerprint.is_some() || security.authorities.is_some();
    if security.certificate.is_some() && !tells_listener {
        return Err(Contradiction::new(
            &["cert", "key", "fingerprint", "ca", "passphrase"],
            "a caller has to know the listener, too: add fingerprint, ca, or passphrase",
        ));
    }
    if security.stream_id.is_some() && !tells_listener {
        return Err(Contradiction::new(
            &["streamid", "passphrase", "fingerprint", "ca"],
            "a stream ID travels encrypted only: add passphrase, fingerprint or ca",
        ));
    }
    Ok(())
}
