//! Credential of a stream that the daemon encrypts: read by the client, so that the daemon opens no file on its behalf.
//!
//! It is handed over in parts ([`Call::Credential`](super::Call::Credential)) before the call that opens the stream.
//! Passphrases are given as their derived keys, which takes the client 50 ms each, and the daemon nothing.

use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::codec::{CREDENTIAL_MAX, Checked, Malformed, decode, encode_erased, sensible, text};

/// Maximum part of a credential, in bytes: with what is around it, it fits into a packet to the daemon.
pub const PART_MAX: usize = (4 << 10) - 64;
/// Maximum name of a host, in bytes (RFC 1035 §2.3.4).
const HOST_MAX: usize = 255;
/// Maximum stream ID, in bytes.
const STREAM_ID_MAX: usize = 512;

/// Protection of a stream's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protection {
    /// None, with peers on the same host only: others are refused.
    #[default]
    Local,
    /// None, with any peer.
    Off,
    /// Encryption, by the [`Credential`] that the client has handed over before.
    Sealed,
}

/// Bytes that are erased when dropped, and never shown.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, Zeroize, ZeroizeOnDrop)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Copies bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    /// Returns the bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Derived key of a passphrase. Erased when dropped, and never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Zeroize, ZeroizeOnDrop)]
pub struct PassphraseKey(pub [u8; 32]);

impl fmt::Debug for PassphraseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PassphraseKey(..)")
    }
}

/// Credential of a caller or of a listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Credential {
    /// Of a call.
    Caller(CallerCredential),
    /// Of a listener.
    Listener(ListenerCredential),
}

/// Credential of a call.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallerCredential {
    /// Name or address of the listener, for its certificate; at most 255 bytes.
    pub host: String,
    /// Certificates of the listener that are trusted.
    pub trust: Trust,
    /// Passphrase, if there is one.
    pub passphrase: Option<PassphraseKey>,
    /// Certificate and private key of this end, if it has them.
    pub identity: Option<Identity>,
    /// Whether the caller asks to send; otherwise, to receive.
    pub publishes: bool,
    /// Stream that is called, or empty; at most 512 bytes.
    pub stream_id: String,
}

/// Certificates of a listener that a caller trusts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trust {
    /// Any: both ends prove the passphrase.
    Passphrase,
    /// Those for the listener's name that one of these authorities (certificates in DER) has signed.
    Authorities(Vec<Vec<u8>>),
    /// The one with this SHA-256.
    Fingerprint([u8; 32]),
}

/// Certificate and private key of an end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Certificates in DER, the end's own first.
    pub chain: Vec<Vec<u8>>,
    /// Private key in DER.
    pub key: Secret,
}

/// Credential of a listener.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerCredential {
    /// Certificate and private key, if it has them.
    pub identity: Option<Identity>,
    /// Authorities (certificates in DER) of which one must have signed the certificate of each caller; `None`: callers need none.
    pub authorities: Option<Vec<Vec<u8>>>,
    /// Access of callers.
    pub access: Access,
}

/// Access of callers, as far as it is data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// One passphrase for all streams; `None`: no passphrase is asked for.
    Shared(Option<PassphraseKey>),
    /// Grants by stream.
    Streams {
        /// The grants.
        grants: Vec<Grant>,
        /// The only direction that is admitted, if not both: whether callers send.
        only_publish: Option<bool>,
    },
}

/// Passphrase for one direction of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Stream, `*` for all without a grant of their own; at most 512 bytes.
    pub stream_id: String,
    /// Whether it is for callers that send; otherwise, for those that receive.
    pub publish: bool,
    /// Passphrase.
    pub passphrase: PassphraseKey,
}

impl fmt::Debug for CallerCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallerCredential").field("host", &self.host).finish_non_exhaustive()
    }
}

impl fmt::Debug for ListenerCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerCredential").finish_non_exhaustive()
    }
}

impl Credential {
    /// Encodes it and divides it into the parts of [`Call::Credential`](super::Call::Credential).
    ///
    /// # Errors
    /// A field is invalid, or all of it is too long.
    pub fn parts(&self) -> Result<Vec<Secret>, Malformed> {
        self.check()?;
        let bytes = encode_erased(self);
        if bytes.len() > CREDENTIAL_MAX {
            return Err(Malformed::LongCredential(bytes.len()));
        }
        Ok(bytes.chunks(PART_MAX).map(Secret::new).collect())
    }

