//! An accepted connection before its stream: during its handshake, if the listener has a credential; and where UDP streams
//! may move here, until its first record tells whether it continues one of them.

use std::io;
use std::net::SocketAddr;

use rustix::event::PollFlags;
use timeous_core::{Duration, Instant};
use timeous_seal::{Intent, Secrets, Session};
use timeous_tcp::record::{Framing, Ordered};

use crate::handshake::{Agreed, Handshake, HandshakeFailure};
use crate::identity::{Hello, Identity};
use crate::socket::{End, Socket};
use crate::trial::{TRIAL_LEN, is_trial};

/// Time for the first record. A caller that sends none is new: a foreign receiver, which waits for data. Chosen by us:
/// a higher value serves such receivers later.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time for a handshake, as over datagrams (`timeous_seal::EndpointConfig`).
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// Time for a refused caller to read why, before the connection is closed. Chosen by us: longer than most round trips; with
/// unread data it is closed by a reset, which may overtake the reason.
const LINGER: Duration = Duration::from_secs(1);

/// An accepted connection. Dropping it closes it.
#[derive(Debug)]
pub struct Incoming<L> {
    /// Listener's data, as given by its owner.
    pub listening: L,
    /// UDP port whose streams may move here; `None`: streams begin here only.
    pub beside: Option<u64>,
    /// Stream that the connection continues; `None`: a new one.
    pub identity: Option<Identity>,
    /// Stream that the caller has named; empty: none.
    pub stream_id: String,
    /// Direction of the data for which the caller was admitted; `None`: without encryption.
    pub intent: Option<Intent>,
    pub(crate) socket: Socket,
    /// Bytes received so far, behind the handshake.
    pub(crate) bytes: Vec<u8>,
    /// Deadline for the handshake or the first record; `None` if neither is waited for, or the latter without end.
    pub(crate) until: Option<Instant>,
    /// The connection is a stream with its first bytes only.
    awaits_data: bool,
    /// Whether the connection is of no use: closed by the peer, or not agreed.
    pub(crate) is_gone: bool,
    handshake: Option<Box<Handshake>>,
    /// The handshake has failed, and the peer reads why.
    has_failed: bool,
    /// Its first bytes were found to be no [trial](crate::Trial).
    is_no_trial: bool,
    /// Keys that the ends have agreed on; `None`: the stream is plain.
    pub(crate) secrets: Option<Secrets>,
}

impl<L> Incoming<L> {
    /// Takes over an accepted connection of a caller without encryption, who may have to send something first.
    pub(crate) fn plain(
        now: Instant,
        socket: Socket,
        (listening, beside): (L, Option<u64>),
        awaits_data: bool,
    ) -> Self {
        let incoming = Self::new(now, socket, listening, beside);
        let until = incoming.until.filter(|_| !awaits_data);
        Self { awaits_data, until, ..incoming }
    }

    /// Takes over an accepted connection, which may continue a stream of the UDP port `beside`.
    fn new(now: Instant, socket: Socket, listening: L, beside: Option<u64>) -> Self {
        Self {
            listening,
            beside,
            identity: None,
            stream_id: String::new(),
            intent: None,
            socket,
            bytes: Vec::new(),
            until: beside.map(|_| now + PATIENCE),
            awaits_data: false,
            is_gone: false,
            handshake: None,
            has_failed: false,
            is_no_trial: false,
            secrets: None,
        }
    }

    /// Takes over an accepted connection whose caller has to agree on keys first.
    pub(crate) fn sealed(
        now: Instant,
        socket: Socket,
        (listening, beside): (L, Option<u64>),
        session: Session,
    ) -> Self {
        let handshake = Some(Box::new(Handshake::new(session)));
        let until = Some(now + HANDSHAKE_PATIENCE);
        Self { handshake, until, ..Self::new(now, socket, listening, beside) }
    }

