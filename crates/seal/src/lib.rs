//! Encryption and authentication below a transport, sans-IO: who may call, who may read.
//!
//! Two ends agree on keys by a TLS 1.3 handshake, prove to each other that they know a passphrase (or trust each other's
//! certificates), and then seal whole transport packets, headers and feedback included, with an AEAD. Nothing is
//! negotiated down: a sealed port takes sealed packets only.
//!
//! - [`Endpoint`]: the associations of one UDP socket. Datagrams and time in, datagrams and events out.
//! - [`Session`]: the handshake over any reliable stream of bytes.
//! - [`CallerCredential`], [`ListenerCredential`]: what an end shows and demands.
//!
//! The threat model is in docs/design/security.md.

mod access;
mod access_table;
mod association;
mod credential;
mod endpoint;
mod error;
mod handshake;
mod identity;
mod keys;
mod migration;
mod passphrase;
mod proof;
mod session;
mod tls_failure;
mod tls_record;
mod token;
mod verifier;
mod window;
mod wire;

pub use access::{Access, Admission, Call, Intent, Refusal, SharedPassphrase};
pub use access_table::AccessTable;
pub use association::{OVERHEAD, Secrets};
pub use credential::{CallerCredential, ListenerCredential, Trust, system_certificates};
pub use endpoint::{AssociationId, Endpoint, EndpointConfig, EndpointStatistics, Event, Received};
pub use error::{CertificateFault, CredentialError, SealError};
pub use identity::{Fingerprint, Identity, read_certificates};
pub use keys::{Cipher, Opened, OpeningKey, SealingKey, Secret, TAG_LEN};
pub use migration::MigrationSecret;
pub use passphrase::{MIN_PASSPHRASE, Passphrase, generate_passphrase};
pub use proof::MAX_STREAM_ID;
pub use rustls::pki_types::CertificateDer;
pub use session::{Agreement, Session};
pub use tls_record::is_tls;
pub use wire::{SEALED_HEADER_LEN, is_call, write_plain_notice};
