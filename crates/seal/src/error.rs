//! Errors, by culprit: our own credentials, or a call that failed.

/// Reason why a credential cannot be used. The caller's to mend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    /// The passphrase is too short.
    #[error("the passphrase has less than {} characters: `timeous passphrase` makes a good one", crate::MIN_PASSPHRASE)]
    ShortPassphrase,
    /// A file that should hold certificates or a key does not.
    #[error("{0}")]
    Pem(String),
    /// Certificate and key cannot be used.
    #[error("the certificate cannot be used with this key: {0}")]
    Identity(String),
    /// Trusted certificates cannot be used.
    #[error("no certificate authority can be used: {0}")]
    Authorities(String),
    /// Not a fingerprint.
    #[error("a fingerprint is sha256: and 64 hexadecimal digits; `timeous cert` prints it")]
    Fingerprint,
    /// Not a host name that a certificate could carry.
    #[error("{0:?} is not a host name that a certificate could carry")]
    Name(String),
    /// The stream ID is too long.
    #[error("a stream ID has at most 512 bytes")]
    LongStreamId,
}

/// Fault of the peer's certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateFault {
    /// No trusted authority has signed it.
    #[error("no authority that we trust has signed it: name one with ca=FILE, or its fingerprint=")]
    Untrusted,
    /// It is for another name.
    #[error("it is for another host: {0}")]
    Name(String),
    /// It is past its end, or before its start.
    #[error("it is {0} by this machine's clock: check the clock, or renew the certificate")]
    Clock(&'static str),
    /// It is not the one whose fingerprint we were given.
    #[error("its fingerprint is another, {0}")]
    Fingerprint(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// Reason why a sealed call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The peer did not answer in time.
    #[error("the peer does not answer: is it there, and is this its port?")]
    NoAnswer,
    /// No program has the peer's port: an ICMP message said so.
    #[error("connection refused: nobody listens there")]
    Unreachable,
    /// The peer takes no encrypted streams.
    #[error("the peer does not encrypt: give it a credential, or call it with encryption=off")]
    PeerIsPlain,
    /// The peer takes no plain streams from us: it encrypts, or has no credential and serves its own host only.
    #[error("the peer takes no stream without encryption: give both ends a credential, or encryption=off")]
    EncryptionWanted,
    /// The passphrases differ; told by the listener.
    #[error("wrong passphrase")]
    WrongPassphrase,
    /// The peer could not prove that it knows our passphrase, though it accepted our proof: it is not who we think.
    #[error("the peer does not know the passphrase: somebody may answer in its place")]
    PeerWithoutPassphrase,
    /// The listener wants a passphrase, and we have none.
    #[error("the listener wants a passphrase: give passphrase=")]
    PassphraseWanted,
    /// We have a passphrase, and the listener none to compare it with.
    #[error("the listener has no passphrase: leave passphrase= out, and name its ca= or fingerprint=")]
    NoPassphraseThere,
    /// The listener knows no such stream.
    #[error("the listener knows no stream {0:?}")]
    UnknownStream(String),
    /// The listener's access list does not allow this.
    #[error("the listener refuses: {0}")]
    NotAllowed(String),
    /// The peer's certificate is not trusted.
    #[error("the peer's certificate is not trusted: {0}")]
    Certificate(CertificateFault),
    /// The peer does not trust our certificate, or wants one.
    #[error("the peer refuses our certificate ({0}): give cert= and key= of one that its ca= has signed")]
    OurCertificate(String),
    /// The peer broke the handshake's rules.
    #[error("the peer's handshake is not understood: {0}")]
    Protocol(String),
    /// The peer has lost the keys: it was restarted.
    #[error("the peer has lost the keys of this stream: it was restarted")]
    Forgotten,
    /// The integrity limit of the cipher is reached: too many packets failed authentication (RFC 9001 §6.6).
    #[error("too many forged or damaged packets for the keys of this stream: call again")]
    IntegrityLimit,
}

impl SealError {
    /// Returns whether the listener has refused the call: it would refuse it again, and over any transport.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::WrongPassphrase
                | Self::PassphraseWanted
                | Self::NoPassphraseThere
                | Self::UnknownStream(_)
                | Self::NotAllowed(_)
        )
    }
}
