//! QUIC datagrams (RFC 9221) by quinn. Whoever answers is trusted: it is a test bed.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use quinn::congestion::{BbrConfig, CubicConfig};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, Endpoint, SendDatagramError, ServerConfig, TransportConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use tokio::net::UdpSocket;

const NAME: &str = "peer";
/// Size of the first datagrams, before quinn has looked for a larger one (RFC 9000 §14.1).
const FIRST_MTU: u16 = 1_200;

/// Listens, and gives what comes to an address.
pub(crate) async fn receive(listen: SocketAddr, to: SocketAddr) -> Result<(), Box<dyn Error>> {
    let endpoint = self::listen(listen)?;
    let out = UdpSocket::bind("127.0.0.1:0").await?;
    let connection = endpoint.accept().await.ok_or("the endpoint is closed")?.await?;
    loop {
        let datagram = connection.read_datagram().await?;
        // Nobody listens any more: the run is over.
        let _ = out.send_to(&datagram, to).await;
    }
}

/// Listens for one caller.
pub(crate) fn listen(listen: SocketAddr) -> Result<Endpoint, Box<dyn Error>> {
    let own = rcgen::generate_simple_self_signed(vec![NAME.to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let config = ServerConfig::with_single_cert(vec![own.cert.der().clone()], key.into())?;
    Ok(Endpoint::server(config, listen)?)
}

/// Calls, and sends what comes at an address. Of more than `buffer` bytes the oldest make way (`send_datagram`).
pub(crate) async fn send(
    from: SocketAddr,
    there: SocketAddr,
    congestion: &str,
    buffer: usize,
) -> Result<(), Box<dyn Error>> {
    let connection = call(there, congestion, buffer, FIRST_MTU).await?;
    let source = UdpSocket::bind(from).await?;
    let mut bytes = vec![0; 1 << 16];
    loop {
        let len = source.recv(&mut bytes).await?;
        match connection.send_datagram(bytes[..len].to_vec().into()) {
            // One that is too large for the path is lost.
            Ok(()) | Err(SendDatagramError::TooLarge) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Calls, with datagrams of `mtu` bytes at first, and a buffer of `buffer` bytes.
pub(crate) async fn call(
    there: SocketAddr,
    congestion: &str,
    buffer: usize,
    mtu: u16,
) -> Result<Connection, Box<dyn Error>> {
    let mut transport = TransportConfig::default();
    transport.datagram_send_buffer_size(buffer).initial_mtu(mtu);
    match congestion {
        "cubic" => transport.congestion_controller_factory(Arc::new(CubicConfig::default())),
        "bbr" => transport.congestion_controller_factory(Arc::new(BbrConfig::default())),
        _ => return Err(format!("{congestion} is no congestion control: use cubic or bbr").into()),
    };
    let provider = Arc::new(ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        .with_no_client_auth();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport));
    let mut endpoint = Endpoint::client("0.0.0.0:0".parse()?)?;
    endpoint.set_default_client_config(config);
    Ok(endpoint.connect(there, NAME)?.await?)
}

/// Believes any certificate, and checks signatures.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
