//! The handshake of an encrypted stream on its TCP socket, before the first record.

use std::io;

use timeous_seal::{Agreement, Intent, SealError, Secrets, Session};

use crate::socket::{End, Socket};

/// Read buffer in bytes: a listener's whole answer with a usual certificate chain. Chosen by us.
const BUFFER: usize = 4096;
/// Maximum number of reads per turn, so that other streams have theirs. Chosen by us: a handshake takes two.
const TURN: u32 = 8;

/// One end of a handshake.
#[derive(Debug)]
pub(crate) struct Handshake {
    session: Session,
    /// Bytes for the peer, of which the kernel has taken the first `sent`.
    out: Vec<u8>,
    sent: usize,
    agreed: Option<Agreed>,
}

/// Result of a handshake.
#[derive(Debug)]
pub(crate) struct Agreed {
    pub(crate) secrets: Secrets,
    /// Stream that the caller has named; empty: none.
    pub(crate) stream_id: String,
    /// Direction of the data for which the caller was admitted.
    pub(crate) intent: Intent,
    /// Bytes of the peer's records that were read with the last bytes of its handshake.
    pub(crate) rest: Vec<u8>,
}

/// Failure of a handshake.
#[derive(Debug)]
pub enum HandshakeFailure {
    /// The two ends cannot agree; the peer was told why.
    Seal(SealError),
    /// The connection has failed.
    Socket(io::Error),
}

/// Meaning of a socket's failure before the peer has said anything. A listener that encrypts refuses callers that it has admitted only: a
/// reset before that is of a peer that does not encrypt, whether it was busy, or closed with bytes that it had not read.
pub(crate) fn unanswered(error: io::Error) -> HandshakeFailure {
    match is_reset(&error) {
        true => HandshakeFailure::Seal(SealError::PeerIsPlain),
        false => HandshakeFailure::Socket(error),
    }
}

/// Returns whether an error tells that the peer has reset the connection.
pub(crate) fn is_reset(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::NotConnected
    )
}

impl Handshake {
    pub(crate) fn new(mut session: Session) -> Self {
        let mut out = Vec::new();
        session.write(&mut out);
        Self { session, out, sent: 0, agreed: None }
    }

    /// Reads and writes what there is; returns the result once the peer's kernel can have all that it needs.
    pub(crate) fn advance(&mut self, socket: &mut Socket) -> Result<Option<Agreed>, HandshakeFailure> {
        self.exchange(socket).map_err(|failure| match failure {
            HandshakeFailure::Socket(error) if !self.session.has_heard() => unanswered(error),
            failure => failure,
        })
    }

    fn exchange(&mut self, socket: &mut Socket) -> Result<Option<Agreed>, HandshakeFailure> {
        self.flush(socket)?;
        for _ in 0..TURN {
            let mut buffer = [0; BUFFER];
            // Bytes behind the handshake are for the reader of records.
            if self.agreed.is_some() {
                break;
            }
            let Some(len) = socket.receive(&mut buffer).map_err(HandshakeFailure::Socket)? else { break };
            if len == 0 {
                return Err(HandshakeFailure::Seal(match self.session.has_heard() {
                    false => SealError::PeerIsPlain,
                    true => SealError::Protocol("it ends in the middle".into()),
                }));
            }
            let read = self.session.read(&buffer[..len]);
            self.session.write(&mut self.out);
            self.agreed = self.session.take_agreement().map(|Agreement { secrets, stream_id, intent, .. }| {
                let rest = buffer[*read.as_ref().unwrap_or(&len)..len].to_vec();
                Agreed { secrets, stream_id, intent, rest }
            });
            // An answer or an alert goes out before the connection is closed.
            let flushed = self.flush(socket);
            read.map_err(HandshakeFailure::Seal)?;
            flushed?;
        }
        Ok(if self.wants_write() { None } else { self.agreed.take() })
    }

    /// Returns whether the kernel had no room for all bytes.
    pub(crate) fn wants_write(&self) -> bool {
        self.sent < self.out.len()
    }

    /// Returns the number of bytes sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent as u64
    }

    fn flush(&mut self, socket: &Socket) -> Result<(), HandshakeFailure> {
        while self.wants_write() {
            // No record shares a segment with the handshake.
            match socket.send(&self.out[self.sent..], End::OfSegment).map_err(HandshakeFailure::Socket)? {
                Some(taken) => self.sent += taken,
                None => break,
            }
        }
        Ok(())
    }
}
