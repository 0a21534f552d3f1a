//! Errors of TLS as causes that a user can mend.

use rustls::{AlertDescription, CertificateError, Error};

use crate::error::{CertificateFault, SealError};
use crate::verifier::OtherFingerprint;

/// Translates an error of TLS.
pub(crate) fn failure(error: &Error) -> SealError {
    use CertificateFault as Fault;
    match error {
        Error::InvalidCertificate(fault) => SealError::Certificate(match fault {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Fault::Clock("expired"),
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Fault::Clock("not valid yet")
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Fault::Name(fault.to_string())
            }
            CertificateError::UnknownIssuer => Fault::Untrusted,
            CertificateError::Other(other) => match other.0.downcast_ref::<OtherFingerprint>() {
                Some(OtherFingerprint(found)) => Fault::Fingerprint(found.to_string()),
                None if other.to_string().contains("CaUsedAsEndEntity") => Fault::Untrusted,
                None => Fault::Other(other.to_string()),
            },
            fault => Fault::Other(fault.to_string()),
        }),
        Error::NoCertificatesPresented => {
            SealError::Protocol("it shows no certificate, and we ask callers for one".into())
        }
        Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired
            | AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::AccessDenied
            | AlertDescription::DecryptError => SealError::OurCertificate(format!("{alert:?}")),
            alert => SealError::Protocol(format!("alert {alert:?}")),
        },
        error => SealError::Protocol(error.to_string()),
    }
}
