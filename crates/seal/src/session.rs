//! The handshake over a reliable stream of bytes: TLS 1.3, then the mutual proof, then the keys.

use std::io::{Read, Write};

use rustls::{CipherSuite, ClientConnection, Connection, ServerConnection};
use zeroize::Zeroizing;

use crate::access::{Admission, Call, Intent, Refusal};
use crate::association::Secrets;
use crate::credential::{CallerCredential, ListenerCredential};
use crate::error::SealError;
use crate::keys::{Cipher, Secret};
use crate::migration::MigrationSecret;
use crate::proof::{Answer, Request, is_proof, prove};
use crate::tls_failure::failure;
use crate::tls_record::Boundary;

/// Most bytes of application data that a peer may send before it is admitted: a request is shorter.
const MAX_REQUEST: usize = 1024;

/// Fatal alert `unexpected_message` (RFC 8446 §6.2), from which a caller that does not encrypt learns that this end does.
const UNEXPECTED_MESSAGE: [u8; 7] = [21, 3, 3, 0, 2, 2, 10];

/// Result of a handshake.
#[derive(Debug)]
pub struct Agreement {
    /// Keys of both directions.
    pub secrets: Secrets,
    /// Stream ID of the call.
    pub stream_id: String,
    /// Direction of the data for which the caller was admitted.
    pub intent: Intent,
    /// Proof of this handshake's caller when the stream moves to another transport.
    pub migration: MigrationSecret,
}

/// One end of a handshake, sans-IO: bytes of the peer in, bytes for the peer out.
///
/// After [`read`](Self::read) has failed, bytes that tell the peer why may wait to be written.
pub struct Session {
    tls: Connection,
    end: End,
    /// Application data received and not yet understood.
    received: Vec<u8>,
    /// Keys of a caller that waits for the answer.
    early: Option<Secrets>,
    agreement: Option<Agreement>,
    is_over: bool,
    boundary: Boundary,
    /// The peer does not speak TLS, and an alert has to tell it.
    owes_alert: bool,
}

enum End {
    Caller { credential: CallerCredential, asked: bool },
    Listener(ListenerCredential),
}

impl Session {
    /// Begins a call.
    ///
    /// # Errors
    /// [`SealError::Protocol`] if TLS refuses the settings, which a credential excludes.
    pub fn call(credential: &CallerCredential) -> Result<Self, SealError> {
        let tls =
            ClientConnection::new(credential.tls.clone(), credential.name.clone()).map_err(|error| failure(&error))?;
        Ok(Self::new(tls.into(), End::Caller { credential: credential.clone(), asked: false }))
    }