    /// Returns whether its handshake is in progress.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.handshake.is_some()
    }

    /// Returns whether its caller has to send something before it is a stream, and has not.
    pub fn is_silent(&self) -> bool {
        self.awaits_data && self.bytes.is_empty()
    }

    /// Returns what its socket is watched for.
    pub(crate) fn interest(&self) -> PollFlags {
        let is_full = !self.has_failed && self.handshake.as_ref().is_some_and(|handshake| handshake.wants_write());
        if is_full { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
    }

    /// Returns the caller's address.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        self.socket.peer()
    }

    /// Refuses the connection as busy: by a reset.
    pub fn refuse(self) {
        self.socket.reset();
    }

    /// Goes on with the handshake; returns whether it has ended.
    fn shake_hands(&mut self, now: Instant, until: Instant) -> bool {
        let Some(handshake) = &mut self.handshake else { return true };
        if !self.has_failed {
            match handshake.advance(&mut self.socket) {
                Ok(None) => {}
                Ok(Some(Agreed { secrets, stream_id, intent, rest })) => {
                    (self.secrets, self.stream_id, self.bytes) = (Some(secrets), stream_id, rest);
                    self.intent = Some(intent);
                    (self.handshake, self.until) = (None, self.beside.map(|_| now + PATIENCE));
                    return true;
                }
                Err(HandshakeFailure::Socket(_)) => self.is_gone = true,
                Err(HandshakeFailure::Seal(error)) => {
                    tracing::debug!(%error, "a caller is not admitted");
                    self.socket.shut();
                    (self.has_failed, self.until) = (true, Some(until.min(now + LINGER)));
                }
            }
        }
        if self.has_failed {
            let mut buffer = [0; 1024];
            self.is_gone |= !matches!(self.socket.receive(&mut buffer), Ok(None | Some(1..)));
        }
        self.is_gone |= now >= until;
        self.is_gone
    }

    /// Answers a caller that wants to know which of its bytes arrive, and closes its connection; returns whether it is one.
    fn answer_trial(&mut self) -> bool {
        let mut bytes = [0; TRIAL_LEN];
        match self.socket.peek(&mut bytes) {
            Ok(None) => return false,
            Ok(Some(len)) if is_trial(&bytes[..len]) => {}
            Ok(Some(_)) | Err(_) => {
                self.is_no_trial = true;
                return false;
            }
        }
        // With bytes that were not read, closing would be a reset. A send buffer has room for a first answer.
        let _received = self.socket.receive(&mut bytes);
        let _sent = self.socket.send(&bytes, End::OfSegment);
        self.socket.shut();
        self.is_gone = true;
        true
    }

    /// Goes on with the handshake, or reads the first record and no more bytes than it takes; returns whether the stream is
    /// known.
    pub(crate) fn look(&mut self, now: Instant) -> bool {
        if !self.is_no_trial && self.answer_trial() {
            return true;
        }
        if self.is_handshaking()
            && let Some(until) = self.until
            && (!self.shake_hands(now, until) || self.is_gone)
        {
            return self.is_gone;
        }
        if self.until.is_none() && !self.is_silent() {
            return true;
        }
        let is_sealed = self.secrets.is_some();
        let len = Hello::record_len(is_sealed);
        let mut buffer = [0; Hello::LONGEST_RECORD];
        while self.bytes.len() < len {
            match self.socket.receive(&mut buffer[self.bytes.len()..len]) {
                Ok(Some(0)) | Err(_) => {
                    self.is_gone = true;
                    return true;
                }
                Ok(Some(len)) => {
                    if self.is_silent() {
                        self.until = self.beside.map(|_| now + PATIENCE);
                    }
                    let from = self.bytes.len();
                    self.bytes.extend_from_slice(&buffer[from..from + len]);
                }
                Ok(None) if self.is_silent() => return false,
                Ok(None) => return self.until.is_none_or(|until| now >= until),
            }
        }
        if self.beside.is_none() {
            return true;
        }
        // Bytes that came with the handshake's last ones may hold more records.
        let first = &self.bytes[..len];
        Ordered::new(Framing::of_received(self.secrets.as_ref()), len).push(first, |datagram| {
            if datagram.is_control {
                self.identity = Hello::read(datagram.payload, is_sealed).and_then(|hello| hello.0);
            }
        });
        true
    }
}
