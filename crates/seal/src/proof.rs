//! Mutual proof of a passphrase, bound to the TLS handshake: the caller's request and the listener's answer.
//!
//! Both travel as TLS application data. Each proof is an HMAC, under the passphrase's key, over keying material that TLS
//! exports for this handshake alone (RFC 8446 §7.5): a proof cannot be carried over to another handshake. The caller
//! proves first, so a caller learns nothing to guess at. Method 1; another may replace it.

use ring::hmac;
use subtle::ConstantTimeEq as _;

use crate::access::Intent;
use crate::error::SealError;
use crate::passphrase::Passphrase;

/// Longest stream ID, in bytes, as SRT's (which has no standard).
pub const MAX_STREAM_ID: usize = 512;
/// Longest explanation of a refusal, in bytes; longer ones are cut.
const MAX_TEXT: usize = 200;
const METHOD: u8 = 1;
const PROOF_LEN: usize = 32;

/// A proof that one end knows the passphrase.
pub(crate) type Proof = [u8; PROOF_LEN];

/// Makes the proof of one end.
pub(crate) fn prove(passphrase: &Passphrase, exported: &[u8; 32], of_caller: bool) -> Proof {
    let key = hmac::Key::new(hmac::HMAC_SHA256, passphrase.key());
    let mut context = hmac::Context::with_key(&key);
    context.update(if of_caller { b"timeous caller" } else { b"timeous listener" });
    context.update(exported);
    context.sign().as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Compares a proof with the one expected, in constant time.
pub(crate) fn is_proof(passphrase: &Passphrase, exported: &[u8; 32], of_caller: bool, proof: &Proof) -> bool {
    prove(passphrase, exported, of_caller).ct_eq(proof).into()
}

/// A caller's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) intent: Intent,
    pub(crate) stream_id: String,
    pub(crate) proof: Option<Proof>,
}

impl Request {
    /// Layout: method 1, intent 1, proof flag 1, length 2, stream ID, proof.
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = vec![METHOD, self.intent.to_wire(), u8::from(self.proof.is_some())];
        out.extend_from_slice(&(self.stream_id.len() as u16).to_be_bytes());
        out.extend_from_slice(self.stream_id.as_bytes());
        out.extend_from_slice(self.proof.as_ref().map_or(&[][..], |proof| proof));
        out
    }

    /// Reads a request; `Ok(None)`: it is incomplete.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<Self>, SealError> {
        let malformed = || SealError::Protocol("a malformed request".into());
        let Some((&[method, intent, has_proof, high, low], rest)) = bytes.split_first_chunk() else { return Ok(None) };
        let len = usize::from(u16::from_be_bytes([high, low]));
        if method != METHOD {
            return Err(SealError::Protocol(format!("proof method {method}, and we know {METHOD}")));
        }
        let intent = Intent::from_wire(intent).ok_or_else(malformed)?;
        if len > MAX_STREAM_ID || has_proof > 1 {
            return Err(malformed());
        }
        let whole = len + usize::from(has_proof) * PROOF_LEN;
        if rest.len() < whole {
            return Ok(None);
        }
        if rest.len() > whole {
            return Err(malformed());
        }
        let (stream_id, proof) = rest.split_at(len);
        let stream_id = std::str::from_utf8(stream_id).map_err(|_| malformed())?.to_owned();
        Ok(Some(Self { intent, stream_id, proof: proof.try_into().ok() }))
    }
}

/// A listener's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Admitted, with the listener's own proof if a passphrase was asked for.
    Admitted(Option<Proof>),
    WrongPassphrase,
    PassphraseWanted,
    NoPassphrase,
    UnknownStream,
    NotAllowed(String),
}

impl Answer {
    /// Layout: code 1, length 2, proof or text.
    pub(crate) fn write(&self) -> Vec<u8> {
        let (code, body): (u8, &[u8]) = match self {
            Self::Admitted(None) => (0, &[]),
            Self::Admitted(Some(proof)) => (1, proof),
            Self::WrongPassphrase => (2, &[]),
            Self::PassphraseWanted => (3, &[]),
            Self::NoPassphrase => (4, &[]),
            Self::UnknownStream => (5, &[]),
            Self::NotAllowed(text) => (6, &text.as_bytes()[..text.floor_char_boundary_at(MAX_TEXT)]),
        };
        let mut out = vec![code];
        out.extend_from_slice(&(body.len() as u16).to_be_bytes());
        out.extend_from_slice(body);
        out
    }

