//! Encoding of a [`SealError`] between both sides of a remote stream: kind, detail, text.

use timeous_seal::{CertificateFault, SealError};

/// Periods outside a certificate's validity, as [`CertificateFault::Clock`] names them.
const PERIODS: [&str; 2] = ["expired", "not valid yet"];

/// Encodes an error: its kind, a detail that only faults of certificates have, and its text.
pub(super) fn write(error: &SealError) -> Vec<u8> {
    let (kind, detail, text) = match error {
        SealError::NoAnswer => (0, 0, ""),
        SealError::Unreachable => (1, 0, ""),
        SealError::PeerIsPlain => (2, 0, ""),
        SealError::EncryptionWanted => (3, 0, ""),
        SealError::WrongPassphrase => (4, 0, ""),
        SealError::PeerWithoutPassphrase => (5, 0, ""),
        SealError::PassphraseWanted => (6, 0, ""),
        SealError::NoPassphraseThere => (7, 0, ""),
        SealError::Forgotten => (8, 0, ""),
        SealError::UnknownStream(text) => (9, 0, text.as_str()),
        SealError::NotAllowed(text) => (10, 0, text.as_str()),
        SealError::OurCertificate(text) => (11, 0, text.as_str()),
        SealError::Protocol(text) => (12, 0, text.as_str()),
        SealError::Certificate(fault) => {
            let (detail, text) = fault_parts(fault);
            (13, detail, text)
        }
        SealError::IntegrityLimit => (14, 0, ""),
        // An error without a number of its own.
        _ => return write(&SealError::Protocol(error.to_string())),
    };
    [[kind, detail].as_slice(), text.as_bytes()].concat()
}

fn fault_parts(fault: &CertificateFault) -> (u8, &str) {
    match fault {
        CertificateFault::Untrusted => (0, ""),
        CertificateFault::Name(text) => (1, text),
        CertificateFault::Fingerprint(text) => (2, text),
        CertificateFault::Clock(period) => (3, period),
        CertificateFault::Other(text) => (4, text),
        // A fault without a number of its own.
        _ => (4, "it is not accepted"),
    }
}

/// Decodes an error; `None` if it is malformed.
pub(super) fn read(message: &[u8]) -> Option<SealError> {
    let (&[kind, detail], text) = message.split_first_chunk()?;
    let text = std::str::from_utf8(text).ok()?;
    let error = match kind {
        0 => SealError::NoAnswer,
        1 => SealError::Unreachable,
        2 => SealError::PeerIsPlain,
        3 => SealError::EncryptionWanted,
        4 => SealError::WrongPassphrase,
        5 => SealError::PeerWithoutPassphrase,
        6 => SealError::PassphraseWanted,
        7 => SealError::NoPassphraseThere,
        8 => SealError::Forgotten,
        9 => SealError::UnknownStream(text.to_owned()),
        10 => SealError::NotAllowed(text.to_owned()),
        11 => SealError::OurCertificate(text.to_owned()),
        12 => SealError::Protocol(text.to_owned()),
        13 => SealError::Certificate(read_fault(detail, text)?),
        14 => SealError::IntegrityLimit,
        _ => return None,
    };
    // One encoding for each error: parts that it has not are empty.
    (write(&error) == message).then_some(error)
}

fn read_fault(detail: u8, text: &str) -> Option<CertificateFault> {
    Some(match detail {
        0 => CertificateFault::Untrusted,
        1 => CertificateFault::Name(text.to_owned()),
        2 => CertificateFault::Fingerprint(text.to_owned()),
        3 => CertificateFault::Clock(PERIODS.into_iter().find(|period| *period == text)?),
        4 => CertificateFault::Other(text.to_owned()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_is_the_same_on_the_other_side() {
        let text = || "camera 1".to_owned();
        let faults = [
            CertificateFault::Untrusted,
            CertificateFault::Name(text()),
            CertificateFault::Fingerprint(text()),
            CertificateFault::Clock("expired"),
            CertificateFault::Clock("not valid yet"),
            CertificateFault::Other(text()),
        ];
        let errors = [
            SealError::NoAnswer,
            SealError::Unreachable,
            SealError::PeerIsPlain,
            SealError::EncryptionWanted,
            SealError::WrongPassphrase,
            SealError::PeerWithoutPassphrase,
            SealError::PassphraseWanted,
            SealError::NoPassphraseThere,
            SealError::Forgotten,
            SealError::IntegrityLimit,
            SealError::UnknownStream(text()),
            SealError::NotAllowed(text()),
            SealError::OurCertificate(text()),
            SealError::Protocol(text()),
        ];
        for error in errors.into_iter().chain(faults.map(SealError::Certificate)) {
            assert_eq!(read(&write(&error)), Some(error));
        }
    }

    #[test]
    fn malformed_errors_are_not_read() {
        for message in [&[][..], &[0], &[99, 0], &[0, 0, b'a'], &[4, 1], &[13, 9], &[13, 3, b'x'], &[9, 0, 0xff]] {
            assert_eq!(read(message), None, "{message:?}");
        }
    }
}