    /// Answers a call.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn answer(credential: &ListenerCredential) -> Result<Self, SealError> {
        let tls = ServerConnection::new(credential.tls.clone()).map_err(|error| failure(&error))?;
        Ok(Self::new(tls.into(), End::Listener(credential.clone())))
    }

    fn new(mut tls: Connection, end: End) -> Self {
        tls.set_buffer_limit(Some(2 * MAX_REQUEST));
        let boundary = Boundary::default();
        Self {
            tls,
            end,
            received: Vec::new(),
            early: None,
            agreement: None,
            is_over: false,
            boundary,
            owes_alert: false,
        }
    }

    /// Processes bytes of the peer, and returns how many of them belong to the handshake: all, until the ends have agreed. The
    /// rest is for those who use the keys.
    ///
    /// # Errors
    /// [`SealError`]: the call has failed. [`SealError::PeerIsPlain`]: a listener answers with something else than TLS.
    pub fn read(&mut self, bytes: &[u8]) -> Result<usize, SealError> {
        let mut consumed = 0;
        while consumed < bytes.len() && !self.is_over {
            let rest = &bytes[consumed..];
            let is_first = self.boundary.is_at_start;
            let Some(len) = self.boundary.advance(rest) else {
                let is_caller = matches!(self.end, End::Caller { .. });
                self.owes_alert = is_first && !is_caller;
                return Err(self.failed(match is_first && is_caller {
                    true => SealError::PeerIsPlain,
                    false => SealError::Protocol("not TLS".into()),
                }));
            };
            consumed += len;
            self.process(&rest[..len])?;
        }
        Ok(consumed)
    }

    /// Processes bytes of one TLS record.
    fn process(&mut self, mut bytes: &[u8]) -> Result<(), SealError> {
        while !bytes.is_empty() && !self.is_over {
            match self.tls.read_tls(&mut bytes) {
                // TLS takes nothing behind a close_notify (RFC 8446 §6.1): without this, the loop has no end.
                Ok(0) => return Err(self.failed(SealError::Protocol("it ends in the middle".into()))),
                Ok(_) => {}
                Err(error) => return Err(self.failed(SealError::Protocol(error.to_string()))),
            }
            self.tls.process_new_packets().map_err(|error| self.failed(failure(&error)))?;
            self.read_application_data()?;
            self.advance().map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    /// Returns whether the peer has sent a part of a TLS record.
    #[must_use]
    pub fn has_heard(&self) -> bool {
        !self.boundary.is_at_start
    }

    /// Returns whether the ends have agreed, or the call has failed: further bytes are not the handshake's.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Appends the bytes that wait to be sent to the peer to `out`.
    pub fn write(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.owes_alert) {
            out.extend_from_slice(&UNEXPECTED_MESSAGE);
        }
        while self.tls.wants_write() {
            self.tls.write_tls(out).expect("a vector takes all bytes");
        }
    }

    /// Returns, once, the keys of a caller that has sent its proof and waits for the answer. Packets sealed with them arrive behind the
    /// proof; whoever answers may be an impostor, so they carry no data, and no packet is opened before the agreement.
    pub fn take_early_keys(&mut self) -> Option<Secrets> {
        self.early.take()
    }

    /// Returns, once, what the ends have agreed on. The listener's last bytes may still have to be written.
    pub fn take_agreement(&mut self) -> Option<Agreement> {
        self.agreement.take()
    }

    fn failed(&mut self, error: SealError) -> SealError {
        self.is_over = true;
        error
    }

    fn read_application_data(&mut self) -> Result<(), SealError> {
        let mut buffer = Zeroizing::new([0; MAX_REQUEST]);
        loop {
            match self.tls.reader().read(&mut buffer[..]) {
                Ok(0) => return Ok(()),
                Ok(len) => self.received.extend_from_slice(&buffer[..len]),
                Err(_) => return Ok(()),
            }
            if self.received.len() > MAX_REQUEST {
                return Err(self.failed(SealError::Protocol("a request that is too long".into())));
            }
        }
    }

    fn advance(&mut self) -> Result<(), SealError> {
        if self.tls.is_handshaking() {
            return Ok(());
        }
        match &mut self.end {
            End::Caller { credential, asked } if !*asked => {
                *asked = true;
                let exported = export_proof(&self.tls)?;
                let request = Request {
                    intent: credential.intent,
                    stream_id: credential.stream_id.clone(),
                    proof: credential.passphrase.as_ref().map(|passphrase| prove(passphrase, &exported, true)),
                };
                self.say(&request.write())?;
                self.early = Some(self.secrets()?);
                Ok(())
            }
            End::Caller { credential, .. } => {
                let Some(answer) = Answer::read(&self.received)? else { return Ok(()) };
                let (stream_id, intent) = (check(&answer, credential, &self.tls)?, credential.intent);
                self.agree(stream_id, intent)
            }
            End::Listener(credential) => {
                let Some(request) = Request::read(&self.received)? else { return Ok(()) };
                let (answer, verdict) = decide(credential, &request, &self.tls)?;
                self.say(&answer.write())?;
                match verdict {
                    None => self.agree(request.stream_id, request.intent),
                    Some(error) => {
                        self.tls.send_close_notify();
                        Err(error)
                    }
                }
            }
        }
    }

    fn say(&mut self, message: &[u8]) -> Result<(), SealError> {
        self.tls.writer().write_all(message).map_err(|error| SealError::Protocol(error.to_string()))
    }

    fn agree(&mut self, stream_id: String, intent: Intent) -> Result<(), SealError> {
        let migration = MigrationSecret::new(export(&self.tls, b"EXPORTER-timeous-migration")?);
        self.agreement = Some(Agreement { secrets: self.secrets()?, stream_id, intent, migration });
        self.is_over = true;
        Ok(())
    }

    fn secrets(&self) -> Result<Secrets, SealError> {
        let cipher = match self.tls.negotiated_cipher_suite().map(|suite| suite.suite()) {
            Some(CipherSuite::TLS13_AES_128_GCM_SHA256) => Cipher::Aes128Gcm,
            Some(CipherSuite::TLS13_AES_256_GCM_SHA384) => Cipher::Aes256Gcm,
            _ => Cipher::ChaCha20Poly1305,
        };
        let caller = export(&self.tls, b"EXPORTER-timeous-caller")?;
        let listener = export(&self.tls, b"EXPORTER-timeous-listener")?;
        let (sealing, opening) = match self.end {
            End::Caller { .. } => (caller, listener),
            End::Listener(_) => (listener, caller),
        };
        Ok(Secrets { cipher, sealing: Secret::new(sealing), opening: Secret::new(opening) })
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

/// Checks the listener's answer; returns the stream's name.
fn check(answer: &Answer, credential: &CallerCredential, tls: &Connection) -> Result<String, SealError> {
    match (answer, &credential.passphrase) {
        (Answer::Admitted(Some(proof)), Some(passphrase)) => {
            match is_proof(passphrase, &export_proof(tls)?, false, proof) {
                true => Ok(credential.stream_id.clone()),
                false => Err(SealError::PeerWithoutPassphrase),
            }
        }
        (Answer::Admitted(None), None) => Ok(credential.stream_id.clone()),
        (Answer::Admitted(_), _) => Err(SealError::PeerWithoutPassphrase),
        (Answer::WrongPassphrase, _) => Err(SealError::WrongPassphrase),
        (Answer::PassphraseWanted, _) => Err(SealError::PassphraseWanted),
        (Answer::NoPassphrase, _) => Err(SealError::NoPassphraseThere),
        (Answer::UnknownStream, _) => Err(SealError::UnknownStream(credential.stream_id.clone())),
        (Answer::NotAllowed(text), _) => Err(SealError::NotAllowed(text.clone())),
    }
}

/// Decides about a request: the answer, and the reason if it is a refusal.
fn decide(
    credential: &ListenerCredential,
    request: &Request,
    tls: &Connection,
) -> Result<(Answer, Option<SealError>), SealError> {
    let call = Call::new(&request.stream_id, request.intent);
    Ok(match (credential.access.admit(&call), &request.proof) {
        (Admission::Open, None) => (Answer::Admitted(None), None),
        (Admission::Open, Some(_)) => (Answer::NoPassphrase, Some(SealError::PassphraseWanted)),
        (Admission::With(_), None) => (Answer::PassphraseWanted, Some(SealError::PeerWithoutPassphrase)),
        (Admission::With(passphrase), Some(proof)) => {
            let exported = export_proof(tls)?;
            match is_proof(&passphrase, &exported, true, proof) {
                true => (Answer::Admitted(Some(prove(&passphrase, &exported, false))), None),
                false => (Answer::WrongPassphrase, Some(SealError::WrongPassphrase)),
            }
        }
        (Admission::Refused(Refusal::UnknownStream), _) => {
            (Answer::UnknownStream, Some(SealError::UnknownStream(request.stream_id.clone())))
        }
        (Admission::Refused(Refusal::NotAllowed(text)), _) => {
            (Answer::NotAllowed(text.clone()), Some(SealError::NotAllowed(text)))
        }
    })
}

fn export<const LEN: usize>(tls: &Connection, label: &[u8]) -> Result<[u8; LEN], SealError> {
    tls.export_keying_material([0; LEN], label, None).map_err(|error| failure(&error))
}

fn export_proof(tls: &Connection) -> Result<[u8; 32], SealError> {
    export(tls, b"EXPORTER-timeous-proof")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::tls_record::is_tls;
    use crate::{Intent, Passphrase, SharedPassphrase, Trust};

    /// Passes bytes between two ends until both have nothing to say.
    fn talk(caller: &mut Session, listener: &mut Session) -> (Result<(), SealError>, Result<(), SealError>) {
        let mut results = (Ok(()), Ok(()));
        for _ in 0..4 {
            let mut bytes = Vec::new();
            caller.write(&mut bytes);
            results.1 = results.1.and(listener.read(&bytes).map(drop));
            bytes.clear();
            listener.write(&mut bytes);
            results.0 = results.0.and(caller.read(&bytes).map(drop));
        }
        results
    }

    fn ends(of_caller: Passphrase, of_listener: Passphrase) -> (Session, Session) {
        let caller = CallerCredential::new("a", &Trust::Passphrase, Some(of_caller), None, Intent::Publish).unwrap();
        let access = Arc::new(SharedPassphrase(Some(of_listener)));
        let listener = ListenerCredential::new(None, None, access).unwrap();
        (Session::call(&caller).unwrap(), Session::answer(&listener).unwrap())
    }

    #[test]
    fn both_ends_have_the_same_keys_crossed() {
        let passphrase = Passphrase::from_key([1; 32]);
        let (mut caller, mut listener) = ends(passphrase.clone(), passphrase);
        assert_eq!(talk(&mut caller, &mut listener), (Ok(()), Ok(())));
        let (caller, listener) = (caller.take_agreement().unwrap(), listener.take_agreement().unwrap());
        assert_eq!(caller.migration, listener.migration);
        assert!(!format!("{caller:?}").contains(&format!("{:?}", caller.migration.as_bytes())));
        let (caller, listener) = (caller.secrets, listener.secrets);
        let mut packet = b"hello".to_vec();
        let number = crate::SealingKey::new(caller.cipher, caller.sealing).seal(|_| b"", &mut packet, 0);
        let mut out = Vec::new();
        let mut opening = crate::OpeningKey::new(listener.cipher, listener.opening);
        assert!(opening.open(number as u32, b"", &packet, &mut out).is_some());
        assert_eq!(out, b"hello");
    }

    #[test]
    fn what_follows_the_handshake_is_left_however_the_bytes_are_cut() {
        for step in [1, 2, 5, 7, 100, 100_000] {
            let passphrase = Passphrase::from_key([1; 32]);
            let (mut caller, mut listener) = ends(passphrase.clone(), passphrase);
            let mut left = [Vec::new(), Vec::new()];
            for _ in 0..4 {
                for at in [0, 1] {
                    let (from, to) = if at == 0 { (&mut caller, &mut listener) } else { (&mut listener, &mut caller) };
                    let mut bytes = Vec::new();
                    from.write(&mut bytes);
                    // The sender has its keys, or is about to have them: its records follow at once.
                    if from.agreement.is_some() {
                        bytes.extend_from_slice(b"records");
                    }
                    for piece in bytes.chunks(step) {
                        let consumed = to.read(piece).unwrap();
                        left[at].extend_from_slice(&piece[consumed..]);
                    }
                }
            }
            assert!(left[0].starts_with(b"records") && left[1].starts_with(b"records"), "{step}");
        }
    }

    #[test]
    fn another_protocol_is_known_by_its_first_bytes() {
        let passphrase = Passphrase::from_key([1; 32]);
        for first in [&[0][..], b"SSH-2.0", &[22, 0, 1]] {
            let (mut caller, mut listener) = ends(passphrase.clone(), passphrase.clone());
            assert_eq!(caller.read(first), Err(SealError::PeerIsPlain));
            assert!(!caller.has_heard());
            assert!(matches!(listener.read(first), Err(SealError::Protocol(_))));
            let mut alert = Vec::new();
            listener.write(&mut alert);
            assert!(is_tls(&alert));
        }
        let (mut caller, _) = ends(passphrase.clone(), passphrase);
        let mut hello = Vec::new();
        caller.write(&mut hello);
        assert!(is_tls(&hello) && !is_tls(&[0, 2, 1]) && !is_tls(&hello[..2]));
    }

    #[test]
    fn an_answer_without_the_right_proof_is_not_believed() {
        let (mine, other) = (Passphrase::from_key([1; 32]), Passphrase::from_key([2; 32]));
        let (mut caller, mut listener) = ends(mine.clone(), mine.clone());
        assert_eq!(talk(&mut caller, &mut listener), (Ok(()), Ok(())));
        let End::Caller { credential, .. } = &caller.end else { unreachable!("it calls") };
        let exported = export_proof(&caller.tls).unwrap();
        let answers = [
            Answer::Admitted(None),
            Answer::Admitted(Some([0; 32])),
            Answer::Admitted(Some(prove(&other, &exported, false))),
            // Our own proof, sent back.
            Answer::Admitted(Some(prove(&mine, &exported, true))),
        ];
        for answer in answers {
            assert_eq!(check(&answer, credential, &caller.tls), Err(SealError::PeerWithoutPassphrase));
        }
        let right = Answer::Admitted(Some(prove(&mine, &exported, false)));
        assert_eq!(check(&right, credential, &caller.tls), Ok(String::new()));
    }

    #[test]
    fn a_man_in_the_middle_cannot_pass_proofs_on() {
        let passphrase = Passphrase::from_key([1; 32]);
        // Two handshakes: with the caller, and with the listener. The proofs are bound to each.
        let (caller, _) = ends(passphrase.clone(), passphrase.clone());
        let (mut near, mut to_caller) = (caller, ends(passphrase.clone(), Passphrase::from_key([9; 32])).1);
        let (caller_result, listener_result) = talk(&mut near, &mut to_caller);
        assert_eq!(caller_result, Err(SealError::WrongPassphrase));
        assert_eq!(listener_result, Err(SealError::WrongPassphrase));
    }

    /// Reads bytes of the peer up to the keys, and says nothing of its own.
    fn listen_only(session: &mut Session, peer: &mut Session) {
        let mut bytes = Vec::new();
        peer.write(&mut bytes);
        while !bytes.is_empty() {
            let len = session.tls.read_tls(&mut &bytes[..]).unwrap();
            bytes.drain(..len);
            session.tls.process_new_packets().unwrap();
        }
    }

    #[test]
    fn a_peer_that_closes_before_its_proof_and_goes_on_is_an_error() {
        let passphrase = Passphrase::from_key([1; 32]);
        // A record of one byte, behind the alert close_notify.
        let behind = [23, 3, 3, 0, 1, 0];
        let (mut caller, mut listener) = ends(passphrase.clone(), passphrase.clone());
        let mut bytes = Vec::new();
        caller.write(&mut bytes);
        listener.read(&bytes).unwrap();
        listen_only(&mut caller, &mut listener);
        caller.tls.send_close_notify();
        bytes.clear();
        caller.write(&mut bytes);
        assert_eq!(listener.read(&bytes), Ok(bytes.len()));
        assert!(matches!(listener.read(&behind), Err(SealError::Protocol(_))));
        assert_eq!(listener.read(&behind), Ok(0), "it is over");

        let (mut caller, mut listener) = ends(passphrase.clone(), passphrase);
        listen_only(&mut listener, &mut caller);
        bytes.clear();
        listener.write(&mut bytes);
        caller.read(&bytes).unwrap();
        listen_only(&mut listener, &mut caller);
        listener.tls.send_close_notify();
        bytes.clear();
        listener.write(&mut bytes);
        bytes.extend_from_slice(&behind);
        assert!(matches!(caller.read(&bytes), Err(SealError::Protocol(_))));
    }

    #[test]
    fn hostile_bytes_are_errors() {
        let passphrase = Passphrase::from_key([1; 32]);
        let (_, mut listener) = ends(passphrase.clone(), passphrase);
        assert!(matches!(listener.read(&[0x55; 3000]), Err(SealError::Protocol(_))));
    }
}
