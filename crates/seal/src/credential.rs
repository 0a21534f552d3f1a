//! Credentials of a caller and of a listener: proofs of its own, and demands on the peer.

use std::fmt;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::access::{Access, Intent};
use crate::error::CredentialError;
use crate::identity::{Fingerprint, Identity};
use crate::passphrase::Passphrase;
use crate::proof::MAX_STREAM_ID;
use crate::verifier::PinnedCertificate;

/// Application protocol in the handshake (ALPN, RFC 7301): nothing else takes such a call.
const PROTOCOL: &[u8] = b"timeous/1";

/// Algorithms of the handshake: TLS 1.3 with ephemeral X25519 or P-256. AES-128 first, which costs a third less than
/// AES-256. A post-quantum share would make the first message longer than a datagram.
fn algorithms() -> Arc<CryptoProvider> {
    let suites = provider::cipher_suite::TLS13_AES_128_GCM_SHA256;
    Arc::new(CryptoProvider {
        cipher_suites: vec![
            suites,
            provider::cipher_suite::TLS13_AES_256_GCM_SHA384,
            provider::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        kx_groups: vec![provider::kx_group::X25519, provider::kx_group::SECP256R1],
        ..provider::default_provider()
    })
}

/// Which certificate a caller takes for the listener's.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Any, since both prove that they know the passphrase.
    Passphrase,
    /// One for the listener's name that an authority of the system has signed.
    System,
    /// One for the listener's name that one of these authorities has signed.
    Authorities(Vec<CertificateDer<'static>>),
    /// The one with this fingerprint.
    Fingerprint(Fingerprint),
}

/// Credential of a caller: its proofs, and its trust in the listener.
#[derive(Clone)]
pub struct CallerCredential {
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
    pub(crate) passphrase: Option<Passphrase>,
    pub(crate) stream_id: String,
    pub(crate) intent: Intent,
}

impl CallerCredential {
    /// Creates the credential for a call of `host`, a name or an address. `identity`: a certificate of our own, for
    /// listeners that ask for one.
    ///
    /// # Errors
    /// [`CredentialError`] for a part that cannot be used.
    ///
    /// ```
    /// use timeous_seal::{CallerCredential, Intent, Passphrase, Trust};
    /// let passphrase = Passphrase::derive("correct horse battery")?;
    /// let caller = CallerCredential::new("192.0.2.1", &Trust::Passphrase, Some(passphrase), None, Intent::Publish)?
    ///     .with_stream_id("camera 1")?;
    /// # Ok::<(), timeous_seal::CredentialError>(())
    /// ```
    pub fn new(
        host: &str,
        trust: &Trust,
        passphrase: Option<Passphrase>,
        identity: Option<&Identity>,
        intent: Intent,
    ) -> Result<Self, CredentialError> {
        let provider = algorithms();
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the algorithms are those of TLS 1.3");
        let builder = match trust {
            Trust::Passphrase => pinned(builder, None, provider),
            Trust::Fingerprint(fingerprint) => pinned(builder, Some(*fingerprint), provider),
            Trust::System => builder.with_root_certificates(system_authorities()?),
            Trust::Authorities(authorities) => builder.with_root_certificates(roots(authorities)?),
        };
        let mut tls = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => builder
                .with_client_auth_cert(identity.chain(), identity.key())
                .map_err(|error| CredentialError::Identity(error.to_string()))?,
        };
        tls.alpn_protocols = vec![PROTOCOL.to_vec()];
        tls.resumption = Resumption::disabled();
        // The name is needed only for the check of a certificate: observers do not see it.
        tls.enable_sni = matches!(trust, Trust::System | Trust::Authorities(_));
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned()).map_err(|_| CredentialError::Name(host.to_owned()))?;
        Ok(Self { tls: Arc::new(tls), name, passphrase, stream_id: String::new(), intent })
    }

    /// Names the stream that is called.
    ///
    /// # Errors
    /// [`CredentialError::LongStreamId`].
    pub fn with_stream_id(mut self, stream_id: &str) -> Result<Self, CredentialError> {
        if stream_id.len() > MAX_STREAM_ID {
            return Err(CredentialError::LongStreamId);
        }
        stream_id.clone_into(&mut self.stream_id);
        Ok(self)
    }
}

impl fmt::Debug for CallerCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallerCredential").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Credential of a listener: its proofs, and the access of callers.
#[derive(Clone)]
pub struct ListenerCredential {
    pub(crate) tls: Arc<ServerConfig>,
    pub(crate) access: Arc<dyn Access>,
}

impl ListenerCredential {
    /// Creates the credential of a listener. Without an `identity` it makes one that nobody knows, for callers that rely on
    /// the passphrase. With `authorities`, callers have to show a certificate that one of them has signed.
    ///
    /// # Errors
    /// [`CredentialError`] for a part that cannot be used.
    pub fn new(
        identity: Option<&Identity>,
        authorities: Option<&[CertificateDer<'static>]>,
        access: Arc<dyn Access>,
    ) -> Result<Self, CredentialError> {
        let throwaway;
        let identity = match identity {
            Some(identity) => identity,
            None => {
                throwaway = Identity::self_signed(&["timeous.invalid".into()])?;
                &throwaway
            }
        };
        let provider = algorithms();
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the algorithms are those of TLS 1.3");
        let builder = match authorities {
            None => builder.with_no_client_auth(),
            Some(authorities) => builder.with_client_cert_verifier(
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots(authorities)?), provider)
                    .build()
                    .map_err(|error| CredentialError::Authorities(error.to_string()))?,
            ),
        };
        let mut tls = builder
            .with_single_cert(identity.chain(), identity.key())
            .map_err(|error| CredentialError::Identity(error.to_string()))?;
        tls.alpn_protocols = vec![PROTOCOL.to_vec()];
        // Without tickets nothing follows the listener's answer.
        tls.send_tls13_tickets = 0;
        Ok(Self { tls: Arc::new(tls), access })
    }
}

impl fmt::Debug for ListenerCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerCredential").field("access", &self.access).finish_non_exhaustive()
    }
}

type WantsVerifier = rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>;
type WantsIdentity = rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>;

fn pinned(builder: WantsVerifier, fingerprint: Option<Fingerprint>, provider: Arc<CryptoProvider>) -> WantsIdentity {
    builder.dangerous().with_custom_certificate_verifier(Arc::new(PinnedCertificate { fingerprint, provider }))
}

fn roots(authorities: &[CertificateDer<'static>]) -> Result<RootCertStore, CredentialError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority.clone()).map_err(|error| CredentialError::Authorities(error.to_string()))?;
    }
    Ok(roots)
}

fn system_authorities() -> Result<RootCertStore, CredentialError> {
    let (roots, _) = parsed_system_certificates()?;
    Ok(roots)
}

/// Reads the certificates of the authorities that the system trusts, to hand them to another process.
///
/// # Errors
/// [`CredentialError::Authorities`] if the system has none.
pub fn system_certificates() -> Result<Vec<CertificateDer<'static>>, CredentialError> {
    parsed_system_certificates().map(|(_, certificates)| certificates)
}

/// Reads the system's authorities, without those that cannot be used.
fn parsed_system_certificates() -> Result<(RootCertStore, Vec<CertificateDer<'static>>), CredentialError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let mut certificates = found.certs;
    certificates.retain(|certificate| roots.add(certificate.clone()).is_ok());
    if certificates.is_empty() {
        let errors: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
        return Err(CredentialError::Authorities(format!("the system has none {}", errors.join("; "))));
    }
    Ok((roots, certificates))
}