    /// Reads an answer; `Ok(None)`: it is incomplete.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<Self>, SealError> {
        let malformed = || SealError::Protocol("a malformed answer".into());
        let Some((&[code, high, low], rest)) = bytes.split_first_chunk() else { return Ok(None) };
        let len = usize::from(u16::from_be_bytes([high, low]));
        if len > MAX_TEXT {
            return Err(malformed());
        }
        let Some(body) = rest.get(..len) else { return Ok(None) };
        Ok(Some(match code {
            0 => Self::Admitted(None),
            1 => Self::Admitted(Some(body.try_into().map_err(|_| malformed())?)),
            2 => Self::WrongPassphrase,
            3 => Self::PassphraseWanted,
            4 => Self::NoPassphrase,
            5 => Self::UnknownStream,
            // Shown to people: nothing that a terminal would obey.
            6 => {
                Self::NotAllowed(String::from_utf8_lossy(body).chars().filter(|letter| !letter.is_control()).collect())
            }
            _ => return Err(malformed()),
        }))
    }
}

trait CharBoundary {
    fn floor_char_boundary_at(&self, most: usize) -> usize;
}

impl CharBoundary for String {
    fn floor_char_boundary_at(&self, most: usize) -> usize {
        (0..=most.min(self.len())).rev().find(|&at| self.is_char_boundary(at)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_come_back_whole_and_only_when_complete() {
        for proof in [None, Some([9; PROOF_LEN])] {
            let request = Request { intent: Intent::Play, stream_id: "cam/1".into(), proof };
            let bytes = request.write();
            assert_eq!(Request::read(&bytes), Ok(Some(request)));
            assert!((0..bytes.len()).all(|len| Request::read(&bytes[..len]) == Ok(None)));
        }
        let answers = [
            Answer::Admitted(None),
            Answer::Admitted(Some([3; PROOF_LEN])),
            Answer::WrongPassphrase,
            Answer::PassphraseWanted,
            Answer::NoPassphrase,
            Answer::UnknownStream,
            Answer::NotAllowed("only at night".into()),
        ];
        for answer in answers {
            let bytes = answer.write();
            assert_eq!(Answer::read(&bytes), Ok(Some(answer)));
            assert!((0..bytes.len()).all(|len| Answer::read(&bytes[..len]) == Ok(None)));
        }
    }

    #[test]
    fn a_long_explanation_is_cut_and_a_terminal_is_safe_from_it() {
        let bytes = Answer::NotAllowed("é".repeat(MAX_TEXT)).write();
        assert_eq!(Answer::read(&bytes), Ok(Some(Answer::NotAllowed("é".repeat(MAX_TEXT / 2)))));
        let bytes = Answer::NotAllowed("\x1b[31mno".into()).write();
        assert_eq!(Answer::read(&bytes), Ok(Some(Answer::NotAllowed("[31mno".into()))));
    }

    #[test]
    fn hostile_requests_are_errors() {
        for bytes in
            [&[2, 0, 0, 0, 0][..], &[1, 9, 0, 0, 0], &[1, 0, 2, 0, 0], &[1, 0, 0, 255, 255], &[1, 0, 0, 0, 0, 1]]
        {
            assert!(Request::read(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_proof_is_of_one_end_one_handshake_and_one_passphrase() {
        let (passphrase, other) = (Passphrase::from_key([1; 32]), Passphrase::from_key([2; 32]));
        let proof = prove(&passphrase, &[5; 32], true);
        assert!(is_proof(&passphrase, &[5; 32], true, &proof));
        assert!(!is_proof(&passphrase, &[5; 32], false, &proof));
        assert!(!is_proof(&passphrase, &[6; 32], true, &proof));
        assert!(!is_proof(&other, &[5; 32], true, &proof));
    }
}