    /// Decodes the parts in their order.
    ///
    /// # Errors
    /// They are no credential.
    pub fn from_parts(parts: &[Secret]) -> Result<Self, Malformed> {
        // Of the final size, since growth would leave copies behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(parts.iter().map(|part| part.0.len()).sum()));
        parts.iter().for_each(|part| bytes.extend_from_slice(&part.0));
        decode(&bytes)
    }
}

impl Checked for Credential {
    fn check(&self) -> Result<(), Malformed> {
        match self {
            Self::Caller(CallerCredential { host, stream_id, .. }) => {
                text(host, HOST_MAX)?;
                text(stream_id, STREAM_ID_MAX)
            }
            Self::Listener(ListenerCredential { access: Access::Streams { grants, .. }, .. }) => {
                grants.iter().try_for_each(|grant| text(&grant.stream_id, STREAM_ID_MAX))
            }
            Self::Listener(_) => Ok(()),
        }
    }
}

impl Secret {
    pub(super) fn check_part(&self) -> Result<(), Malformed> {
        sensible((1..=PART_MAX).contains(&self.0.len()), "part of a credential")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Call, TO_DAEMON_MAX, ToDaemon, encode};
    use super::*;

    fn identity() -> Identity {
        Identity { chain: vec![vec![7; 3_000], vec![8; 2_000]], key: Secret::new(&[0xab; 1_200]) }
    }

    fn caller() -> CallerCredential {
        CallerCredential {
            host: "camera.example".to_owned(),
            trust: Trust::Authorities(vec![vec![9; 900]]),
            passphrase: Some(PassphraseKey([0xab; 32])),
            identity: Some(identity()),
            publishes: true,
            stream_id: "camera 1".to_owned(),
        }
    }

    fn listener(grants: usize) -> ListenerCredential {
        let grant = |at: usize| Grant {
            stream_id: format!("camera {at}"),
            publish: at.is_multiple_of(2),
            passphrase: PassphraseKey([at as u8; 32]),
        };
        let access = Access::Streams { grants: (0..grants).map(grant).collect(), only_publish: Some(true) };
        ListenerCredential { identity: Some(identity()), authorities: Some(vec![vec![9; 900]]), access }
    }

    #[test]
    fn a_credential_arrives_whole_in_parts_that_fit_into_a_packet() {
        for credential in [Credential::Caller(caller()), Credential::Listener(listener(500))] {
            let parts = credential.parts().unwrap();
            assert!(parts.len() > 1);
            for part in &parts {
                let call = Call::Credential { is_first: false, part: part.clone() };
                let packet = encode(&ToDaemon::Call { id: u32::MAX, call: call.clone() });
                assert!(packet.len() <= TO_DAEMON_MAX, "{}", packet.len());
                assert_eq!(decode(&packet), Ok(ToDaemon::Call { id: u32::MAX, call }));
            }
            assert_eq!(Credential::from_parts(&parts), Ok(credential));
            assert!(Credential::from_parts(&parts[1..]).is_err());
        }
    }

    #[test]
    fn what_is_too_long_is_told_by_its_sender() {
        assert!(matches!(Credential::Listener(listener(20_000)).parts(), Err(Malformed::LongCredential(_))));
        let long = |stream_id: String| Credential::Caller(CallerCredential { stream_id, ..caller() }).parts();
        assert!(long("a".repeat(512)).is_ok());
        assert_eq!(long("a".repeat(513)), Err(Malformed::TooLong { len: 513, max: 512 }));
    }

    #[test]
    fn no_secret_is_shown() {
        let (caller, listener) = (Credential::Caller(caller()), Credential::Listener(listener(3)));
        let call = ToDaemon::Call {
            id: 1,
            call: Call::Credential { is_first: true, part: caller.parts().unwrap().remove(0) },
        };
        // The keys' bytes, and the stream ID, which travels encrypted.
        let shown = format!("{caller:?} {listener:?} {call:?} {:?} {:?}", identity(), PassphraseKey([0xab; 32]));
        for secret in ["171", "ab", "AB", "camera 1"] {
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
    }
}
